//! A checkpoint folder rewritten with its linear maps quantised (`demask quantize`): the Hub's layout, ready to be mapped.
//!
//! Tensors are made one at a time, so any checkpoint can be quantised in little memory. Invariant: `config.json` is
//! written last, so an interrupted run leaves a folder that is not a checkpoint.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::arch;
use crate::checkpoint::quantized::{Packing, packed_name, scale_name, stored_shapes};
use crate::checkpoint::write::{self, Declared, Written};
use crate::checkpoint::{INDEX, Mapped, Quantized, Store, WEIGHTS};
use crate::config::Spec;
use crate::error::{Error, Result};
use crate::importance::Inputs;
use crate::load::{ORIGIN, Precision};

/// Endings of weight files in other formats, which a quantised folder does not repeat.
const OTHER_WEIGHTS: &[&str] = &["bin", "pt", "pth", "gguf", "msgpack", "h5", "onnx"];

/// How to quantise.
#[derive(Debug, Clone)]
pub struct QuantizeSettings {
    /// To what: bytes or four bits.
    pub precision: Precision,
    /// Largest file.
    pub max_shard_bytes: u64,
}

/// Where a declared tensor's bytes come from.
enum TensorBytes {
    /// Stored as it is.
    Copy(Mapped),
    Packed(Mapped, Packing),
    Scales(Mapped, Packing),
}

/// Quantises the checkpoint in `from` into the folder `to`; `progress` is told each tensor's name.
pub fn folder(
    from: &Path,
    to: &Path,
    settings: &QuantizeSettings,
    progress: &mut dyn FnMut(&str),
) -> Result<Written> {
    weighed(from, to, settings, &Inputs::default(), progress)
}

/// The same with scales of four bits chosen for what the maps are given.
pub fn weighed(
    from: &Path,
    to: &Path,
    settings: &QuantizeSettings,
    inputs: &Inputs,
    progress: &mut dyn FnMut(&str),
) -> Result<Written> {
    let refuse = |problem: String| Error::Plan { path: to.to_path_buf(), problem };
    let config_path = from.join("config.json");
    let text = fs::read_to_string(&config_path).map_err(Error::read(&config_path))?;
    let spec = Spec::from_folder(from)?;
    let mut config: Value = serde_json::from_str(&text).map_err(Error::json(&config_path))?;
    if to.join("config.json").exists() {
        return Err(refuse("it already holds a checkpoint; name another folder".into()));
    }
    let store = Store::of_model(from, &spec, true)?;
    if store.names().any(|name| name.ends_with(".weight_packed")) {
        return Err(refuse(format!("{} is quantised already", from.display())));
    }
    let plan = plan(&spec, &store, settings).map_err(|e| match e {
        Error::Query(problem) => refuse(problem),
        other => other,
    })?;

    let declared: Vec<Declared> = plan.iter().map(|(declared, _)| declared.clone()).collect();
    let sources: BTreeMap<&str, &TensorBytes> = plan.iter().map(|(d, s)| (d.name.as_str(), s)).collect();
    let packings = plan.iter().filter_map(|(_, source)| match source {
        TensorBytes::Packed(_, packing) => Some((packing.group_key().to_owned(), packing.group.to_string())),
        _ => None,
    });
    let origin = (ORIGIN.to_owned(), store.fingerprint(&spec));
    // What the files say of a predictor among the weights is said of its copy too.
    let said = store.metadata().iter().map(|(key, value)| (key.clone(), value.clone()));
    let metadata = said.chain(packings).chain([origin]).collect();
    let options = write::Options { max_shard_bytes: settings.max_shard_bytes, metadata };
    let quantize = |tensor: &Declared, weight: &Mapped, packing| {
        let map = tensor.name.rsplit_once('.').map_or("", |(map, _)| map);
        let importance = inputs.of(map);
        let quantized =
            Quantized::quantize(weight, packing, importance.as_deref()).map_err(std::io::Error::other);
        weight.release();
        quantized
    };
    let written = write::folder(to, &declared, &options, |tensor, out| {
        progress(&tensor.name);
        match sources[tensor.name.as_str()] {
            TensorBytes::Copy(tensor) => out.write_all(tensor.as_bytes()),
            TensorBytes::Packed(weight, packing) => {
                out.write_all(quantize(tensor, weight, *packing)?.packed())
            }
            TensorBytes::Scales(weight, packing) => {
                out.write_all(quantize(tensor, weight, *packing)?.scale_bytes())
            }
        }
    })?;
    copy_rest(from, to)?;
    // Other programs see from this that they cannot read the weights.
    let (bits, group) = match settings.precision {
        Precision::Q4 { group } => (4, group),
        Precision::Int8 { group } => (8, group),
        Precision::Float(_) => unreachable!("the plan refuses it"),
    };
    // The copy has another name, so what the name alone told is written down.
    if arch::of(&spec)?.facts.attention != spec.attention && config["block_size"].is_null() {
        config["block_size"] = spec.block.into();
    }
    config["quantization_config"] = json!({
        "quant_method": arch::OWN_QUANTISATION, "bits": bits, "group_size": group, "sym": true,
    });
    let text = serde_json::to_string_pretty(&config).map_err(Error::json(&config_path))?;
    write::replace(&to.join("config.json"), |out| out.write_all(text.as_bytes()))?;
    Ok(written)
}

