//! Small checkpoints of any family, made up.

use std::fs;
use std::path::Path;

use demask_model::checkpoint::Dtype;
use demask_model::checkpoint::write::{self, Declared, Options};
use demask_model::{Spec, arch, shapes, synthetic};
use serde_json::{Value, json};

/// A small model of the family of a released one, as a checkpoint folder. Vectors differ from place to place, so that none
/// can be lost or moved unseen.
pub(crate) fn made_up(shape: &str, more: &Value, folder: &Path) -> Spec {
    let mut config = shapes::find(shape).unwrap().config();
    for (field, value) in [
        ("vocab_size", 300),
        ("hidden_size", 64),
        ("intermediate_size", 96),
        ("num_hidden_layers", 2),
        ("num_attention_heads", 4),
        ("num_key_value_heads", 2),
        ("head_dim", 16),
        ("mask_token_id", 299),
        ("pad_token_id", 298),
        ("eos_token_id", 297),
        ("bos_token_id", 296),
    ] {
        config[field] = json!(value);
    }
    for (field, value) in more.as_object().unwrap() {
        config[field] = value.clone();
    }
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("config.json"), config.to_string()).unwrap();
    let spec = Spec::from_folder(folder).unwrap();
    let tensors = arch::tensors(&spec).unwrap();
    let declared: Vec<_> =
        tensors.iter().map(|(name, shape)| Declared::new(name, Dtype::F32, shape)).collect();
    write::folder(folder, &declared, &Options::default(), |tensor, out| {
        let mut values = synthetic::values(&tensor.name, &tensor.shape);
        if tensor.shape.len() == 1 {
            let of = |i: usize| ((i * 7 + tensor.name.len()) % 11) as f32 / 20.0;
            values.iter_mut().enumerate().for_each(|(i, value)| *value += of(i));
        }
        values.iter().try_for_each(|value| out.write_all(&value.to_le_bytes()))
    })
    .unwrap();
    spec
}
