//! GGUF files: what is written is read back, every format close to the weights it was made of, damage refused.

#[path = "support/made_up.rs"]
mod made_up;

use std::fs;
use std::path::{Path, PathBuf};

use candle_core::DType;
use demask_model::checkpoint::{Dtype, Store};
use demask_model::gguf::{Kind, Vocabulary, write};
use demask_model::text::{ChatTemplate, Tokenizer};
use demask_model::{Backbone, LoadOptions, Packed, Precision, Query, Spec, Transformer};
use made_up::made_up;
use serde_json::{Value, json};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures").join(name)
}

fn convert(name: &str, kind: Kind, to: &Path) -> Spec {
    convert_folder(&fixture(name), kind, to)
}

fn convert_folder(folder: &Path, kind: Kind, to: &Path) -> Spec {
    let (spec, store) = (Spec::from_folder(folder).unwrap(), Store::open(folder).unwrap());
    let mut tensor = |name: &str, shape: &[usize]| Ok(store.tensor_shaped(name, shape)?.to_f32());
    write(to, &spec, kind, &Vocabulary::default(), &mut tensor).unwrap();
    spec
}

fn logits(model: &Transformer) -> Vec<f32> {
    let spec = model.spec();
    let token = |i: u32| if i.is_multiple_of(3) { spec.ids.mask } else { i * 5 % spec.vocab as u32 };
    let tokens: Vec<u32> = (0..29).map(token).collect();
    let all: Vec<usize> = (1..tokens.len()).collect();
    let mut batch = [Query { tokens: &tokens, predict: &all, ..Query::default() }];
    let pass = model.forward(&mut batch).unwrap().remove(0);
    let mut out = Vec::new();
    model.logits(&pass.predicting, &mut |_, rows| out.extend_from_slice(rows)).unwrap();
    out
}

fn load(path: &Path, dtype: Option<Precision>) -> Transformer {
    Transformer::load(path, &LoadOptions { dtype, ..LoadOptions::default() }).unwrap()
}

fn distance(a: &[f32], b: &[f32]) -> f32 {
    let error: f32 = a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum();
    (error / a.iter().map(|a| a * a).sum::<f32>()).sqrt()
}

#[test]
fn single_precision_comes_back_bit_for_bit() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["dream-toy", "llada-toy", "llada2-toy", "lladamoe-toy", "sdar-toy"] {
        let path = folder.path().join(format!("{name}.gguf"));
        let spec = convert(name, Kind::F32, &path);
        let (from, back) = (load(&fixture(name), None), load(&path, None));
        assert_eq!(Spec::from_folder(&path).unwrap(), spec, "{name}");
        assert_eq!(logits(&from), logits(&back), "{name}");
        assert_ne!(from.fingerprint(), back.fingerprint(), "another file is another model");
    }
}

const EXPERTS: [(&str, usize); 3] =
    [("num_experts", 8), ("num_experts_per_tok", 2), ("moe_intermediate_size", 32)];

fn with_experts(mut more: Value) -> Value {
    EXPERTS.iter().for_each(|(field, value)| more[field] = json!(value));
    more
}

#[test]
fn families_without_a_toy_come_back_bit_for_bit() {
    let folder = tempfile::tempdir().unwrap();
    for (shape, more) in [
        ("rnd1", with_experts(json!({}))),
        // The switch that every other model of the family has set.
        ("rnd1", with_experts(json!({ "norm_topk_prob": false }))),
        ("sdar-30b-a3b", with_experts(json!({ "block_size": 8 }))),
        ("qwen3-0.6b", json!({})),
        ("qwen3-0.6b-bd3lm", json!({ "block_size": 16 })),
        ("qwen2.5-coder-0.5b", json!({ "block_size": 32 })),
        ("fast-dllm-v2-1.5b", json!({ "bd_size": 8 })),
        ("fast-dllm-v2-7b", json!({})),
    ] {
        let (from, path) = (folder.path().join(shape), folder.path().join("model.gguf"));
        let spec = made_up(shape, &more, &from);
        assert_eq!(convert_folder(&from, Kind::F32, &path), spec);
        let (read, back) = (load(&from, None), load(&path, None));
        assert_eq!(back.spec(), &spec, "{shape} {more}");
        assert_eq!(logits(&read), logits(&back), "{shape} {more}");
        fs::remove_dir_all(&from).unwrap();
    }
}

