//! Models of BERT's line: transformers' own numbers for random weights, what their configs come to, what is refused.

#![allow(clippy::print_stdout, reason = "a run by hand tells its numbers")]

use std::path::{Path, PathBuf};

use demask_model::checkpoint::Store;
use demask_model::config::{Activation, FeedForward, Positions, Spec};
use demask_model::{
    Backbone as _, HiddenRow, KvCache, LoadOptions, Precision, Query, Reuse, Transformer, arch,
};
use serde_json::{Value, json};

const TOYS: [&str; 2] = ["bert-toy", "albert-toy"];

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures").join(name)
}

fn toy(name: &str) -> Transformer {
    Transformer::load(&fixture(name), &LoadOptions::default()).unwrap()
}

/// Ids, hidden rows and logits of every recorded forward.
fn recorded(name: &str) -> Vec<(Vec<u32>, Vec<f32>, Vec<f32>)> {
    recorded_in(&fixture(name))
}

fn recorded_in(folder: &Path) -> Vec<(Vec<u32>, Vec<f32>, Vec<f32>)> {
    let store = Store::open_file(folder.join("expected.safetensors")).unwrap();
    let of = |number: usize| {
        let (_, _, ids) = store.bytes(&format!("forward.{number}.ids")).unwrap();
        let ids = ids.chunks_exact(4).map(|b| u32::from_le_bytes(b.try_into().unwrap())).collect();
        let numbers = |what: &str| store.tensor(&format!("forward.{number}.{what}")).unwrap().to_f32();
        (ids, numbers("hidden"), numbers("logits"))
    };
    let count = store.names().filter(|name| name.ends_with(".ids")).count();
    assert!(count >= 4, "{count} forwards in {}", folder.display());
    (0..count).map(of).collect()
}

/// Hidden rows and logits of every position.
fn forward(model: &Transformer, ids: &[u32]) -> (Vec<f32>, Vec<f32>) {
    let all: Vec<usize> = (0..ids.len()).collect();
    let hidden = Some((all.as_slice(), HiddenRow::I));
    let query = Query { tokens: ids, predict: &all, hidden, ..Query::default() };
    let pass = model.forward(&mut [query]).unwrap().remove(0);
    let mut logits = Vec::new();
    model.logits(&pass.predicting, &mut |_, rows| logits.extend_from_slice(rows)).unwrap();
    (pass.hidden.unwrap().data, logits)
}

fn furthest(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn hidden_rows_and_logits_are_those_of_transformers() {
    for name in TOYS {
        let model = toy(name);
        for (ids, hidden, logits) in recorded(name) {
            let ours = forward(&model, &ids);
            let far = [furthest(&ours.0, &hidden), furthest(&ours.1, &logits)];
            assert!(far.iter().all(|&far| far < 2e-4), "{name}, {} tokens: {far:?}", ids.len());
        }
    }
}

/// Real weights are not in the repository: `scripts/real-weights/run.sh` makes the folder and runs this.
#[test]
#[ignore = "needs the folder that DEMASK_REAL_WEIGHTS names"]
fn real_weights_give_the_numbers_of_transformers() {
    let root =
        PathBuf::from(std::env::var_os("DEMASK_REAL_WEIGHTS").expect("DEMASK_REAL_WEIGHTS names a folder"));
    for name in ["rxnfp", "antiberty", "rxnmapper"] {
        let model = Transformer::load(&root.join(name), &LoadOptions::default()).unwrap();
        let (mut far, mut tokens, mut agree) = ([0.0_f32; 2], 0, 0);
        let best = |row: &[f32]| (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b]));
        let vocab = model.spec().vocab;
        let forwards = recorded_in(&root.join(name));
        for (ids, hidden, logits) in &forwards {
            let ours = forward(&model, ids);
            far[0] = far[0].max(furthest(&ours.0, hidden));
            far[1] = far[1].max(furthest(&ours.1, logits));
            tokens += ids.len();
            agree +=
                ours.1.chunks(vocab).zip(logits.chunks(vocab)).filter(|(a, b)| best(a) == best(b)).count();
        }
        let sequences = forwards.len();
        println!(
            "{name}: {sequences} sequences, {tokens} tokens, furthest hidden {:.1e}, logits {:.1e}, same best token at {agree}",
            far[0], far[1]
        );
        assert!(far.iter().all(|&far| far < 2e-4), "{name}: {far:?}");
    }
}

