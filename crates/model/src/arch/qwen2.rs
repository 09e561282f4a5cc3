//! Qwen2 and Qwen2.5: Dream's autoregressive parent. It attends causally (blocks of one row) and has no mask, so it cannot
//! be decoded by diffusion; it assists a diffusion model that has its tokens.

use super::{Architecture, Facts, hub};
use crate::config::{Shift, SpecialIds, Visibility};

const FACTS: Facts = Facts {
    shift: Shift::Global,
    attention: Visibility::BlockCausal,
    block: Some(1),
    qkv_bias: true,
    mask: Some(SpecialIds::NO_MASK),
    ..Facts::PLAIN
};

pub(super) const QWEN2: Architecture = Architecture {
    name: "qwen2",
    classes: &["Qwen2ForCausalLM"],
    model_types: &["qwen2"],
    names: hub::NAMES,
    facts: FACTS,
    spec: |fields| hub::dense(fields, "qwen2", &FACTS),
};
