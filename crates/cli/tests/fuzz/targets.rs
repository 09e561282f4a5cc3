//! The readers, one test each.

use std::fs;
use std::path::Path;
use std::str::FromStr;

use axum::body::Body;
use axum::http::Request;
use demask::decode::dependency::{Parts, Predictor};
use demask::decode::trace::Trace;
use demask::decode::{CacheSpec, Context, Draw, EosPolicy, HoldEos, StrategySpec};
use demask::eval::run::Records;
use demask::eval::run::grid::{self, Grid};
use demask::model::checkpoint::Store;
use demask::model::gguf::Gguf;
use demask::model::text::{ChatTemplate, Conversation, Message, Tokenizer, TokenizerSettings};
use demask::model::{LoadOptions, Spec, Transformer};
use demask::serve::{Served, Server, app};
use demask::train::tv_cache::{Cache, Columns};
use demask::{Decoding, Model};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::support::{Folder, PROMPT};
use crate::{fuzz, seeds};

const NOWHERE: &str = "input";

#[test]
fn config() {
    let seeds = ["dream-toy/config.json", "llada-toy/config.json"].map(seeds::file);
    fuzz("config", &seeds, |input| {
        std::str::from_utf8(input).is_ok_and(|text| Spec::from_json(text, Path::new(NOWHERE)).is_ok())
    });
}

#[test]
fn safetensors() {
    let seeds = [seeds::weights(), seeds::file("dream-toy/predictor_row_i.safetensors")];
    fuzz("safetensors", &seeds, |input| {
        let Ok(store) = Store::from_bytes(NOWHERE, input.to_vec()) else { return false };
        // Everything that a header lets through can be read.
        store.names().for_each(|name| {
            let _ = store.tensor(name).map(|tensor| tensor.to_f32());
        });
        true
    });
}

#[test]
fn index() {
    let folder = Folder::new();
    let shard = "model-00001-of-00001.safetensors";
    folder.write(shard, &seeds::weights());
    let index = json!({
        "metadata": { "total_size": 64 },
        "weight_map": { "model.norm.weight": shard, "model.embed_tokens.weight": shard },
    });
    fuzz("index", &[index.to_string().into_bytes()], |input| {
        folder.write("model.safetensors.index.json", input);
        Store::open(folder.root()).is_ok()
    });
}

#[test]
fn gguf() {
    let folder = Folder::new();
    let whole = seeds::gguf(&folder);
    let path = folder.path("input.gguf");
    fuzz("gguf", &[whole], |input| {
        folder.write("input.gguf", input);
        let Ok(gguf) = Gguf::open(Path::new(&path)) else { return false };
        let _ = (gguf.spec(), gguf.size_in_bytes());
        let _ = TokenizerSettings::open(&path);
        Transformer::load(Path::new(&path), &LoadOptions::default()).is_ok()
    });
}

#[test]
fn tokenizer_settings() {
    let seeds = [
        seeds::file("dream-toy/tokenizer_config.json"),
        json!({ "bos_token": { "content": "<s>" }, "additional_special_tokens": ["<a>", { "content": "<b>" }],
                "added_tokens_decoder": { "1": { "content": "x" } },
                "chat_template": [{ "name": "default", "template": "{{ bos_token }}" }] })
        .to_string()
        .into_bytes(),
    ];
    fuzz("tokenizer-settings", &seeds, |input| {
        let Ok(settings) = TokenizerSettings::from_bytes(NOWHERE, input) else { return false };
        let _ = settings.special("bos_token");
        ChatTemplate::from_settings(&settings).is_ok()
    });
}

#[test]
fn tokenizer() {
    let settings = TokenizerSettings::from_bytes(NOWHERE, b"{}").unwrap();
    fuzz("tokenizer", &[seeds::file("dream-toy/tokenizer.json")], |input| {
        let Ok(tokenizer) = Tokenizer::from_bytes(NOWHERE, input, settings.clone(), 4096) else {
            return false;
        };
        let _ = tokenizer.encode(PROMPT).and_then(|ids| tokenizer.decode(&ids));
        true
    });
}

#[test]
fn chat_template() {
    let cases = serde_json::from_slice(&seeds::file("chat-templates/cases.json")).unwrap();
    let mut seeds = Vec::new();
    templates(&cases, &mut seeds);
    seeds.push(b"{% for m in messages %}{{ m['role'] + ': ' + m.content | trim }}\n{% endfor %}".to_vec());
    let messages =
        [Message::new("user", "hello"), Message::new("assistant", "hi"), Message::new("user", "bye")];
    let seeds: Vec<Vec<u8>> = seeds.into_iter().filter(|text| render(text, &messages)).collect();
    fuzz("chat-template", &seeds, |input| render(input, &messages));
}

/// The texts of a document that are templates.
fn templates(value: &Value, found: &mut Vec<Vec<u8>>) {
    match value {
        Value::String(text) if text.contains("{%") => found.push(text.clone().into_bytes()),
        Value::Array(list) => list.iter().for_each(|value| templates(value, found)),
        Value::Object(map) => map.values().for_each(|value| templates(value, found)),
        _ => {}
    }
}

fn render(template: &[u8], messages: &[Message]) -> bool {
    let Ok(template) = std::str::from_utf8(template) else { return false };
    let settings = json!({ "chat_template": template, "bos_token": "<s>", "eos_token": "</s>" }).to_string();
    let settings = TokenizerSettings::from_bytes(NOWHERE, settings.as_bytes()).unwrap();
    match ChatTemplate::from_settings(&settings) {
        Ok(Some(template)) => template.render(&Conversation::new(messages)).is_ok(),
        _ => false,
    }
}

