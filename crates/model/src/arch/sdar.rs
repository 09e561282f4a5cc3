//! SDAR (1.7B, 4B, 8B, and 30B-A3B with experts): Qwen3's layout under block-causal attention, no shift. Sister
//! checkpoints differ in their `block_size`.

use super::{Architecture, Facts, hub, refuse};
use crate::config::{Fields, Origin, Spec, Visibility};
use crate::error::Result;

const FACTS: Facts = Facts {
    attention: Visibility::BlockCausal,
    block: Some(4),
    origin: Origin::Prompt,
    qk_norm: true,
    mask: Some(151_669),
    ..Facts::PLAIN
};

pub(super) const SDAR: Architecture = Architecture {
    name: "sdar",
    classes: &["SDARForCausalLM"],
    model_types: &["sdar"],
    names: hub::NAMES,
    facts: FACTS,
    spec: |fields| finish(fields, hub::dense(fields, "sdar", &FACTS)?),
};

pub(super) const SDAR_MOE: Architecture = Architecture {
    name: "sdar-moe",
    classes: &["SDARMoeForCausalLM"],
    model_types: &["sdar_moe"],
    names: hub::NAMES,
    facts: FACTS,
    spec: |fields| {
        let spec = hub::spec(fields, "sdar-moe", &FACTS)?;
        let experts = Some(hub::qwen3_experts(fields, spec.layers)?);
        finish(fields, Spec { experts, ..spec })
    },
};

fn finish(fields: &Fields<'_>, spec: Spec) -> Result<Spec> {
    refuse::unless_false(fields, &["attention_bias"])?;
    Ok(Spec { block: fields.optional_size("block_size")?.or(spec.block), ..spec })
}
