//! A pass over a mapped mixture of experts reads the experts its rows chose and no others: the system's own count of the
//! file's resident pages says so.

#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::path::Path;

use demask_model::checkpoint::synthetic::{self, Init, Tensor};
use demask_model::checkpoint::{Dtype, write};
use demask_model::layer::{Choice, Watch};
use demask_model::quantize::{self, Settings};
use demask_model::{LoadOptions, Query, Spec, Transformer, arch, shapes};
use serde_json::json;

#[derive(Default)]
struct Chosen(BTreeSet<(usize, u32)>);

impl Watch for Chosen {
    fn chose(&mut self, layer: usize, choice: &Choice) {
        self.0.extend(choice.experts.iter().map(|&expert| (layer, expert)));
    }
}

/// LLaDA2-mini with narrower layers and fewer of everything.
fn config() -> serde_json::Value {
    let mut config = shapes::find("llada2-mini").unwrap().config();
    for (field, value) in [
        ("vocab_size", 512),
        ("hidden_size", 512),
        ("intermediate_size", 512),
        ("num_hidden_layers", 3),
        ("num_attention_heads", 4),
        ("num_key_value_heads", 2),
        ("moe_intermediate_size", 512),
        ("num_experts", 64),
        ("num_experts_per_tok", 4),
        ("mask_token_id", 511),
        ("pad_token_id", 510),
    ] {
        config[field] = json!(value);
    }
    config
}

/// Bytes of a mapped file that are in memory.
fn resident(file: &Path) -> usize {
    let (name, maps) = (file.to_str().unwrap(), std::fs::read_to_string("/proc/self/smaps").unwrap());
    let (mut inside, mut sum) = (false, 0);
    for line in maps.lines() {
        if line.split_whitespace().next().is_some_and(|word| word.contains('-') && !word.ends_with(':')) {
            inside = line.ends_with(name);
        } else if let (true, Some(size)) = (inside, line.strip_prefix("Rss:")) {
            sum += size.trim().trim_end_matches(" kB").trim().parse::<usize>().unwrap() * 1024;
        }
    }
    sum
}

#[test]
fn experts_that_no_row_chose_are_never_read() {
    let folder = tempfile::tempdir().unwrap();
    let (floats, bytes) = (folder.path().join("floats"), folder.path().join("int8"));
    let text = config().to_string();
    let spec = Spec::from_json(&text, Path::new("config.json")).unwrap();
    let tensors = arch::tensors(&spec).unwrap().into_iter().map(|(name, shape)| {
        let init = if shape.len() == 2 { Init::Normal(0.05) } else { Init::Ones };
        Tensor { name, shape, init }
    });
    let options = write::Options::default();
    synthetic::folder(&floats, &tensors.collect::<Vec<_>>(), Dtype::Bf16, 1, &options).unwrap();
    std::fs::write(floats.join("config.json"), text).unwrap();
    let settings = Settings { precision: demask_model::Precision::INT8, max_shard_bytes: u64::MAX };
    quantize::folder(&floats, &bytes, &settings, &mut |_| ()).unwrap();
    std::fs::remove_dir_all(&floats).unwrap();

    let model = Transformer::load(&bytes, &LoadOptions::default()).unwrap();
    let file = bytes.canonicalize().unwrap().join("model.safetensors");
    let before = resident(&file);
    let (tokens, mut chosen) = ([3, 1, 4, 1], Chosen::default());
    model
        .forward_watched(
            &mut [Query { tokens: &tokens, predict: &[0, 1, 2, 3], ..Query::default() }],
            &mut chosen,
        )
        .unwrap();
    let after = resident(&file);

    let (mut read, mut experts, mut parts) = (0, 0, 0);
    for parameter in arch::parameters(&spec).unwrap() {
        let expert = parameter.expert.map(|(index, _)| (parameter.layer.unwrap(), index as u32));
        let size = parameter.elements() * 2;
        experts += if expert.is_some() { parameter.elements() } else { 0 };
        match expert {
            Some(expert) if !chosen.0.contains(&expert) => {}
            Some(_) => {
                read += parameter.elements() + parameter.elements() / 32;
                parts += 2;
            }
            None => read += size,
        }
    }
    // A fault brings in the pages around it, up to 64 KiB, at either end of a tensor.
    let slack = parts * (128 << 10);
    assert!(!chosen.0.is_empty() && chosen.0.len() <= 2 * 16, "{}", chosen.0.len());
    assert!(after > before, "the pass read something: {before} to {after}");
    assert!(after <= before + read + slack, "{after} bytes are resident, {read} were chosen");
    assert!(after < experts / 2, "{after} of {experts} bytes of experts");
}