/// Files of llama.cpp's converter name how experts are scored, and leave out that their weights are normalised.
#[test]
fn without_a_word_the_family_says_whether_weights_are_normalised() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    for (shape, normalises, more) in [
        ("rnd1", true, with_experts(json!({}))),
        ("sdar-30b-a3b", true, with_experts(json!({}))),
        (
            "llada-moe",
            false,
            with_experts(json!({ "expert_intermediate_size": 32, "moe_layer_freq": [1, 1] })),
        ),
    ] {
        let from = folder.path().join(shape);
        let spec = made_up(shape, &more, &from);
        convert_folder(&from, Kind::F32, &path);
        let key = format!("{}.expert_weights_norm", spec.architecture);
        let mut bytes = fs::read(&path).unwrap();
        let at = bytes.windows(key.len()).position(|part| part == key.as_bytes()).unwrap();
        bytes[at + key.len() - 4..at + key.len()].copy_from_slice(b"word");
        fs::write(&path, bytes).unwrap();
        let back = Spec::from_folder(&path).unwrap();
        assert_eq!(back.experts.as_ref().map(|e| e.normalise), Some(normalises), "{shape}");
        assert_eq!(back, spec, "{shape}");
    }
}

#[test]
fn every_format_is_close_and_finer_is_closer() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["dream-toy", "llada-toy", "sdar-toy"] {
        let exact = logits(&load(&fixture(name), None));
        // Widths of the toys are no multiples of 256, so K-quants have a model of their own below.
        for (kind, most) in [(Kind::F16, 2e-3), (Kind::Bf16, 2e-2), (Kind::Q8_0, 0.1), (Kind::Q4_0, 0.8)] {
            let path = folder.path().join(format!("{name}.gguf"));
            convert(name, kind, &path);
            let error = distance(&exact, &logits(&load(&path, None)));
            assert!(error > 0.0 && error < most, "{name} {kind:?}: {error}");
            // The int8 kernels take the file's own bytes, so only the activations differ from floating point.
            let floats = logits(&load(&path, Some(Precision::Float(Dtype::F32))));
            let kernels = distance(&floats, &logits(&load(&path, None)));
            assert!(kernels < 0.1, "{name} {kind:?}: {kernels}");
        }
    }
}

