//! The trained backbone as a checkpoint folder in the Hub's layout: `config.json` with Dream's fields,
//! `generation_config.json`, `model.safetensors`, and the tokenizer's files copied from its folder.

use std::fs;
use std::path::Path;

use demask_model::Spec;
use demask_model::checkpoint::{Dtype, Mapped, WEIGHTS, write};
use serde_json::{Value, json};

use super::layout::Layout;
use crate::error::{Error, Result};

/// Files of a tokenizer folder that travel with the weights, where present.
const TOKENIZER: [&str; 6] = [
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "vocab.json",
    "merges.txt",
];

/// Writes the folder; each file appears complete or not at all.
pub fn export(
    folder: &Path,
    spec: &Spec,
    layout: &Layout,
    parameters: &[f32],
    dtype: Dtype,
    tokenizer: Option<&Path>,
) -> Result<()> {
    fs::create_dir_all(folder).map_err(Error::write(folder))?;
    let tensors = layout.slots().iter().map(|slot| {
        let tensor = Mapped::from_f32(&slot.shape, parameters[slot.range.clone()].to_vec());
        (slot.name.clone(), tensor.to_dtype(dtype))
    });
    let metadata = [("format".to_owned(), "pt".to_owned())].into();
    write::file(&folder.join(WEIGHTS), &tensors.collect::<Vec<_>>(), &metadata)?;
    let name = match dtype {
        Dtype::F32 => "float32",
        Dtype::F16 => "float16",
        Dtype::Bf16 => "bfloat16",
    };
    put_json(&folder.join("config.json"), &config(spec, name))?;
    put_json(&folder.join("generation_config.json"), &generation_config(spec))?;
    for name in TOKENIZER {
        let Some(from) = tokenizer.map(|from| from.join(name)).filter(|from| from.is_file()) else {
            continue;
        };
        let bytes = fs::read(&from).map_err(Error::read(&from))?;
        write::replace(&folder.join(name), |out| out.write_all(&bytes))?;
    }
    Ok(())
}

/// `config.json` of a Dream backbone.
fn config(spec: &Spec, dtype: &str) -> Value {
    json!({
        "architectures": ["DreamModel"],
        "model_type": "Dream",
        "torch_dtype": dtype,
        "vocab_size": spec.vocab,
        "hidden_size": spec.hidden,
        "intermediate_size": spec.ffn,
        "num_hidden_layers": spec.layers,
        "num_attention_heads": spec.heads,
        "num_key_value_heads": spec.kv_heads,
        "max_position_embeddings": spec.max_positions,
        "rms_norm_eps": (f64::from(spec.eps) * 1e12).round() / 1e12,
        "rope_theta": spec.rope_theta,
        "tie_word_embeddings": spec.tied,
        "attention_dropout": 0.0,
        "hidden_act": "silu",
        "mask_token_id": spec.ids.mask,
        "pad_token_id": spec.ids.pad,
        "bos_token_id": spec.ids.bos,
        "eos_token_id": eos(spec),
        "use_cache": false
    })
}

fn generation_config(spec: &Spec) -> Value {
    json!({
        "mask_token_id": spec.ids.mask,
        "pad_token_id": spec.ids.pad,
        "bos_token_id": spec.ids.bos,
        "eos_token_id": eos(spec),
        "alg": "origin",
        "eps": 0.001,
        "steps": 512
    })
}

fn eos(spec: &Spec) -> Value {
    match spec.ids.eos[..] {
        [one] => json!(one),
        _ => json!(spec.ids.eos),
    }
}

fn put_json(path: &Path, value: &Value) -> Result<()> {
    let text = format!("{value:#}\n");
    Ok(write::replace(path, |out| out.write_all(text.as_bytes()))?)
}

#[cfg(test)]
mod tests {
    use demask_model::checkpoint::Store;

    use super::*;
    use crate::pretrain::tests::spec;

    #[test]
    fn an_exported_folder_reads_back_as_the_same_backbone() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        fs::create_dir(&from).unwrap();
        fs::write(from.join("tokenizer.json"), "{}").unwrap();
        let spec = spec();
        let layout = Layout::new(&spec).unwrap();
        let parameters = layout.initial(4);
        export(&to, &spec, &layout, &parameters, Dtype::F32, Some(&from)).unwrap();
        assert_eq!(Spec::from_folder(&to).unwrap(), spec);
        let store = Store::open(&to).unwrap();
        for slot in layout.slots() {
            let tensor = store.tensor_shaped(&slot.name, &slot.shape).unwrap();
            assert_eq!(tensor.to_f32(), parameters[slot.range.clone()], "{}", slot.name);
        }
        assert_eq!(store.names().len(), layout.slots().len());
        assert_eq!(fs::read_to_string(to.join("tokenizer.json")).unwrap(), "{}");
        export(&to, &spec, &layout, &parameters, Dtype::F16, None).unwrap();
        assert_eq!(Store::open(&to).unwrap().tensor("model.norm.weight").unwrap().dtype(), Dtype::F16);
    }
}
