//! Dream (and its siblings DiffuCoder, Dream-Coder, DreamOn): Qwen2.5's layout made
//! bidirectional. Row `i-1` predicts position `i`, as in its autoregressive parent.

use crate::arch::{Architecture, Names};
use crate::config::{Fields, Spec, SpecialIds};
use crate::error::Result;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "dream",
    model_types: &["Dream", "dream", "DreamModel"],
    names: Names {
        embed: "model.embed_tokens",
        norm: "model.norm",
        head: "lm_head",
        layer_prefix: "model.layers.{}.",
        attn_norm: "input_layernorm",
        q: "self_attn.q_proj",
        k: "self_attn.k_proj",
        v: "self_attn.v_proj",
        o: "self_attn.o_proj",
        ffn_norm: "post_attention_layernorm",
        gate: "mlp.gate_proj",
        up: "mlp.up_proj",
        down: "mlp.down_proj",
    },
    spec,
};

fn spec(fields: &Fields<'_>) -> Result<Spec> {
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
    let mask = fields.ids("mask_token_id")?;
    let mask = *mask.first().ok_or_else(|| fields.bad("mask_token_id", "is missing".into()))?;
    Ok(Spec {
        architecture: ARCHITECTURE.name,
        vocab: fields.size("vocab_size")?,
        hidden,
        layers: fields.size("num_hidden_layers")?,
        heads,
        kv_heads: fields.optional_size("num_key_value_heads")?.unwrap_or(heads),
        head_dim,
        ffn: fields.size("intermediate_size")?,
        eps: fields.number("rms_norm_eps", 1e-6)? as f32,
        rope_theta: fields.number("rope_theta", 1e6)?,
        max_positions: fields.size("max_position_embeddings")?,
        tied: fields.flag("tie_word_embeddings", false)?,
        qkv_bias: fields.flag("attention_bias", true)?,
        shift: true,
        ids: SpecialIds {
            mask,
            eos: fields.ids("eos_token_id")?,
            pad: fields.ids("pad_token_id")?.first().copied(),
            bos: fields.ids("bos_token_id")?.first().copied(),
        },
    })
}
