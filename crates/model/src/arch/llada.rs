//! LLaDA-8B (Base, Instruct), LLaDA-1.5 and iLLaDA: OLMo-style names around a Llama block, trained from scratch, so row
//! `i` predicts position `i`.

use super::{Architecture, Facts, refuse};
use crate::config::{Fields, Spec};
use crate::error::Result;
use crate::layer::{Names, role};

const FACTS: Facts = Facts {
    // llama.cpp's LLaDA rotates neighbouring pairs.
    gguf_pairs: true,
    ignores: &[
        "alibi_bias_max",
        "attention_layer_norm_with_affine",
        "mlp_ratio",
        "multi_query_attention",
        "rope_full_precision",
    ],
    ..Facts::PLAIN
};

pub(super) const LLADA: Architecture = Architecture {
    name: "llada",
    classes: &["LLaDAModelLM"],
    model_types: &["llada", "LLaDA", "LLaDAModelLM"],
    names: Names {
        layer: "model.transformer.blocks.{}.",
        tensors: &[
            (role::EMBED, "model.transformer.wte"),
            (role::NORM, "model.transformer.ln_f"),
            (role::HEAD, "model.transformer.ff_out"),
            (role::ATTN_NORM, "attn_norm"),
            (role::Q, "q_proj"),
            (role::K, "k_proj"),
            (role::V, "v_proj"),
            (role::O, "attn_out"),
            (role::FFN_NORM, "ff_norm"),
            (role::GATE, "ff_proj"),
            (role::UP, "up_proj"),
            (role::DOWN, "ff_out"),
        ],
    },
    facts: FACTS,
    spec,
};

fn spec(fields: &Fields<'_>) -> Result<Spec> {
    let hidden = fields.size("d_model")?;
    let heads = fields.size("n_heads")?;
    if heads == 0 || !hidden.is_multiple_of(heads) {
        return Err(fields.bad("n_heads", format!("{heads} does not divide d_model {hidden}")));
    }
    refuse_other_blocks(fields)?;
    let ffn = match fields.optional_size("mlp_hidden_size")? {
        Some(ffn) => ffn,
        None => hidden * fields.optional_size("mlp_ratio")?.unwrap_or(4),
    };
    // The table may have more rows than the vocabulary has tokens.
    let vocab = fields.size("vocab_size")?;
    Ok(Spec {
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
        eps: fields.needed("rms_norm_eps")? as f32,
        rope_theta: refuse::rope_theta(fields)?,
        rotary: hidden / heads,
        max_positions: fields.size("max_sequence_length")?,
        tied: fields.flag("weight_tying", false)?,
        qkv_bias: fields.flag("include_qkv_bias", false)?,
        ..Spec::plain(LLADA.name, fields.special_ids(FACTS.mask)?)
    })
}

/// The config can describe blocks that no released LLaDA uses; running them as Llama blocks would
/// give wrong numbers without a word.
fn refuse_other_blocks(fields: &Fields<'_>) -> Result<()> {
    // The class has other defaults than the released models, so a config must say what it means.
    for (field, value) in [("block_type", "llama"), ("layer_norm_type", "rms"), ("activation_type", "silu")] {
        if fields.get(field).is_none() {
            return Err(fields.bad(field, format!("is missing; of a released model it is {value:?}")));
        }
        refuse::unless_one_of(fields, field, &[value])?;
    }
    refuse::unless_false(
        fields,
        &[
            "attention_layer_norm",
            "bias_for_layer_norm",
            "include_bias",
            "input_emb_norm",
            "residual_scaling",
            "scale_logits",
        ],
    )?;
    refuse::unless_one(fields, &["block_group_size"])?;
    refuse::unless_absent(fields, &["num_experts"])?;
    fields.needed_flag("rope")?;
    for field in ["rope", "layer_norm_with_affine"] {
        if !fields.flag(field, true)? {
            return Err(fields.bad(field, "is false, which this engine does not run".into()));
        }
    }
    Ok(())
}