#[test]
fn predictor() {
    let seeds = ["dream-toy/predictor_row_i.safetensors", "dream-toy/predictor_row_i_minus_1.safetensors"];
    fuzz("predictor", &seeds.map(seeds::file), |input| {
        let store = Store::from_bytes(NOWHERE, input.to_vec());
        let Ok(Ok((parts, _))) = store.map(|store| Parts::from_store(&store)) else { return false };
        Predictor::new(parts).is_ok()
    });
}

#[test]
fn cache_shard() {
    let folder = Folder::new();
    let cache = seeds::cache(&folder);
    let shard = cache.join("tv-00000.parquet");
    fuzz("cache-shard", &[fs::read(&shard).unwrap()], |input| {
        fs::write(&shard, input).unwrap();
        Cache::open(&cache).unwrap().read(0, Columns::ALL).is_ok()
    });
}

#[test]
fn cache_manifest() {
    let folder = Folder::new();
    let cache = seeds::cache(&folder);
    let manifest = cache.join("manifest.json");
    fuzz("cache-manifest", &[fs::read(&manifest).unwrap()], |input| {
        fs::write(&manifest, input).unwrap();
        let Ok(cache) = Cache::open(&cache) else { return false };
        let manifest = cache.manifest();
        let _ = (manifest.responses(), manifest.pairs(), manifest.refused());
        (0..manifest.files.len()).all(|file| cache.read(file, Columns::ALL).is_ok())
    });
}

#[test]
fn journal() {
    let folder = Folder::new();
    let (out, model) = (folder.path("run"), crate::support::fixture());
    let call =
        ["eval", "--model", &model, "-s", "entropy", "--tasks", "arith", "--limit", "3", "--out", &out];
    let made = crate::support::demask(&[&call[..], &["-n", "8"]].concat());
    assert_eq!(made.code, 0, "{}", made.err);
    let records = Path::new(&out).join("records.jsonl");
    fuzz("journal", &[fs::read(&records).unwrap()], |input| {
        fs::write(&records, input).unwrap();
        Records::read(Path::new(&out)).is_ok()
    });
}

#[test]
fn trace_file() {
    let folder = Folder::new();
    fuzz("trace", &[seeds::trace(&folder)], |input| {
        std::str::from_utf8(input).is_ok_and(|text| Trace::parse(text).is_ok())
    });
}

#[test]
fn spelling() {
    let seeds = [
        "demask:tau=0.04,gamma=0.9",
        "klass:conf=0.9,kl=0.0003",
        "entropy:k=2",
        "none",
        "prefix",
        "fill-after",
    ];
    let context = Context::default();
    fuzz("spelling", &seeds.map(|seed| seed.as_bytes().to_vec()), |input| {
        let Ok(text) = std::str::from_utf8(input) else { return false };
        let strategy = StrategySpec::from_str(text);
        if let Ok(strategy) = &strategy {
            let _ = strategy.build(&context);
            assert_eq!(strategy.to_string().parse::<StrategySpec>().unwrap(), *strategy);
        }
        strategy.is_ok()
            | CacheSpec::from_str(text).is_ok()
            | EosPolicy::from_str(text).is_ok()
            | Draw::from_str(text).is_ok()
            | HoldEos::from_str(text).is_ok()
    });
}

#[test]
fn grid_file() {
    let seeds = [grid::PAPER, grid::LAB].map(|text| text.as_bytes().to_vec());
    fuzz("grid", &seeds, |input| {
        std::str::from_utf8(input).is_ok_and(|text| Grid::parse(NOWHERE, text).is_ok())
    });
}

#[test]
fn request_body() {
    let folder = seeds::fixtures().join("dream-toy");
    let model = Model::load(folder.to_str().unwrap()).unwrap();
    let decoding =
        Decoding { strategy: Some("entropy".parse().unwrap()), length: Some(2), ..Decoding::default() };
    let served = Served { model, decoding, tasks: None };
    let settings = demask::serve::ServerSettings { max_tokens: 4, max_canvases: 2, ..Default::default() };
    let app = app(Server::start(served, settings).unwrap().0);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let seeds = [
        json!({ "prompt": "eva has 7", "max_tokens": 2, "strategy": "top1:k=2", "seed": 3, "stop": ["x"] }),
        json!({ "text": "eva has [MASK] shells [MASK:2]" }),
        json!({ "tokens": [1, 2, 3] }),
        json!({ "messages": [{ "role": "user", "content": "hi" }], "temperature": 0.5, "top_p": 0.9, "n": 2 }),
    ];
    let paths = ["/v1/completions", "/v1/tokenize", "/v1/infill", "/v1/detokenize", "/v1/chat/completions"];
    fuzz("request-body", &seeds.map(|seed| seed.to_string().into_bytes()), |input| {
        let mut accepted = false;
        for path in paths {
            let request = Request::post(path).body(Body::from(input.to_vec())).unwrap();
            let response = runtime.block_on(app.clone().oneshot(request)).unwrap();
            assert!(response.status().as_u16() != 500, "{path} fails");
            accepted |= response.status().is_success() || response.status().as_u16() == 400;
        }
        accepted
    });
}
