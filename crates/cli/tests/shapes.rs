//! Checkpoints with the widths and tensor names of the released models, made by the command itself: they are mapped,
//! not read, and decode. The vocabulary is cut and the layers are few, so that a test fits a small machine.

mod support;

use std::fs;
use std::path::Path;

use demask::model::checkpoint::Store;
use demask::model::{LoadOptions, Transformer};
use serde_json::{Value, json};
use support::{Folder, demask};

/// Dream-7B but for the vocabulary, the ids and the number of layers.
fn dream() -> Value {
    json!({
        "model_type": "Dream", "vocab_size": 2048, "hidden_size": 3584, "intermediate_size": 18944,
        "num_hidden_layers": 2, "num_attention_heads": 28, "num_key_value_heads": 4, "max_position_embeddings": 131072,
        "rms_norm_eps": 1e-6, "rope_theta": 1e6, "tie_word_embeddings": false,
        "mask_token_id": 2047, "pad_token_id": 2046, "eos_token_id": 2046
    })
}

/// LLaDA-8B but for the same.
fn llada() -> Value {
    json!({
        "model_type": "llada", "block_type": "llama", "layer_norm_type": "rms", "activation_type": "silu", "rope": true,
        "vocab_size": 2048, "embedding_size": 2112, "d_model": 4096,
        "mlp_hidden_size": 12288, "n_layers": 1, "n_heads": 32, "n_kv_heads": 32, "max_sequence_length": 4096,
        "rms_norm_eps": 1e-5, "rope_theta": 5e5, "weight_tying": false, "include_bias": false,
        "mask_token_id": 2047, "pad_token_id": 2046, "eos_token_id": 2046
    })
}

fn synthesize(folder: &Folder, config: &Value) -> String {
    let shape = folder.write("shape.json", config.to_string().as_bytes());
    let model = folder.path("model");
    let made = demask(&["synthesize", &model, "--config", &shape, "--shard", "256"]);
    assert_eq!(made.code, 0, "{}", made.err);
    assert!(Path::new(&model).join("model.safetensors.index.json").exists(), "sharded");
    model
}

/// Bytes that this process has read, and pages of files that it holds, in KiB.
fn read_and_resident() -> (u64, u64) {
    let field = |file: &str, name: &str| -> u64 {
        let text = fs::read_to_string(file).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().next().unwrap().parse().unwrap()
    };
    (field("/proc/thread-self/io", "rchar:"), field("/proc/self/status", "RssFile:"))
}

#[test]
fn dream_s_widths_are_mapped_and_decode() {
    let folder = Folder::new();
    let model = synthesize(&folder, &dream());
    let store = Store::open(&model).unwrap();
    assert!(store.tensor("model.layers.1.mlp.gate_proj.weight").unwrap().is_mapped());
    // Mapping costs what the headers cost, not what the weights weigh.
    if cfg!(target_os = "linux") {
        let (read, held) = read_and_resident();
        let loaded = Transformer::load(model.as_ref(), &LoadOptions::default()).unwrap();
        let (read_after, held_after) = read_and_resident();
        let (read, held) = (read_after - read, held_after.saturating_sub(held) << 10);
        let size = store.size_in_bytes() as u64;
        assert!(read + held < size / 8, "{read} bytes were read and {held} touched of {size}");
        drop(loaded);
    }
    let run = demask(&["generate", "-m", &model, "-n", "8", "-s", "entropy:k=4", "--json", "Hi"]);
    assert_eq!(run.code, 0, "{}", run.err);
    let object: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(object["canvas"].as_array().unwrap().len(), 8);
    assert!(!object["canvas"].as_array().unwrap().contains(&2047.into()), "no mask is left");
}

#[test]
fn llada_s_widths_decode_by_their_real_names() {
    let folder = Folder::new();
    let model = synthesize(&folder, &llada());
    let store = Store::open(&model).unwrap();
    for (name, shape) in [
        ("model.transformer.wte.weight", [2112, 4096]),
        ("model.transformer.blocks.0.q_proj.weight", [4096, 4096]),
        ("model.transformer.blocks.0.ff_proj.weight", [12288, 4096]),
        ("model.transformer.blocks.0.ff_out.weight", [4096, 12288]),
        ("model.transformer.ff_out.weight", [2112, 4096]),
    ] {
        assert_eq!(store.shape(name).unwrap(), shape, "{name}");
    }
    let run = demask(&[
        "generate",
        "-m",
        &model,
        "-n",
        "8",
        "--block-length",
        "4",
        "-s",
        "low-confidence:steps=4",
        "--cfg",
        "0.5",
        "--sampler",
        "gumbel",
        "--temperature",
        "0.5",
        "--hold-eos",
        "confidence",
        "--json",
        "Hi",
    ]);
    assert_eq!(run.code, 0, "{}", run.err);
    let object: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!((&object["steps"], &object["forwards"]), (&4.into(), &8.into()));
    let canvas = object["canvas"].as_array().unwrap();
    assert!(
        canvas.iter().all(|t| t.as_u64().unwrap() < 2047),
        "rows behind the vocabulary are never written"
    );
}

/// The names the command writes for the built-in shapes are those of the released weights.
#[test]
fn built_in_shapes_have_the_released_names() {
    for (shape, asset) in [("dream-7b", "dream-7b-instruct"), ("llada-8b", "llada-8b-instruct")] {
        let asset = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/assets").join(asset);
        let Ok(index) = fs::read(asset.join("model.safetensors.index.json")) else {
            eprintln!("skipped: {} is not there", asset.display());
            continue;
        };
        let described = demask(&["synthesize", "unused", "--shape", shape, "--dry-run"]);
        assert_eq!(described.code, 0, "{}", described.err);
        let mut ours: Vec<&str> = described.out.lines().map(|l| l.split(' ').next().unwrap()).collect();
        let index: Value = serde_json::from_slice(&index).unwrap();
        let mut theirs: Vec<&str> =
            index["weight_map"].as_object().unwrap().keys().map(String::as_str).collect();
        ours.sort_unstable();
        theirs.sort_unstable();
        assert_eq!(ours, theirs, "{shape}");
        let config: Value = serde_json::from_slice(&fs::read(asset.join("config.json")).unwrap()).unwrap();
        let head = if shape == "dream-7b" { "lm_head.weight" } else { "model.transformer.ff_out.weight" };
        let width = config["hidden_size"].as_u64().or(config["d_model"].as_u64()).unwrap();
        let line = format!("{head} [{}, {width}]", config["vocab_size"]);
        assert!(described.out.lines().any(|l| l == line), "{line}");
    }
}
