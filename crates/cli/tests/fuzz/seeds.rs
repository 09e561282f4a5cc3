//! Where inputs begin: the fixtures, and small files made of them by the program itself.

use std::fs;
use std::path::{Path, PathBuf};

use demask::model::Spec;
use demask::model::checkpoint::Store;
use demask::model::gguf::{Kind, Vocabulary, write};
use serde_json::json;

use crate::support::{Folder, PROMPT, demask, fixture};

/// A file of the fixtures.
pub(crate) fn file(path: &str) -> Vec<u8> {
    fs::read(fixtures().join(path)).unwrap()
}

pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures")
}

/// A model small enough that a million copies of it can be read.
pub(crate) fn weights() -> Vec<u8> {
    let header = json!({
        "__metadata__": { "format": "pt" },
        "model.norm.weight": { "dtype": "F32", "shape": [4], "data_offsets": [0, 16] },
        "model.embed_tokens.weight": { "dtype": "BF16", "shape": [6, 4], "data_offsets": [16, 64] },
    })
    .to_string();
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.bytes());
    bytes.extend([7; 64]);
    bytes
}

/// The toy as a GGUF file.
pub(crate) fn gguf(folder: &Folder) -> Vec<u8> {
    let path = folder.path("seed.gguf");
    let from = fixtures().join("dream-toy");
    let (spec, store) = (Spec::from_folder(&from).unwrap(), Store::open(&from).unwrap());
    let vocabulary =
        Vocabulary { template: Some("{{ messages[0].content }}".into()), ..Vocabulary::default() };
    let mut tensor = |name: &str, shape: &[usize]| Ok(store.tensor_shaped(name, shape)?.to_f32());
    write(Path::new(&path), &spec, Kind::Q8_0, &vocabulary, &mut tensor).unwrap();
    fs::read(path).unwrap()
}

/// A TV cache of a few responses.
pub(crate) fn cache(folder: &Folder) -> PathBuf {
    let row = |i: usize| json!({ "id": i, "prompt": PROMPT, "response": "7 + 19 = 28 ." }).to_string();
    let data = folder.write("data.jsonl", (0..3).map(row).collect::<Vec<_>>().join("\n").as_bytes());
    let (out, model) = (folder.path("cache"), fixture());
    let call = ["cache", "generate", "--model", &model, "--data", &data, "--out", &out, "--raw"];
    let made = demask(&[&call[..], &["--masks-per-response", "2"]].concat());
    assert_eq!(made.code, 0, "{}", made.err);
    out.into()
}

/// A trace of a short decoding.
pub(crate) fn trace(folder: &Folder) -> Vec<u8> {
    let (path, model) = (folder.path("seed.trace.jsonl"), fixture());
    let call =
        ["generate", "--model", &model, "--raw", "-n", "8", "-s", "entropy:k=2", "--trace", &path, PROMPT];
    let made = demask(&call);
    assert_eq!(made.code, 0, "{}", made.err);
    fs::read(path).unwrap()
}
