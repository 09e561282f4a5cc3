//! Block-causal models: requests that begin with the same tokens share finished blocks, and decided tokens may be edited.

use std::path::Path;
use std::sync::Arc;

use axum::Router;
use demask_decode::Editing;
use demask_engine::{Decoding, Model, Prompt, Text};
use demask_model::text::Tokenizer;
use demask_model::{Backbone as _, LoadOptions, Transformer};
use demask_serve::{Served, Server, ServerSettings, app};
use serde_json::{Value, json};

use crate::support::{metric, ok, post, run, stream};

fn model(name: &str) -> Model {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures").join(name);
    let backbone = Transformer::load(&folder, &LoadOptions::default()).unwrap();
    let tokenizer = Tokenizer::of_numbers(&folder, backbone.spec().vocab).unwrap();
    let text = Text::new(&folder, backbone.spec().clone(), tokenizer, None);
    Model::new(Arc::new(backbone), text).named("toy")
}

fn serving(name: &str, settings: ServerSettings) -> Router {
    let served = Served { model: model(name), decoding: Decoding::default(), tasks: None };
    app(Server::start(served, settings).unwrap().0)
}

fn asking(prompt: &[u32], more: &Value) -> Value {
    let mut body = json!({
        "prompt": prompt, "max_tokens": 24, "temperature": 0, "seed": 1, "block_length": 8, "eos": "none"
    });
    for (field, value) in more.as_object().unwrap() {
        body[field] = value.clone();
    }
    body
}

#[test]
fn requests_with_the_same_beginning_share_its_blocks() {
    run(async {
        let whole: Vec<u32> = (5..45).collect();
        let more = json!({ "strategy": "entropy:k=2" });
        let apart = serving("sdar-toy", ServerSettings { prefix_memory: 0, ..ServerSettings::default() });
        let together = serving("sdar-toy", ServerSettings::default());
        // 40 tokens of prompt are 5 blocks; then a shorter one, and one that differs after 2 blocks.
        let other = [&whole[..20], &[99, 98, 97]].concat();
        for (prompt, shared) in [(&whole[..], 0.0), (&whole, 40.0), (&whole[..19], 56.0), (&other, 72.0)] {
            let body = asking(prompt, &more);
            let (alone, with) =
                (ok(&apart, "/v1/completions", &body).await, ok(&together, "/v1/completions", &body).await);
            assert_eq!(alone["choices"], with["choices"]);
            assert_eq!(metric(&together, "demask_shared_rows_total").await, shared);
        }
        assert_eq!(metric(&apart, "demask_shared_rows_total").await, 0.0);
        assert!(metric(&together, "demask_prefix_bytes").await > 0.0);
        assert_eq!(metric(&apart, "demask_prefix_bytes").await, 0.0);
    });
}

#[test]
fn decided_tokens_are_edited_where_a_request_asks_for_it() {
    run(async {
        let app = serving("llada2-toy", ServerSettings::default());
        let prompt: Vec<u32> = (5..18).collect();
        let strategy = "llada2:threshold=0.1,transfer=2";
        let plain = json!({ "strategy": strategy });
        let edited = json!({ "strategy": strategy, "edit_threshold": 0.0, "post_steps": 3 });
        let text = |answer: &Value| answer["choices"][0]["text"].as_str().unwrap().to_owned();
        let without = text(&ok(&app, "/v1/completions", &asking(&prompt, &plain)).await);
        let with = text(&ok(&app, "/v1/completions", &asking(&prompt, &edited)).await);
        assert_ne!(with, without);
        // The same as without a server.
        let decoding = Decoding {
            strategy: Some(strategy.parse().unwrap()),
            length: Some(24),
            temperature: Some(0.0),
            seed: 1,
            block_length: Some(8),
            eos: "none".parse().unwrap(),
            editing: Some(Editing { threshold: 0.0, post_steps: 3 }),
            ..Decoding::default()
        };
        let answer = model("llada2-toy").generate(Prompt::Tokens(prompt.clone())).decoding(decoding).run();
        assert_eq!(with, answer.unwrap().text);
        // A stream hands nothing out that is edited afterwards.
        let mut body = asking(&prompt, &edited);
        body["stream"] = true.into();
        let (chunks, done) = stream(&app, "/v1/completions", &body).await;
        let joined: String = chunks.iter().filter_map(|c| c["choices"][0]["text"].as_str()).collect();
        assert!(done && joined == with, "{joined} is not {with}");
    });
}

#[test]
fn editing_is_checked() {
    run(async {
        let app = serving("llada2-toy", ServerSettings::default());
        for (more, named) in [
            (json!({ "edit_threshold": 1.5 }), "edit_threshold"),
            (json!({ "edit_threshold": "high" }), "edit_threshold"),
            (json!({ "post_steps": 3 }), "post_steps"),
            (json!({ "edit_threshold": 0.5, "post_steps": -1 }), "post_steps"),
        ] {
            let (status, answer) = post(&app, "/v1/completions", &asking(&[5, 6, 7], &more)).await;
            assert_eq!(status, 400, "{more}: {answer}");
            assert_eq!(answer["error"]["param"], named, "{more}: {answer}");
        }
    });
}