fn plan(spec: &Spec, store: &Store, settings: &QuantizeSettings) -> Result<Vec<(Declared, TensorBytes)>> {
    let mut plan = Vec::new();
    if let Precision::Float(dtype) = settings.precision {
        return Err(Error::Query(format!("{dtype} is no quantisation; ask for int8 or q4")));
    }
    for parameter in arch::parameters(spec)? {
        let whole = store.tensor_shaped(&parameter.tensor(), &parameter.shape)?;
        if let Some(packing) = settings.precision.packing(&parameter) {
            let [packed, scales] = stored_shapes(parameter.matrix(), packing)
                .map_err(|problem| Error::Query(problem.to_string()))?;
            let (u8, scale) = (safetensors::Dtype::U8, packing.scale_dtype());
            let name = &parameter.name;
            plan.push((
                Declared::new(packed_name(name), u8, &packed),
                TensorBytes::Packed(whole.clone(), packing),
            ));
            plan.push((
                Declared::new(scale_name(name), scale, &scales),
                TensorBytes::Scales(whole.clone(), packing),
            ));
        }
        // A table is looked up, so it is kept as numbers; tied to the head it is both.
        if parameter.stays() {
            let declared = Declared::new(parameter.tensor(), whole.dtype(), &parameter.shape);
            plan.push((declared, TensorBytes::Copy(whole)));
        }
        if let Some(bias) = parameter.bias() {
            let tensor = store.tensor_shaped(&bias, &parameter.shape[..1])?;
            plan.push((
                Declared::new(bias, tensor.dtype(), tensor.shape()),
                TensorBytes::Copy(tensor.clone()),
            ));
        }
    }
    // What is not the model's belongs to a predictor that lies in the same files.
    for name in store.unclaimed(spec)? {
        let tensor = store.tensor(name)?;
        plan.push((
            Declared::new(name.to_owned(), tensor.dtype(), tensor.shape()),
            TensorBytes::Copy(tensor),
        ));
    }
    Ok(plan)
}

/// Copies tokenizer, templates, predictor and whatever else lies beside the weights.
fn copy_rest(from: &Path, to: &Path) -> Result<()> {
    let mut weights: BTreeSet<PathBuf> =
        [WEIGHTS, INDEX, "config.json"].iter().map(|name| from.join(name)).collect();
    let index = from.join(INDEX);
    if index.exists() {
        weights.extend(crate::checkpoint::shard_names(&index)?.into_iter().map(|shard| from.join(shard)));
    }
    for entry in fs::read_dir(from).map_err(Error::read(from))? {
        let path = entry.map_err(Error::read(from))?.path();
        let other = path.extension().is_some_and(|e| OTHER_WEIGHTS.iter().any(|o| e == *o));
        if path.is_file() && !weights.contains(&path) && !other {
            let target = to.join(path.file_name().unwrap_or_default());
            let bytes = fs::read(&path).map_err(Error::read(&path))?;
            write::replace(&target, |out| out.write_all(&bytes))?;
        }
    }
    Ok(())
}
