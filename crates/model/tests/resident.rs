//! A pass over a mapped mixture of experts reads the experts its rows chose and no others: the system's own count of the
//! files' resident pages says so.

#![cfg(target_os = "linux")]
#![allow(clippy::print_stdout, reason = "a run by hand tells its numbers")]

use std::collections::BTreeSet;
use std::path::Path;

use demask_model::checkpoint::synthetic::{self, Init, Tensor};
use demask_model::checkpoint::{Dtype, write};
use demask_model::layer::{Choice, Watch};
use demask_model::quantize::{self, QuantizeSettings};
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

/// Bytes of the mapped weights of a folder that are in memory.
fn resident(folder: &Path) -> usize {
    let (name, maps) = (folder.to_str().unwrap(), std::fs::read_to_string("/proc/self/smaps").unwrap());
    let (mut inside, mut sum) = (false, 0);
    for line in maps.lines() {
        if line.split_whitespace().next().is_some_and(|word| word.contains('-') && !word.ends_with(':')) {
            inside = line.contains(name) && line.ends_with(".safetensors");
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
    let settings = QuantizeSettings { precision: demask_model::Precision::INT8, max_shard_bytes: u64::MAX };
    quantize::folder(&floats, &bytes, &settings, &mut |_| ()).unwrap();
    std::fs::remove_dir_all(&floats).unwrap();

    let read = pass_over(&bytes, &[3, 1, 4, 1]);
    assert!(read.chosen > 0 && read.chosen <= 2 * 16, "{}", read.chosen);
    assert!(read.resident < read.experts / 2, "{} of {} bytes of experts", read.resident, read.experts);
}

/// LLaDA2-mini as it is, four layers of it, and a block of 32 rows:
///
/// ```sh
/// demask synthesize floats --shape llada2-mini --layers 4 && demask quantize floats mini    # 6.2 and 3.5 GB
/// DEMASK_LLADA2_MINI=mini cargo test --release -p demask-model --test resident -- --ignored --nocapture
/// ```
#[test]
#[ignore = "needs the folder that DEMASK_LLADA2_MINI names"]
fn the_real_shape_reads_no_more_than_the_chosen_experts() {
    let folder = std::env::var_os("DEMASK_LLADA2_MINI").expect("DEMASK_LLADA2_MINI names a folder");
    let tokens: Vec<u32> = (0..32).map(|i| i * 4_801 % 150_000).collect();
    let read = pass_over(Path::new(&folder), &tokens);
    assert!(read.chosen > 8 * 3, "{}", read.chosen);
    assert!(read.resident < read.experts, "{} of {} bytes of experts", read.resident, read.experts);
}

struct Read {
    /// Experts that a row chose, over all layers.
    chosen: usize,
    /// Bytes of weights in memory after the pass.
    resident: usize,
    /// Bytes of all experts.
    experts: usize,
}

/// One pass over int8 weights that are mapped, and what of them is in memory then: no more than was there before, what every
/// row meets, and the experts that were chosen.
fn pass_over(folder: &Path, tokens: &[u32]) -> Read {
    let folder = &folder.canonicalize().unwrap();
    let spec = Spec::from_folder(folder).unwrap();
    let model = Transformer::load(folder, &LoadOptions::default()).unwrap();
    let before = resident(folder);
    let (all, mut chosen): (Vec<usize>, _) = ((0..tokens.len()).collect(), Chosen::default());
    let query = Query { tokens, predict: &all, ..Query::default() };
    model.forward_watched(&mut [query], &mut chosen).unwrap();
    let after = resident(folder);

    let (mut read, mut experts, mut parts) = (0, 0, 0);
    for parameter in arch::parameters(&spec).unwrap() {
        let expert = parameter.expert.map(|(index, _)| (parameter.layer.unwrap(), index as u32));
        // A byte each and a scale of 4 bytes for 128 of them.
        let bytes = parameter.elements() + parameter.elements() / 32;
        experts += if expert.is_some() { bytes } else { 0 };
        match expert {
            Some(expert) if !chosen.0.contains(&expert) => {}
            Some(_) => {
                read += bytes;
                parts += 2;
            }
            // Only rows that are looked up are read of the table, and nothing of the head in this pass.
            None if parameter.layer.is_none() => {
                read += 2 * parameter.shape[parameter.shape.len() - 1] * tokens.len()
            }
            None => read += 2 * parameter.elements(),
        }
    }
    // A fault brings in the pages around it, up to 64 KiB, at either end of a tensor and around a row of the table.
    let slack = (parts + tokens.len()) * (128 << 10);
    println!(
        "{} experts of {} chosen; {before} bytes resident before the pass, {after} after; {read} of what was chosen, \
         {experts} of all experts",
        chosen.0.len(),
        spec.experts.as_ref().map_or(0, |e| e.count * e.layers.iter().filter(|l| **l).count()),
    );
    assert!(after > before, "the pass read something: {before} to {after}");
    assert!(after <= before + read + slack, "{after} bytes are resident, {read} were chosen");
    Read { chosen: chosen.0.len(), resident: after, experts }
}
