//! A causal assistant named beside a model: taken where its special ids and its tokenizer are the model's, refused with a
//! sentence where they are not, remarked on where its config is that of a diffusion model.

use std::fs;
use std::path::{Path, PathBuf};

use demask_engine::{Beside, Model, Prompt};
use demask_model::checkpoint::source::Progress;
use serde_json::{Value, json};
use tempfile::TempDir;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures").join(name)
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// The verifier of the APD fixture with these fields in its config, and this tokenizer if any.
fn verifier(fields: Value, tokenizer: Option<&Value>) -> TempDir {
    let (from, folder) = (fixture("apd-toy/verifier"), tempfile::tempdir().unwrap());
    let mut config = read(&from.join("config.json"));
    config.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    fs::copy(from.join("model.safetensors"), folder.path().join("model.safetensors")).unwrap();
    if let Some(tokenizer) = tokenizer {
        fs::write(folder.path().join("tokenizer.json"), tokenizer.to_string()).unwrap();
        let settings = "tokenizer_config.json";
        fs::copy(fixture("dream-toy").join(settings), folder.path().join(settings)).unwrap();
    }
    folder
}

/// Keeps what a user is told.
#[derive(Default)]
struct Told(Vec<String>);

impl Progress for Told {
    fn warn(&mut self, sentence: &str) {
        self.0.push(sentence.to_owned());
    }
}

/// The toy model with this assistant, and what is said of it.
fn beside(assistant: &Path) -> (Result<Model, String>, Vec<String>) {
    let (toy, mut told) = (fixture("dream-toy"), Told::default());
    let beside = Beside { assistant: Some(assistant.to_owned()), ..Beside::default() };
    let model = Model::loader(toy.to_str().unwrap()).beside(beside).progress(&mut told).load();
    (model.map_err(|error| error.to_string()), told.0)
}

#[test]
fn another_end_another_padding_and_another_tokenizer_are_refused() {
    let own = read(&fixture("dream-toy/tokenizer.json"));
    let mut other = own.clone();
    let words = other["model"]["vocab"].as_object_mut().unwrap();
    let (plus, minus) = (words["+"].clone(), words["-"].clone());
    words.insert("+".into(), minus);
    words.insert("-".into(), plus);
    for (fields, tokenizer, why) in [
        (json!({ "eos_token_id": 7 }), None, "its end of sequence is Some(7) and the model's is Some(2)"),
        (json!({ "eos_token_id": 7 }), Some(&own), "its end of sequence is Some(7)"),
        (json!({ "pad_token_id": 5 }), None, "its padding is 5 and the model's is 0"),
        (json!({ "bos_token_id": 4 }), None, "its beginning of sequence is 4 and the model's is 3"),
        (json!({}), Some(&other), "its token 4 is \"-\" and the model's is \"+\""),
    ] {
        let folder = verifier(fields, tokenizer);
        let error = beside(folder.path()).0.err().unwrap_or_else(|| panic!("{why}"));
        assert!(error.contains(why) && error.contains("cannot assist"), "{error}");
    }
}

#[test]
fn one_that_agrees_is_taken_without_a_word() {
    let own = read(&fixture("dream-toy/tokenizer.json"));
    // With a tokenizer that is the model's, it is the tokenizer that says what ids mean: released models of one tokenizer
    // name different beginnings in their configs.
    for (fields, tokenizer) in [
        (json!({}), None),
        (json!({}), Some(&own)),
        (json!({ "bos_token_id": 4, "pad_token_id": 5 }), Some(&own)),
    ] {
        let folder = verifier(fields, tokenizer);
        let (model, told) = beside(folder.path());
        assert!(told.is_empty(), "{told:?}");
        let answer =
            model.unwrap().generate(Prompt::raw("eva has 7")).strategy("apd").length(9).run().unwrap();
        assert!(answer.metrics.assistant_rows > 0);
    }
}

/// The config of a causal checkpoint that pre-training leaves behind is that of its diffusion model, so the config cannot
/// tell the two apart, and a word must do; not where the checkpoint brings its own assistant.
#[test]
fn a_diffusion_model_is_remarked_on_once() {
    let (model, told) = beside(&fixture("dream-toy"));
    assert!(model.is_ok() && told.len() == 1, "{told:?}");
    assert!(told[0].contains("described as a diffusion model") && told[0].contains("dream-toy"), "{told:?}");

    let folder = tempfile::tempdir().unwrap();
    let names = ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"];
    fs::create_dir(folder.path().join("assistant")).unwrap();
    for name in names {
        let from = fixture("dream-toy").join(name);
        fs::copy(&from, folder.path().join(name)).unwrap();
        fs::copy(&from, folder.path().join("assistant").join(name)).unwrap();
    }
    let mut told = Told::default();
    let model = Model::loader(folder.path().to_str().unwrap()).progress(&mut told).load().unwrap();
    assert!(model.context().assistant.is_some() && told.0.is_empty(), "{:?}", told.0);
}
