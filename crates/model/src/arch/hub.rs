//! Names and fields that most families of the Hub share: those of Qwen2, Qwen3 and Qwen3-MoE.

use super::{Facts, refuse};
use crate::config::{Experts, Fields, Scoring, Spec};
use crate::error::Result;
use crate::layer::{Names, role};

/// Tensor names of the Qwen line.
pub(super) const NAMES: Names = Names {
    layer: "model.layers.{}.",
    tensors: &[
        (role::EMBED, "model.embed_tokens"),
        (role::NORM, "model.norm"),
        (role::HEAD, "lm_head"),
        (role::ATTN_NORM, "input_layernorm"),
        (role::Q, "self_attn.q_proj"),
        (role::K, "self_attn.k_proj"),
        (role::V, "self_attn.v_proj"),
        (role::Q_NORM, "self_attn.q_norm"),
        (role::K_NORM, "self_attn.k_norm"),
        (role::O, "self_attn.o_proj"),
        (role::FFN_NORM, "post_attention_layernorm"),
        (role::GATE, "mlp.gate_proj"),
        (role::UP, "mlp.up_proj"),
        (role::DOWN, "mlp.down_proj"),
        (role::ROUTER, "mlp.gate"),
        (role::EXPERT_GATE, "mlp.experts.{}.gate_proj"),
        (role::EXPERT_UP, "mlp.experts.{}.up_proj"),
        (role::EXPERT_DOWN, "mlp.experts.{}.down_proj"),
    ],
};

/// The `Spec` of a dense model with the usual fields; a family changes what it does otherwise.
pub(super) fn spec(fields: &Fields<'_>, architecture: &'static str, facts: &Facts) -> Result<Spec> {
    let hidden = fields.size("hidden_size")?;
    let heads = fields.size("num_attention_heads")?;
    let head_dim = match fields.optional_size("head_dim")? {
        Some(dim) => dim,
        None if heads > 0 && hidden.is_multiple_of(heads) => hidden / heads,
        None => {
            return Err(
                fields.bad("num_attention_heads", format!("{heads} does not divide hidden_size {hidden}"))
            );
        }
    };
    Ok(Spec {
        vocab: fields.size("vocab_size")?,
        hidden,
        layers: fields.size("num_hidden_layers")?,
        heads,
        kv_heads: fields.optional_size("num_key_value_heads")?.unwrap_or(heads),
        head_dim,
        // A model all of whose layers have experts need not say.
        ffn: fields.optional_size("intermediate_size")?.unwrap_or(1),
        eps: fields.needed("rms_norm_eps")? as f32,
        rope_theta: refuse::rope_theta(fields)?,
        rotary: head_dim,
        qk_norm: facts.qk_norm,
        max_positions: fields.size("max_position_embeddings")?,
        tied: fields.flag("tie_word_embeddings", false)?,
        qkv_bias: facts.qkv_bias,
        fused_qkv: facts.fused_qkv,
        attention: facts.attention,
        block: facts.block,
        origin: facts.origin,
        shift: facts.shift,
        ..Spec::plain(architecture, fields.special_ids(facts.mask)?)
    })
}

/// As [`spec`], of a family without experts.
pub(super) fn dense(fields: &Fields<'_>, architecture: &'static str, facts: &Facts) -> Result<Spec> {
    fields.size("intermediate_size")?;
    refuse::unless_absent(fields, &["num_experts", "num_local_experts", "n_routed_experts"])?;
    spec(fields, architecture, facts)
}

/// Qwen3-MoE's experts: softmax over all, the chosen normalised to sum to 1, in all layers but those named.
pub(super) fn qwen3_experts(fields: &Fields<'_>, layers: usize) -> Result<Experts> {
    let dense = fields.ids("mlp_only_layers")?;
    let every = fields.optional_size("decoder_sparse_step")?.unwrap_or(1);
    let sparse =
        |layer: usize| !dense.contains(&(layer as u32)) && every > 0 && (layer + 1).is_multiple_of(every);
    Ok(Experts {
        layers: (0..layers).map(sparse).collect(),
        count: fields.size("num_experts")?,
        chosen: fields.size("num_experts_per_tok")?,
        width: fields.size("moe_intermediate_size")?,
        shared: 0,
        scoring: Scoring::Softmax,
        groups: 1,
        groups_chosen: 1,
        bias: false,
        normalise: fields.needed_flag("norm_topk_prob")?,
        scale: 1.0,
    })
}

/// A rotated part of a head, as `partial_rotary_factor` gives it.
pub(super) fn rotary(fields: &Fields<'_>, head_dim: usize, factor: f64) -> Result<usize> {
    if !(factor > 0.0 && factor <= 1.0) {
        return Err(fields.bad("partial_rotary_factor", format!("{factor} is not between 0 and 1")));
    }
    Ok((head_dim as f64 * factor) as usize)
}
