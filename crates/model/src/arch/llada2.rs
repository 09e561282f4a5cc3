//! LLaDA2.0 and 2.1 (mini, flash): block-causal, half of each head rotating, one tensor for queries, keys and values, and
//! behind the first layers 256 experts in groups, chosen by biased sigmoids. 2.2 decodes otherwise and is refused.
//!
//! `norm_topk_prob`, `score_function`, `norm_head` and their like stand in the configs and are not read by the published
//! code. Its class has other defaults than the released models, so the fields that change the numbers must be there.

use super::{Architecture, Facts, hub, refuse};
use crate::config::{Experts, Fields, Origin, Scoring, Spec, Visibility};
use crate::error::Result;
use crate::layer::{Names, role};

/// `<|endoftext|>`, which also pads; the published configs name no end.
const END: u32 = 156_892;

/// A width that the published code computes instead.
const SHARED: &str = "moe_shared_expert_intermediate_size";

/// What is judged here, or (`moe_router_enable_expert_bias`, `norm_head`, `score_function`) read by nobody.
const JUDGES: &[&str] = &[
    "first_k_dense_replace",
    "moe_router_enable_expert_bias",
    SHARED,
    "n_group",
    "norm_head",
    "num_shared_experts",
    "partial_rotary_factor",
    "routed_scaling_factor",
    "score_function",
    "scoring_func",
    "topk_group",
    "topk_method",
];

const FACTS: Facts = Facts {
    attention: Visibility::BlockCausal,
    block: Some(32),
    origin: Origin::Prompt,
    qk_norm: true,
    fused_qkv: true,
    mask: Some(156_895),
    judges: JUDGES,
    ignores: &["norm_softmax", "norm_topk_prob", "use_rmsnorm"],
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
    refuse::unless_false(fields, &["using_split_qkv_in_self_attention"])?;
    refuse::unless_one_of(fields, "scoring_func", &["sigmoid"])?;
    refuse::unless_one_of(fields, "topk_method", &["noaux_tc"])?;
    let mut spec = hub::spec(fields, LLADA2.name, &FACTS)?;
    if spec.ids.eos.is_empty() {
        spec.ids.eos.push(spec.ids.pad.unwrap_or(END));
    }
    let rotary = hub::rotary(fields, spec.head_dim, fields.needed("partial_rotary_factor")?)?;
    if let Some(other) = fields.optional_size("rotary_dim")?.filter(|&dim| dim != rotary) {
        return Err(fields.bad("rotary_dim", format!("is {other}, partial_rotary_factor says {rotary}")));
    }
    let width = fields.size("moe_intermediate_size")?;
    let shared = width.saturating_mul(fields.optional_size("num_shared_experts")?.unwrap_or(0));
    if let Some(other) = fields.optional_size(SHARED)?.filter(|&other| other != width && other != shared) {
        return Err(fields.bad(SHARED, format!("is {other}, the published code makes it {shared}")));
    }
    let dense = fields.optional_size("first_k_dense_replace")?.unwrap_or(0);
    let experts = Experts {
        layers: (0..spec.layers).map(|layer| layer >= dense).collect(),
        count: fields.size("num_experts")?,
        chosen: fields.size("num_experts_per_tok")?,
        width,
        shared,
        scoring: Scoring::Sigmoid,
        groups: fields.size("n_group")?,
        groups_chosen: fields.size("topk_group")?,
        bias: true,
        normalise: true,
        scale: fields.needed("routed_scaling_factor")? as f32,
    };
    Ok(Spec {
        rotary,
        qk_norm: fields.flag("use_qk_norm", true)?,
        qkv_bias: fields.flag("use_qkv_bias", false)?,
        experts: Some(experts),
        ..spec
    })
}
