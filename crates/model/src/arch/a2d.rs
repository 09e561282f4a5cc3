//! Autoregressive models made into diffusion models by the dllm repository (`a2d-qwen3`, `a2d-qwen2`, `a2d-llama`): their
//! parents' layouts, no shift. Trained with MDLM they attend fully; with BD3LM block by block, the grid at the response.
//!
//! The published configs do not say which. A `block_size`, or `bd3lm` in the model's name, means BD3LM; what was assumed
//! from a name is told.

use super::{Architecture, Facts, hub, refuse};
use crate::config::{Fields, Spec, Visibility};
use crate::error::Result;

/// Block length of the published BD3LM models.
const BLOCK: usize = 32;

const NORMED: Facts = Facts { qk_norm: true, mask: Some(151_669), ..Facts::PLAIN };
const BIASED: Facts = Facts { qkv_bias: true, mask: Some(151_665), ..Facts::PLAIN };

pub(super) const QWEN3: Architecture = Architecture {
    name: "a2d-qwen3",
    classes: &["A2DQwen3LMHeadModel"],
    model_types: &["a2d-qwen3"],
    names: hub::NAMES,
    facts: NORMED,
    spec: |fields| {
        refuse::unless_false(fields, &["attention_bias"])?;
        finish(fields, hub::dense(fields, "a2d-qwen3", &NORMED)?)
    },
};

pub(super) const QWEN2: Architecture = Architecture {
    name: "a2d-qwen2",
    classes: &["A2DQwen2LMHeadModel"],
    model_types: &["a2d-qwen2"],
    names: hub::NAMES,
    facts: BIASED,
    spec: |fields| finish(fields, hub::dense(fields, "a2d-qwen2", &BIASED)?),
};

pub(super) const LLAMA: Architecture = Architecture {
    name: "a2d-llama",
    classes: &["A2DLlamaLMHeadModel"],
    model_types: &["a2d-llama"],
    names: hub::NAMES,
    facts: Facts::PLAIN,
    spec: |fields| {
        refuse::unless_false(fields, &["attention_bias"])?;
        finish(fields, hub::dense(fields, "a2d-llama", &Facts::PLAIN)?)
    },
};

fn finish(fields: &Fields<'_>, spec: Spec) -> Result<Spec> {
    let blocks = |block| Spec { attention: Visibility::BlockCausal, block: Some(block), ..spec.clone() };
    if let Some(block) = fields.optional_size("block_size")? {
        return Ok(blocks(block));
    }
    let inside = fields.text("_name_or_path").is_some_and(|name| name.contains("bd3lm"));
    let named = inside || fields.path().to_string_lossy().contains("bd3lm");
    let (assumed, says) = match named {
        true => (format!("attention in blocks of {BLOCK}"), "says"),
        false => ("full attention".to_owned(), "does not say"),
    };
    fields.assume(format!(
        "config.json has no `block_size`: {assumed} was assumed, because the model's name {says} bd3lm"
    ));
    Ok(if named { blocks(BLOCK) } else { spec })
}
