//! The whole DEMASK path on LLaDA, as a user walks it: a TV cache of responses, a predictor trained on it, decoding
//! with that predictor. Nothing in it knows that the backbone is not Dream.

mod support;

use std::path::Path;

use serde_json::{Value, json};
use support::{Folder, demask};

/// The toy with a tokenizer: its vocabulary has 160 words without meaning.
fn model() -> Folder {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/llada-toy");
    let folder = Folder::copy_of(&fixture.display().to_string());
    let words: serde_json::Map<String, Value> = (0..160).map(|id| (format!("w{id}"), id.into())).collect();
    let special = |id: u32| {
        json!({"id": id, "content": format!("w{id}"), "special": true, "single_word": false, "lstrip": false,
               "rstrip": false, "normalized": false})
    };
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [special(150), special(151)],
        "normalizer": null, "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": null, "decoder": null,
        "model": {"type": "WordLevel", "vocab": words, "unk_token": "w0"}
    });
    folder.write("tokenizer.json", tokenizer.to_string().as_bytes());
    folder
}

fn words(seed: usize, count: usize) -> String {
    let word = |i: usize| format!("w{}", (seed * 31 + i * 17 + i * i * 3) % 150);
    (0..count).map(word).collect::<Vec<_>>().join(" ")
}

#[test]
fn cache_training_and_decoding() {
    let model = model();
    let rows: Vec<String> = (0..24)
        .map(|i| json!({"prompt": words(i, 5 + i % 4), "response": words(i + 100, 6 + i % 5)}).to_string())
        .collect();
    let data = model.write("responses.jsonl", rows.join("\n").as_bytes());
    let (cache, predictor) = (model.path("cache"), model.path("learned.safetensors"));
    let made = demask(&[
        "cache",
        "generate",
        "-m",
        &model.root(),
        "--data",
        &data,
        "--out",
        &cache,
        "--raw",
        "--masks-per-response",
        "3",
    ]);
    assert_eq!(made.code, 0, "{}", made.err);
    let info = demask(&["cache", "info", &cache]);
    assert_eq!(info.code, 0, "{}", info.err);
    assert!(info.out.contains("24"), "{}", info.out);
    let trained = demask(&[
        "train",
        "predictor",
        "--cache",
        &cache,
        "--out",
        &predictor,
        "--hidden-row",
        "i",
        "--epochs",
        "3",
        "--batch",
        "4",
        "--rate",
        "0.003",
    ]);
    assert_eq!(trained.code, 0, "{}", trained.err);
    let decode = |strategy: &str| -> Value {
        let run = demask(&[
            "generate",
            "-m",
            &model.root(),
            "-n",
            "24",
            "--predictor",
            &predictor,
            "-s",
            strategy,
            "--eos",
            "none",
            "--json",
            &words(7, 8),
        ]);
        assert_eq!(run.code, 0, "{strategy}: {}", run.err);
        serde_json::from_str(&run.out).unwrap()
    };
    let generous = decode("demask:tau=8,gamma=0.02");
    let canvas = generous["canvas"].as_array().unwrap();
    assert_eq!(canvas.len(), 24);
    assert!(!canvas.contains(&150.into()), "no mask is left");
    assert!(generous["steps"].as_u64().unwrap() < 24, "several tokens a step: {}", generous["steps"]);
    // No budget, no company: the paper's special case of one token a step, left to right.
    let strict = decode("demask:tau=0,gamma=1");
    assert_eq!(strict["steps"], 24);
    assert_eq!(strict["canvas"], decode("token-order")["canvas"]);
}
