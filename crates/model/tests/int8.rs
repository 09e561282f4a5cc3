//! Weights as bytes: quantised at load and read from a quantised folder they give the same numbers, close to f32's.

#[path = "support/made_up.rs"]
mod made_up;

use std::path::{Path, PathBuf};

use demask_kernels::total_variation;
use demask_model::checkpoint::Store;
use demask_model::quantize::{self, QuantizeSettings};
use demask_model::{Backbone, LoadOptions, Precision, Query, Spec, Transformer};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures").join(name)
}

fn load(folder: &Path, dtype: Option<Precision>) -> Transformer {
    Transformer::load(folder, &LoadOptions { dtype, ..LoadOptions::default() }).unwrap()
}

fn settings(group: usize) -> QuantizeSettings {
    QuantizeSettings { precision: Precision::Int8 { group }, max_shard_bytes: 1 << 30 }
}

/// Logits of every position but the first of a half-masked canvas.
fn logits(model: &Transformer) -> Vec<f32> {
    let spec = model.spec();
    let token = |i: u32| if i.is_multiple_of(2) { spec.ids.mask } else { i * 7 % spec.vocab as u32 };
    let tokens: Vec<u32> = (0..37).map(token).collect();
    let all: Vec<usize> = (1..tokens.len()).collect();
    let mut batch = [Query { tokens: &tokens, predict: &all, ..Query::default() }];
    let pass = model.forward(&mut batch).unwrap().remove(0);
    let mut out = Vec::new();
    model.logits(&pass.predicting, &mut |_, rows| out.extend_from_slice(rows)).unwrap();
    out
}

fn mean_tv(a: &[f32], b: &[f32], vocab: usize) -> f32 {
    let lse = |row: &[f32]| {
        let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        most + row.iter().map(|x| (x - most).exp()).sum::<f32>().ln()
    };
    let rows = a.chunks_exact(vocab).zip(b.chunks_exact(vocab));
    let (sum, count) =
        rows.fold((0.0, 0.0), |(s, n), (a, b)| (s + total_variation(a, lse(a), b, lse(b)), n + 1.0));
    sum / count
}

#[test]
fn both_families_stay_close_to_single_precision() {
    for name in ["dream-toy", "llada-toy"] {
        let exact = load(&fixture(name), None);
        let (exact, vocab) = (logits(&exact), exact.spec().vocab);
        let fine = logits(&load(&fixture(name), Some(Precision::Int8 { group: 32 })));
        let coarse = logits(&load(&fixture(name), Some(Precision::INT8)));
        let (fine, coarse) = (mean_tv(&exact, &fine, vocab), mean_tv(&exact, &coarse, vocab));
        assert!(fine > 0.0 && fine < 0.04, "{name}: groups of 32 are {fine} away");
        assert!(coarse < 0.06, "{name}: groups of 128 are {coarse} away");
    }
}

#[test]
fn experts_and_blocks_stay_close_too() {
    for name in ["llada2-toy", "lladamoe-toy", "sdar-toy"] {
        let exact = load(&fixture(name), None);
        let (exact, vocab) = (logits(&exact), exact.spec().vocab);
        let fine = logits(&load(&fixture(name), Some(Precision::Int8 { group: 32 })));
        // A rounded activation may choose another expert, which is a step and not a rounding.
        let fine = mean_tv(&exact, &fine, vocab);
        assert!(fine > 0.0 && fine < 0.12, "{name}: groups of 32 are {fine} away");
    }
}

#[test]
fn a_quantised_folder_equals_quantising_at_load() {
    for name in ["dream-toy", "llada-toy", "llada2-toy", "lladamoe-toy", "sdar-toy"] {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("int8");
        let mut told = 0;
        quantize::folder(&fixture(name), &to, &settings(64), &mut |_| told += 1).unwrap();
        let stored = load(&to, None);
        let at_load = load(&fixture(name), Some(Precision::Int8 { group: 64 }));
        assert_eq!(logits(&stored), logits(&at_load), "{name}");
        assert!(stored.answers_to(&at_load.fingerprint()));
        let store = Store::open(&to).unwrap();
        assert_eq!(told, store.names().len());
        assert!(store.size_in_bytes() < Store::open(fixture(name)).unwrap().size_in_bytes());
        let left: Vec<_> =
            std::fs::read_dir(fixture(name)).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert!(left.iter().all(|file| to.join(file).exists()), "everything beside the weights is copied");
    }
}

#[test]
fn a_quantised_folder_runs_in_floating_point_too() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("int8");
    quantize::folder(&fixture("dream-toy"), &to, &settings(32), &mut |_| ()).unwrap();
    let floats = load(&to, Some(Precision::Float(demask_model::checkpoint::Dtype::F32)));
    let exact = logits(&load(&fixture("dream-toy"), None));
    let distance = mean_tv(&exact, &logits(&floats), floats.spec().vocab);
    assert!(distance > 0.0 && distance < 0.04, "{distance}");
}

#[test]
fn mistakes_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("int8");
    let zero = quantize::folder(&fixture("dream-toy"), &to, &settings(0), &mut |_| ()).unwrap_err();
    assert!(zero.to_string().contains("group 0"), "{zero}");
    quantize::folder(&fixture("dream-toy"), &to, &settings(64), &mut |_| ()).unwrap();
    let again = quantize::folder(&fixture("dream-toy"), &to, &settings(64), &mut |_| ()).unwrap_err();
    assert!(again.to_string().contains("already"), "{again}");
    let twice = folder.path().join("twice");
    let twice = quantize::folder(&to, &twice, &settings(64), &mut |_| ()).unwrap_err();
    assert!(twice.to_string().contains("quantised already"), "{twice}");
    // Another group than the scales were made for.
    let file = to.join("model.safetensors");
    let bytes = std::fs::read(&file).unwrap();
    let key = b"demask_int8_group\":\"";
    let at = bytes.windows(key.len()).position(|part| part == key).unwrap() + key.len();
    let mut damaged = bytes;
    damaged[at..at + 2].copy_from_slice(b"32");
    std::fs::write(&file, damaged).unwrap();
    let error = Transformer::load(&to, &LoadOptions::default()).err().unwrap().to_string();
    assert!(error.contains("weight_scale") && error.contains("model.safetensors"), "{error}");
}

#[test]
fn a_copy_attends_as_its_origin_whose_name_said_how() {
    let folder = tempfile::tempdir().unwrap();
    for (name, block) in [("qwen3-diffusion-bd3lm", Some(32)), ("qwen3-diffusion-mdlm", None)] {
        let (from, to) = (folder.path().join(name), folder.path().join(format!("copy-{}", block.is_some())));
        let spec = made_up::made_up("qwen3-0.6b", &serde_json::json!({}), &from);
        assert_eq!(spec.block, block, "{name}");
        quantize::folder(&from, &to, &settings(32), &mut |_| ()).unwrap();
        assert_eq!(Spec::from_folder(&to).unwrap(), spec, "{name}");
    }
}