#[test]
fn experts_share_a_tensor_and_run_in_bytes_and_nibbles() {
    let mut config = demask_model::shapes::find("llada2-mini").unwrap().config();
    for (field, value) in [
        ("vocab_size", 300),
        ("hidden_size", 64),
        ("intermediate_size", 96),
        ("num_hidden_layers", 3),
        ("num_attention_heads", 4),
        ("num_key_value_heads", 2),
        ("head_dim", 32),
        ("rotary_dim", 16),
        ("num_experts", 16),
        ("n_group", 4),
        ("topk_group", 2),
        ("num_experts_per_tok", 4),
        ("moe_intermediate_size", 32),
        ("mask_token_id", 299),
        ("pad_token_id", 298),
    ] {
        config[field] = json!(value);
    }
    let spec = Spec::from_json(&config.to_string(), Path::new("config.json")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let made = |kind| {
        let path = folder.path().join("moe.gguf");
        let mut values = |name: &str, shape: &[usize]| Ok(demask_model::synthetic::values(name, shape));
        write(&path, &spec, kind, &Vocabulary::default(), &mut values).unwrap();
        let model = load(&path, None);
        assert_eq!(model.spec(), &spec);
        logits(&model)
    };
    let exact = made(Kind::F32);
    let (bytes, nibbles) = (distance(&exact, &made(Kind::Q8_0)), distance(&exact, &made(Kind::Q4_0)));
    assert!(bytes > 0.0 && bytes < 0.2, "{bytes}");
    assert!(nibbles > bytes && nibbles < 1.2, "{nibbles}");
}

#[test]
fn k_quants_are_read() {
    let config = json!({
        "model_type": "Dream", "vocab_size": 300, "hidden_size": 256, "intermediate_size": 512,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "max_position_embeddings": 128, "rms_norm_eps": 1e-6, "rope_theta": 1e4, "mask_token_id": 1,
        "pad_token_id": 0, "eos_token_id": 2, "bos_token_id": 3
    });
    let spec = Spec::from_json(&config.to_string(), Path::new("config.json")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let model = |kind| {
        let mut tensor = |name: &str, shape: &[usize]| Ok(demask_model::synthetic::values(name, shape));
        write(&path, &spec, kind, &Vocabulary::default(), &mut tensor).unwrap();
        logits(&load(&path, None))
    };
    let exact = model(Kind::F32);
    let error = |kind| distance(&exact, &model(kind));
    let (q4, q5, q6, q8) = (error(Kind::Q4K), error(Kind::Q5K), error(Kind::Q6K), error(Kind::Q8_0));
    assert!(q4 > q5 && q5 > q6 && q6 > q8 && q8 > 0.0 && q4 < 0.3, "{q4} {q5} {q6} {q8}");
}

/// Blocks are unpacked for a device; its stream of rows has bfloat16's range, like the maps.
#[test]
fn on_a_device_blocks_become_bfloat16() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    for (kind, stream) in [
        (Kind::Q8_0, DType::BF16),
        (Kind::Q4_0, DType::BF16),
        (Kind::Bf16, DType::BF16),
        (Kind::F16, DType::F16),
        (Kind::F32, DType::F32),
    ] {
        convert("dream-toy", kind, &path);
        let options = LoadOptions { composed: true, ..LoadOptions::default() };
        let device = Transformer::load(&path, &options).unwrap();
        let rows = device.embedded(&Packed::new([[5_u32, 7].as_slice()], false)).unwrap();
        assert_eq!(rows.dtype(), stream, "{kind:?}");
        let floats = logits(&load(&path, Some(Precision::Float(Dtype::F32))));
        let apart = distance(&floats, &logits(&device));
        assert!(apart < if stream == DType::F32 { 1e-5 } else { 0.03 }, "{kind:?}: {apart}");
    }
}

/// A byte-level BPE of the 256 byte tokens, one merge and three special tokens.
fn tokenizer() -> Value {
    let mut vocab = serde_json::Map::new();
    // The printable stand-ins of bytes, as GPT-2 orders them.
    let printable = |b: u8| (33..=126).contains(&b) || (161..=172).contains(&b) || b >= 174;
    let mut next = 256;
    for byte in 0..=255_u8 {
        let stand_in = if printable(byte) {
            char::from(byte)
        } else {
            next += 1;
            char::from_u32(next - 1).unwrap()
        };
        vocab.insert(stand_in.to_string(), usize::from(byte).into());
    }
    vocab.insert("he".into(), 256.into());
    let added = |id: u32, content: &str, special: bool| {
        json!({ "id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": special })
    };
    json!({
        "version": "1.0", "normalizer": { "type": "NFC" },
        "added_tokens": [added(257, "<|mask|>", true), added(258, "<|end|>", true), added(259, "<tool>", false)],
        "model": { "type": "BPE", "vocab": vocab, "merges": ["h e"] },
    })
}

#[test]
fn tokenizer_and_template_travel_in_the_file() {
    let config = json!({
        "model_type": "Dream", "vocab_size": 264, "hidden_size": 32, "intermediate_size": 32,
        "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1,
        "max_position_embeddings": 128, "rms_norm_eps": 1e-6, "rope_theta": 1e4, "mask_token_id": 257,
        "pad_token_id": 258, "eos_token_id": 258, "bos_token_id": 258
    });
    let spec = Spec::from_json(&config.to_string(), Path::new("config.json")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let vocabulary = Vocabulary {
        tokenizer: Some(tokenizer()),
        pre: "qwen2".into(),
        template: Some("{{ messages[0].content }}<|end|>".into()),
    };
    let mut tensor = |name: &str, shape: &[usize]| Ok(demask_model::synthetic::values(name, shape));
    write(&path, &spec, Kind::Q8_0, &vocabulary, &mut tensor).unwrap();
    let tokenizer = Tokenizer::open(&path, spec.vocab).unwrap();
    assert_eq!(tokenizer.encode("hey 7<|mask|>").unwrap(), [256, 121, 32, 55, 257]);
    assert_eq!(tokenizer.decode(&[256, 121, 258]).unwrap(), "hey");
    assert_eq!(tokenizer.holes(), [260, 261, 262, 263]);
    assert_eq!(tokenizer.special("mask_token"), Some(257));
    assert!(ChatTemplate::open(&path).unwrap().is_some());
    assert_eq!(Spec::from_folder(&path).unwrap().ids, spec.ids);
}

#[test]
fn damage_is_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    convert("dream-toy", Kind::Q8_0, &path);
    let whole = fs::read(&path).unwrap();
    for length in [0, 3, 100, whole.len() / 2, whole.len() - 40] {
        fs::write(&path, &whole[..length]).unwrap();
        let error = Transformer::load(&path, &LoadOptions::default()).err().unwrap().to_string();
        assert!(error.contains("model.gguf") && !error.contains('\n'), "{length}: {error}");
    }
}
