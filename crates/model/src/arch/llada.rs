//! LLaDA-8B (Base, Instruct): OLMo-style names around a Llama block, trained from scratch, so row `i`
//! predicts position `i`.

use crate::arch::{Architecture, Names};
use crate::config::{Fields, Spec, SpecialIds};
use crate::error::Result;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "llada",
    model_types: &["llada", "LLaDA", "LLaDAModelLM"],
    names: Names {
        embed: "model.transformer.wte",
        norm: "model.transformer.ln_f",
        head: "model.transformer.ff_out",
        layer_prefix: "model.transformer.blocks.{}.",
        attn_norm: "attn_norm",
        q: "q_proj",
        k: "k_proj",
        v: "v_proj",
        o: "attn_out",
        ffn_norm: "ff_norm",
        gate: "ff_proj",
        up: "up_proj",
        down: "ff_out",
    },
    spec,
};

fn spec(fields: &Fields<'_>) -> Result<Spec> {
    let hidden = fields.size("d_model")?;
    let heads = fields.size("n_heads")?;
    if heads == 0 || !hidden.is_multiple_of(heads) {
        return Err(fields.bad("n_heads", format!("{heads} does not divide d_model {hidden}")));
    }
    refuse_other_blocks(fields)?;
    let mask = fields.ids("mask_token_id")?;
    let mask = *mask.first().ok_or_else(|| fields.bad("mask_token_id", "is missing".into()))?;
    let ffn = match fields.optional_size("mlp_hidden_size")? {
        Some(ffn) => ffn,
        None => hidden * fields.optional_size("mlp_ratio")?.unwrap_or(4),
    };
    // The table may have more rows than the vocabulary has tokens.
    let vocab = fields.size("vocab_size")?;
    Ok(Spec {
        architecture: ARCHITECTURE.name,
        vocab: fields.optional_size("embedding_size")?.unwrap_or(vocab).max(vocab),
        hidden,
        layers: fields.size("n_layers")?,
        heads,
        kv_heads: match fields.optional_size("n_kv_heads")? {
            Some(kv_heads) => kv_heads,
            None if fields.flag("multi_query_attention", false)? => 1,
            None => heads,
        },
        head_dim: hidden / heads,
        ffn,
        eps: fields.number("rms_norm_eps", 1e-5)? as f32,
        rope_theta: fields.number("rope_theta", 5e5)?,
        max_positions: fields.size("max_sequence_length")?,
        tied: fields.flag("weight_tying", false)?,
        qkv_bias: fields.flag("include_qkv_bias", false)? || fields.flag("include_bias", false)?,
        shift: false,
        ids: SpecialIds {
            mask,
            eos: fields.ids("eos_token_id")?,
            pad: fields.ids("pad_token_id")?.first().copied(),
            bos: fields.ids("bos_token_id")?.first().copied(),
        },
    })
}

/// The config can describe blocks that no released LLaDA uses; running them as Llama blocks would
/// give wrong numbers without a word.
fn refuse_other_blocks(fields: &Fields<'_>) -> Result<()> {
    let expected = [("block_type", "llama"), ("layer_norm_type", "rms"), ("activation_type", "silu")];
    for (field, value) in expected {
        if let Some(found) = fields.text(field).filter(|&f| f != value) {
            return Err(fields.bad(field, format!("is {found:?}; this engine runs {value:?}")));
        }
    }
    for field in ["alibi", "attention_layer_norm", "scale_logits", "input_emb_norm", "bias_for_layer_norm"] {
        if fields.flag(field, false)? {
            return Err(fields.bad(field, "is true, which this engine does not run".into()));
        }
    }
    Ok(())
}
