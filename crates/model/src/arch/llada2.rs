//! LLaDA2.0 and 2.1 (mini, flash): block-causal, half of each head rotating, one tensor for queries, keys and values, and
//! behind the first layers 256 experts in groups, chosen by biased sigmoids. 2.2 decodes otherwise and is refused.
//!
//! `norm_topk_prob`, `score_function`, `router_dtype`, `norm_head` and their like stand in the configs and are not read
//! by the published code.

use super::{Architecture, Facts, hub, refuse};
use crate::config::{Experts, Fields, Origin, Scoring, Spec, Visibility};
use crate::error::Result;
use crate::layer::{Names, role};

/// `<|endoftext|>`, which also pads; the published configs name no end.
const END: u32 = 156_892;

const FACTS: Facts = Facts {
    attention: Visibility::BlockCausal,
    block: Some(32),
    origin: Origin::Prompt,
    qk_norm: true,
    fused_qkv: true,
    mask: Some(156_895),
    judges: &["partial_rotary_factor"],
    ..Facts::PLAIN
};

pub(super) const LLADA2: Architecture = Architecture {
    name: "llada2",
    classes: &["LLaDA2MoeModelLM"],
    model_types: &["llada2_moe"],
    names: Names {
        layer: "model.layers.{}.",
        tensors: &[
            (role::EMBED, "model.word_embeddings"),
            (role::NORM, "model.norm"),
            (role::HEAD, "lm_head"),
            (role::ATTN_NORM, "input_layernorm"),
            (role::QKV, "attention.query_key_value"),
            (role::Q_NORM, "attention.query_layernorm"),
            (role::K_NORM, "attention.key_layernorm"),
            (role::O, "attention.dense"),
            (role::FFN_NORM, "post_attention_layernorm"),
            (role::GATE, "mlp.gate_proj"),
            (role::UP, "mlp.up_proj"),
            (role::DOWN, "mlp.down_proj"),
            (role::ROUTER, "mlp.gate"),
            (role::CHOICE_BIAS, "mlp.gate.expert_bias"),
            (role::EXPERT_GATE, "mlp.experts.{}.gate_proj"),
            (role::EXPERT_UP, "mlp.experts.{}.up_proj"),
            (role::EXPERT_DOWN, "mlp.experts.{}.down_proj"),
            (role::SHARED_GATE, "mlp.shared_experts.gate_proj"),
            (role::SHARED_UP, "mlp.shared_experts.up_proj"),
            (role::SHARED_DOWN, "mlp.shared_experts.down_proj"),
        ],
    },
    facts: FACTS,
    spec,
};

fn spec(fields: &Fields<'_>) -> Result<Spec> {
    refuse::unless_false(fields, &["use_bias"])?;
    let mut spec = hub::spec(fields, LLADA2.name, &FACTS)?;
    if spec.ids.eos.is_empty() {
        spec.ids.eos.push(spec.ids.pad.unwrap_or(END));
    }
    let rotary = hub::rotary(fields, spec.head_dim)?;
    if let Some(other) = fields.optional_size("rotary_dim")?.filter(|&dim| dim != rotary) {
        return Err(fields.bad("rotary_dim", format!("is {other}, partial_rotary_factor says {rotary}")));
    }
    let width = fields.size("moe_intermediate_size")?;
    let dense = fields.optional_size("first_k_dense_replace")?.unwrap_or(0);
    let experts = Experts {
        layers: (0..spec.layers).map(|layer| layer >= dense).collect(),
        count: fields.size("num_experts")?,
        chosen: fields.size("num_experts_per_tok")?,
        width,
        shared: width.saturating_mul(fields.optional_size("num_shared_experts")?.unwrap_or(0)),
        scoring: Scoring::Sigmoid,
        groups: fields.optional_size("n_group")?.unwrap_or(1),
        groups_chosen: fields.optional_size("topk_group")?.unwrap_or(1),
        bias: true,
        normalise: true,
        scale: fields.number("routed_scaling_factor", 1.0)? as f32,
    };
    Ok(Spec {
        rope_theta: fields.number("rope_theta", 6e5)?,
        rotary,
        qk_norm: fields.flag("use_qk_norm", true)?,
        qkv_bias: fields.flag("use_qkv_bias", false)?,
        experts: Some(experts),
        ..spec
    })
}
