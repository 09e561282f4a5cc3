//! Fast-dLLM v2 (1.5B, 7B): Qwen2.5's layout under block-causal attention. Row `i-1` predicts position `i`, and the first
//! position of a block is decided alone, from the last row of the finished block before.

use super::{Architecture, Facts, hub};
use crate::config::{Origin, Shift, Spec, Visibility};

const FACTS: Facts = Facts {
    shift: Shift::Block,
    attention: Visibility::BlockCausal,
    block: Some(32),
    origin: Origin::Prompt,
    qkv_bias: true,
    mask: Some(151_665),
    ..Facts::PLAIN
};

pub(super) const FAST_DLLM: Architecture = Architecture {
    name: "fast-dllm-v2",
    classes: &["Fast_dLLM_QwenForCausalLM"],
    model_types: &["Fast_dLLM_Qwen"],
    names: hub::NAMES,
    facts: FACTS,
    spec: |fields| {
        let spec = hub::dense(fields, "fast-dllm-v2", &FACTS)?;
        Ok(Spec { block: fields.optional_size("bd_size")?.or(spec.block), ..spec })
    },
};
