//! Weights of four bits: quantised at load and read from a quantised folder they give the same numbers, in about a quarter
//! of bf16's memory; GGUF's own four bits run as they are.

use std::path::{Path, PathBuf};

use demask_kernels::Bits;
use demask_model::checkpoint::quantized::Packing;
use demask_model::checkpoint::{Dtype, Quantized, Store};
use demask_model::gguf::{Kind, Vocabulary, write};
use demask_model::importance;
use demask_model::quantize::{self, QuantizeSettings};
use demask_model::{Backbone, LoadOptions, Packed, Precision, Query, Spec, Transformer, arch};
use serde_json::json;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures").join(name)
}

fn load(folder: &Path, dtype: Option<Precision>) -> Transformer {
    Transformer::load(folder, &LoadOptions { dtype, ..LoadOptions::default() }).unwrap()
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

fn distance(a: &[f32], b: &[f32]) -> f32 {
    let error: f32 = a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum();
    (error / a.iter().map(|a| a * a).sum::<f32>()).sqrt()
}

#[test]
fn a_quantised_folder_equals_quantising_at_load() {
    for name in ["dream-toy", "llada-toy"] {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("q4");
        let settings = QuantizeSettings { precision: Precision::Q4, max_shard_bytes: 1 << 30 };
        quantize::folder(&fixture(name), &to, &settings, &mut |_| ()).unwrap();
        let stored = load(&to, None);
        let at_load = load(&fixture(name), Some(Precision::Q4));
        assert_eq!(logits(&stored), logits(&at_load), "{name}");
        assert!(stored.answers_to(&at_load.fingerprint()));
        // Coarser than bytes, finer than nothing.
        let exact = logits(&load(&fixture(name), None));
        let bytes = distance(&exact, &logits(&load(&fixture(name), Some(Precision::INT8))));
        let four = distance(&exact, &logits(&stored));
        assert!(four > bytes && four < 0.8, "{name}: {four} after {bytes}");
    }
}

#[test]
fn only_maps_of_blocks_have_four_bits() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("q4");
    let settings = QuantizeSettings { precision: Precision::Q4, max_shard_bytes: 1 << 30 };
    quantize::folder(&fixture("dream-toy"), &to, &settings, &mut |_| ()).unwrap();
    let (spec, store) = (Spec::from_folder(&to).unwrap(), Store::open(&to).unwrap());
    let key = |packing: Packing| store.metadata().get(packing.group_key()).cloned();
    assert_eq!((key(Packing::Q4), key(Packing::INT8)), (Some("128".into()), Some("128".into())));
    for parameter in arch::parameters(&spec).unwrap().iter().filter(|p| p.quantises()) {
        let scales = store.tensor(&format!("{}.weight_scale", parameter.name)).unwrap();
        let expected = if parameter.layer.is_some() { Dtype::F16 } else { Dtype::F32 };
        assert_eq!(scales.dtype(), expected, "{}", parameter.name);
        let packing = Precision::Q4.packing(parameter).unwrap();
        assert_eq!(packing.bits == Bits::FourScaled, parameter.layer.is_some());
    }
    let refused = QuantizeSettings { precision: Precision::Float(Dtype::Bf16), max_shard_bytes: 1 << 30 };
    let error = quantize::folder(&fixture("dream-toy"), &folder.path().join("x"), &refused, &mut |_| ());
    assert!(error.unwrap_err().to_string().contains("int8 or q4"));
}

/// Scales chosen for what a map is given make less error where it is given much: `Σ input² · (w − ŵ)²`.
#[test]
fn rounding_follows_what_maps_are_given() {
    let folder = tempfile::tempdir().unwrap();
    let from = fixture("dream-toy");
    let (model, inputs) = importance::watched(&from, &LoadOptions::default()).unwrap();
    assert!(inputs.of("model.layers.0.mlp.down_proj").is_none(), "nothing was read yet");
    assert_eq!(logits(&model), logits(&load(&from, None)), "counting changes no number");
    let settings = QuantizeSettings { precision: Precision::Q4, max_shard_bytes: 1 << 30 };
    let (plain, weighed) = (folder.path().join("plain"), folder.path().join("weighed"));
    quantize::folder(&from, &plain, &settings, &mut |_| ()).unwrap();
    quantize::weighed(&from, &weighed, &settings, &inputs, &mut |_| ()).unwrap();
    let spec = Spec::from_folder(&from).unwrap();
    let stores = [&from, &plain, &weighed].map(|folder| Store::open(folder).unwrap());
    let mut total = [0.0, 0.0];
    for map in arch::parameters(&spec).unwrap().iter().filter(|p| p.quantises() && p.layer.is_some()) {
        let exact = stores[0].tensor_shaped(&map.tensor(), &map.shape).unwrap().to_f32();
        let squares = inputs.of(&map.name).unwrap();
        assert!(squares.len() == map.shape[1] && squares.iter().all(|s| *s >= 0.0), "{}", map.name);
        let errors = [&stores[1], &stores[2]].map(|store| {
            let rounded = Quantized::open(store, &map.name, map.matrix()).unwrap().to_f32().to_f32();
            let each = exact.iter().zip(&rounded).enumerate();
            each.map(|(i, (w, q))| f64::from(squares[i % squares.len()] * (w - q) * (w - q))).sum::<f64>()
        });
        assert!(errors[1] < errors[0] * 1.001, "{}: {errors:?}", map.name);
        total.iter_mut().zip(errors).for_each(|(total, error)| *total += error);
    }
    assert!(total[1] < 0.99 * total[0], "{total:?}");
}

/// The file's own numbers: unpacked to single precision they give the kernels' logits, but for activations as bytes.
#[test]
fn ggufs_four_bits_run_as_they_are() {
    let config = json!({
        "model_type": "Dream", "vocab_size": 300, "hidden_size": 256, "intermediate_size": 512,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "max_position_embeddings": 128, "rms_norm_eps": 1e-6, "rope_theta": 1e4, "mask_token_id": 1,
        "pad_token_id": 0, "eos_token_id": 2, "bos_token_id": 3
    });
    let spec = Spec::from_json(&config.to_string(), Path::new("config.json")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for kind in [Kind::Q4_0, Kind::Q4K, Kind::Q8_0] {
        let path = folder.path().join("model.gguf");
        let mut tensor = |name: &str, shape: &[usize]| Ok(demask_model::synthetic::values(name, shape));
        write(&path, &spec, kind, &Vocabulary::default(), &mut tensor).unwrap();
        // Unpacked at load or row by row, the table has the same numbers.
        let (unpacked, rows) = (load(&path, Some(Precision::Float(Dtype::F32))), load(&path, None));
        let token = Packed::new([[5_u32, 299].as_slice()], false);
        let first = |model: &Transformer| model.embedded(&token).unwrap().to_vec2::<f32>().unwrap();
        assert_eq!(first(&unpacked), first(&rows), "{kind:?}");
        let floats = logits(&unpacked);
        let kernels = distance(&floats, &logits(&rows));
        assert!(kernels > 0.0 && kernels < 0.02, "{kind:?}: {kernels}");
        // Asked for, four bits are made of what has more; what has four already stays as it is.
        let four = distance(&floats, &logits(&load(&path, Some(Precision::Q4))));
        match kind {
            Kind::Q8_0 => assert!(four > 2.0 * kernels && four < 0.4, "{kind:?}: {four}"),
            _ => assert!(four < 0.03, "{kind:?}: {four}"),
        }
    }
}
