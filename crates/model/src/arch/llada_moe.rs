//! LLaDA-MoE-7B-A1B: full attention, experts by softmax whose weights are not normalised to sum to 1. Its `model_type` is
//! LLaDA-8B's; only `architectures` tells them apart.

use super::{Architecture, Facts, hub, refuse};
use crate::config::{Experts, Fields, Scoring, Spec};
use crate::error::Result;

const FACTS: Facts = Facts {
    qk_norm: true,
    mask: Some(156_895),
    judges: &["moe_layer_freq", "partial_rotary_factor"],
    // The published code normalises nothing, whatever the config says.
    ignores: &["norm_topk_prob"],
    ..Facts::PLAIN
};

pub(super) const LLADA_MOE: Architecture = Architecture {
    name: "llada-moe",
    classes: &["LLaDAMoEModelLM", "LLaDAMoEModel"],
    model_types: &["llada_moe", "llada-moe"],
    names: hub::NAMES,
    facts: FACTS,
    spec,
};

fn spec(fields: &Fields<'_>) -> Result<Spec> {
    refuse::unless_false(fields, &["attention_bias"])?;
    let spec = hub::spec(fields, LLADA_MOE.name, &FACTS)?;
    let layers = match fields.get("moe_layer_freq").and_then(|list| list.as_array()) {
        // A config with fewer layers than its list is a model cut short.
        Some(list) => list.iter().take(spec.layers).map(|freq| freq.as_u64() != Some(0)).collect(),
        None => {
            refuse::unless_one(fields, &["moe_layer_freq"])?;
            vec![true; spec.layers]
        }
    };
    let experts = Experts {
        layers,
        count: fields.size("num_experts")?,
        chosen: fields.size("num_experts_per_tok")?,
        width: fields.size("expert_intermediate_size")?,
        shared: 0,
        scoring: Scoring::Softmax,
        groups: 1,
        groups_chosen: 1,
        bias: false,
        normalise: false,
        scale: 1.0,
    };
    Ok(Spec {
        ffn: fields.optional_size("dense_intermediate_size")?.unwrap_or(1),
        rotary: hub::rotary(fields, spec.head_dim, fields.number("partial_rotary_factor", 1.0)?)?,
        qk_norm: fields.flag("qk_layernorm", true)?,
        experts: Some(experts),
        ..spec
    })
}
