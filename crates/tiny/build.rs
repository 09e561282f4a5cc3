//! Compiles the small causal assistant in, where `checkpoint/assistant` holds one.

use std::path::PathBuf;
use std::{env, fs};

fn main() {
    let given = |name: &str| env::var_os(name).map(PathBuf::from).unwrap_or_default();
    let folder = given("CARGO_MANIFEST_DIR").join("checkpoint/assistant");
    // Its parent: a path that is not there would make cargo compile this crate and all above it every time.
    println!("cargo:rerun-if-changed=checkpoint");
    let (config, weights) = (folder.join("config.json"), folder.join("model.safetensors"));
    let text = match config.exists() && weights.exists() {
        true => format!(
            "Some(Assistant {{ config: include_str!({config:?}), weights: include_bytes!({weights:?}) }})"
        ),
        false => "None".to_owned(),
    };
    let out = given("OUT_DIR").join("assistant.rs");
    if let Err(cause) = fs::write(&out, text) {
        panic!("cannot write {}: {cause}", out.display());
    }
}
