//! ALBERT (`AlbertForMaskedLM`, `AlbertForPreTraining`): BERT whose layers share one block's weights and whose tables are
//! narrower than the stream.

use super::{Architecture, Facts, bert, refuse};
use crate::config::{Fields, Spec};
use crate::error::Result;
use crate::layer::{Names, role};

pub(super) const ALBERT: Architecture = Architecture {
    name: "albert",
    classes: &["AlbertForMaskedLM", "AlbertForPreTraining"],
    model_types: &["albert"],
    names: Names {
        layer: "albert.encoder.albert_layer_groups.0.albert_layers.0.",
        tensors: &[
            (role::EMBED, "albert.embeddings.word_embeddings"),
            (role::POSITIONS, "albert.embeddings.position_embeddings"),
            (role::TYPES, "albert.embeddings.token_type_embeddings"),
            (role::INPUT_NORM, "albert.embeddings.LayerNorm"),
            (role::WIDEN, "albert.encoder.embedding_hidden_mapping_in"),
            (role::Q, "attention.query"),
            (role::K, "attention.key"),
            (role::V, "attention.value"),
            (role::O, "attention.dense"),
            (role::ATTN_NORM, "attention.LayerNorm"),
            (role::UP, "ffn"),
            (role::DOWN, "ffn_output"),
            (role::FFN_NORM, "full_layer_layer_norm"),
            (role::TRANSFORM, "predictions.dense"),
            (role::TRANSFORM_NORM, "predictions.LayerNorm"),
            (role::HEAD_BIAS, "predictions.bias"),
        ],
    },
    facts: Facts {
        qkv_bias: true,
        gguf: false,
        unread: &["albert.pooler", "sop_classifier.", "embeddings.position_ids", "predictions.decoder."],
        judges: bert::JUDGES,
        ..Facts::PLAIN
    },
    spec,
};

fn spec(fields: &Fields<'_>) -> Result<Spec> {
    refuse::unless_one(fields, &["num_hidden_groups", "inner_group_num"])?;
    let spec = bert::line(fields, ALBERT.name, "gelu_new")?;
    let width = fields.optional_size("embedding_size")?.unwrap_or(128);
    Ok(Spec { table: Some(width), shared_layers: true, ..spec })
}
