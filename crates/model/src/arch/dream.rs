//! Dream (and its siblings Dream-Coder, DiffuCoder, DreamOn): Qwen2.5's layout made bidirectional. Row `i-1` predicts
//! position `i`, as in its autoregressive parent.

use super::{Architecture, Facts, hub};
use crate::config::{Fields, Shift, Spec};
use crate::error::Result;

const FACTS: Facts = Facts { shift: Shift::Global, qkv_bias: true, ..Facts::PLAIN };

pub(super) const DREAM: Architecture = Architecture {
    name: "dream",
    classes: &["DreamModel"],
    model_types: &["Dream", "dream", "DreamModel"],
    names: hub::NAMES,
    facts: FACTS,
    spec,
};

fn spec(fields: &Fields<'_>) -> Result<Spec> {
    let spec = hub::dense(fields, DREAM.name, &FACTS)?;
    Ok(Spec { qkv_bias: fields.flag("attention_bias", true)?, ..spec })
}