#[test]
fn a_cache_of_keys_gives_the_same_numbers() {
    for name in TOYS {
        let model = toy(name);
        let (ids, _, logits) = recorded(name).remove(2);
        let all: Vec<usize> = (0..ids.len()).collect();
        let mut cache = KvCache::new();
        // Everything once, then some rows over kept keys of the same tokens.
        for rows in [all.clone(), vec![3, 4, 17]] {
            let reuse = Some(Reuse { cache: &mut cache, rows: &rows });
            let query = Query { tokens: &ids, predict: &rows, cache: reuse, ..Query::default() };
            let pass = model.forward(&mut [query]).unwrap().remove(0);
            let mut found = Vec::new();
            model.logits(&pass.predicting, &mut |_, rows| found.extend_from_slice(rows)).unwrap();
            let vocab = model.spec().vocab;
            let expected: Vec<f32> =
                rows.iter().flat_map(|&row| logits[row * vocab..(row + 1) * vocab].to_vec()).collect();
            assert!(furthest(&found, &expected) < 2e-4, "{name}: {} rows", rows.len());
        }
    }
}

#[test]
fn bytes_stay_near_the_numbers() {
    for name in TOYS {
        let options = LoadOptions { dtype: Some(Precision::Int8 { group: 8 }), ..LoadOptions::default() };
        let model = Transformer::load(&fixture(name), &options).unwrap();
        let (ids, _, logits) = recorded(name).remove(1);
        let far = furthest(&forward(&model, &ids).1, &logits);
        let size = logits.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
        assert!(far > 1e-4 && far < 0.1 * size, "{name}: {far} of {size}");
    }
}

fn parse(config: &Value) -> Result<Spec, String> {
    Spec::from_json(&config.to_string(), Path::new("x/config.json")).map_err(|e| e.to_string())
}

/// As rxnfp's wheel has it, with the ids that its vocabulary gives.
fn bert() -> Value {
    json!({
        "architectures": ["BertForMaskedLM"], "model_type": "bert", "hidden_act": "gelu", "hidden_size": 256,
        "intermediate_size": 512, "layer_norm_eps": 1e-12, "max_position_embeddings": 512, "num_attention_heads": 4,
        "num_hidden_layers": 12, "type_vocab_size": 2, "vocab_size": 591, "pruned_heads": {},
        "mask_token_id": 14, "sep_token_id": 13
    })
}

/// As rxnmapper's wheel has it.
fn albert() -> Value {
    let mut config = bert();
    for (field, value) in [
        ("architectures", json!(["AlbertForMaskedLM"])),
        ("model_type", json!("albert")),
        ("embedding_size", json!(128)),
        ("num_attention_heads", json!(8)),
        ("num_hidden_groups", json!(1)),
        ("inner_group_num", json!(1)),
    ] {
        config[field] = value;
    }
    config
}

#[test]
fn real_configs() {
    let spec = parse(&bert()).unwrap();
    assert_eq!((spec.head_dim, spec.positions, spec.activation), (64, Positions::Learned, Activation::Gelu));
    assert_eq!((spec.ids.mask, spec.ids.eos.as_slice()), (14, &[13][..]));
    assert_eq!(spec.feed_forward(3), FeedForward::Plain(512));
    // Tables, 12 blocks of 4 maps and 2 of the MLP with biases and two norms, the head's transform, norm and bias.
    let block = 4 * (256 * 256 + 256) + 2 * 256 * 512 + 512 + 256 + 4 * 256;
    assert_eq!(spec.parameters(), (591 + 512 + 2) * 256 + 512 + 12 * block + (256 * 256 + 256) + 512 + 591);
    let shared = parse(&albert()).unwrap();
    let tables = (591 + 512 + 2) * 128 + 256 + (256 * 128 + 256);
    assert_eq!(shared.parameters(), tables + block + (256 * 128 + 128) + 256 + 591);
    assert_eq!((shared.layers, shared.stored_layers()), (12, 1));
    let names: Vec<String> = arch::tensors(&shared).unwrap().into_iter().map(|(name, _)| name).collect();
    assert!(
        names.contains(&"albert.encoder.albert_layer_groups.0.albert_layers.0.ffn_output.bias".to_owned())
    );
}

#[test]
fn what_would_change_the_numbers_is_refused_by_name() {
    for (field, value) in [
        ("position_embedding_type", json!("relative_key")),
        ("hidden_act", json!("swish")),
        ("is_decoder", json!(true)),
        ("tie_word_embeddings", json!(false)),
        ("pruned_heads", json!({ "3": [1] })),
        ("mask_token_id", Value::Null),
        ("sep_token_id", Value::Null),
        ("rope_scaling", json!({ "type": "yarn", "factor": 2.0 })),
    ] {
        let mut config = bert();
        config[field] = value;
        let error = parse(&config).unwrap_err();
        let named = if field == "sep_token_id" { "eos_token_id" } else { field };
        assert!(error.contains(named), "{field}: {error}");
    }
    let mut config = albert();
    config["num_hidden_groups"] = json!(2);
    assert!(parse(&config).unwrap_err().contains("num_hidden_groups"));
}
