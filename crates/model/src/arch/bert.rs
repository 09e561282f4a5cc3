//! BERT (`BertForMaskedLM`, `BertForPreTraining`): norms behind the sums, LayerNorm, learned positions and token types, an
//! MLP without a gate, a bias on every map, and a head tied to the table behind a transform of its own.

use super::{Architecture, Facts, refuse};
use crate::config::{Activation, Fields, NormKind, NormPlace, Positions, Spec, SpecialIds};
use crate::error::Result;
use crate::layer::{Names, role};

const FACTS: Facts = Facts {
    qkv_bias: true,
    gguf: false,
    unread: &["bert.pooler.", "cls.seq_relationship.", "embeddings.position_ids", "cls.predictions.decoder."],
    judges: JUDGES,
    ..Facts::PLAIN
};

/// What [`line()`] judges.
pub(super) const JUDGES: &[&str] = &["hidden_act", "position_embedding_type"];

pub(super) const BERT: Architecture = Architecture {
    name: "bert",
    classes: &["BertForMaskedLM", "BertForPreTraining"],
    model_types: &["bert"],
    names: Names {
        layer: "bert.encoder.layer.{}.",
        tensors: &[
            (role::EMBED, "bert.embeddings.word_embeddings"),
            (role::POSITIONS, "bert.embeddings.position_embeddings"),
            (role::TYPES, "bert.embeddings.token_type_embeddings"),
            (role::INPUT_NORM, "bert.embeddings.LayerNorm"),
            (role::Q, "attention.self.query"),
            (role::K, "attention.self.key"),
            (role::V, "attention.self.value"),
            (role::O, "attention.output.dense"),
            (role::ATTN_NORM, "attention.output.LayerNorm"),
            (role::UP, "intermediate.dense"),
            (role::DOWN, "output.dense"),
            (role::FFN_NORM, "output.LayerNorm"),
            (role::TRANSFORM, "cls.predictions.transform.dense"),
            (role::TRANSFORM_NORM, "cls.predictions.transform.LayerNorm"),
            (role::HEAD_BIAS, "cls.predictions.bias"),
        ],
    },
    facts: FACTS,
    spec: |fields| line(fields, "bert", "gelu"),
};

/// The `Spec` of a model of BERT's line, whose config may leave the activation open.
pub(super) fn line(fields: &Fields<'_>, architecture: &'static str, usual: &str) -> Result<Spec> {
    refuse::unless_one_of(fields, "position_embedding_type", &["absolute"])?;
    refuse::unless_false(fields, &["is_decoder", "add_cross_attention"])?;
    if !fields.flag("tie_word_embeddings", true)? {
        return Err(fields.bad("tie_word_embeddings", "is false; this engine runs the tied head".into()));
    }
    if fields.get("pruned_heads").and_then(|heads| heads.as_object()).is_some_and(|heads| !heads.is_empty()) {
        return Err(fields.bad("pruned_heads", "names heads; this engine runs whole layers".into()));
    }
    let activation = match fields.get("hidden_act").map_or(Some(usual), |name| name.as_str()) {
        Some("gelu") => Activation::Gelu,
        Some("gelu_new" | "gelu_pytorch_tanh") => Activation::GeluTanh,
        Some("relu") => Activation::Relu,
        _ => return Err(fields.bad("hidden_act", "is not gelu, gelu_new or relu".into())),
    };
    let (hidden, heads) = (fields.size("hidden_size")?, fields.size("num_attention_heads")?);
    if heads == 0 || !hidden.is_multiple_of(heads) {
        return Err(
            fields.bad("num_attention_heads", format!("{heads} does not divide hidden_size {hidden}"))
        );
    }
    Ok(Spec {
        vocab: fields.size("vocab_size")?,
        hidden,
        layers: fields.size("num_hidden_layers")?,
        heads,
        kv_heads: heads,
        head_dim: hidden / heads,
        ffn: fields.size("intermediate_size")?,
        activation,
        norm: NormKind::Layer,
        norm_place: NormPlace::Behind,
        eps: fields.number("layer_norm_eps", 1e-12)? as f32,
        positions: Positions::Learned,
        token_types: fields.optional_size("type_vocab_size")?.unwrap_or(2),
        max_positions: fields.size("max_position_embeddings")?,
        tied: true,
        qkv_bias: true,
        output_bias: true,
        head_transform: true,
        ..Spec::plain(architecture, ids(fields)?)
    })
}

/// The end of a text is its separator, where the config names no end.
fn ids(fields: &Fields<'_>) -> Result<SpecialIds> {
    let mut ids = fields.special_ids(fields.token_id("[MASK]"))?;
    if ids.eos.is_empty() {
        let named = fields.ids("sep_token_id")?.first().copied();
        ids.eos.extend(named.or_else(|| fields.token_id("[SEP]")));
    }
    if ids.eos.is_empty() {
        let problem = "is missing, and no tokenizer.json beside the config has a [SEP]";
        return Err(fields.bad("eos_token_id", problem.into()));
    }
    Ok(ids)
}
