//! Architectures as data: each file maps one family's `config.json` fields to a [`Spec`] and its
//! tensor names to [`Names`]. The Transformer itself is written once, in `transformer.rs`.

use crate::config::{Fields, Spec};
use crate::error::Result;

mod dream;
mod llada;

/// Tensor names of one family. `layer` names are relative to `layer_prefix` with `{}` replaced
/// by the layer's number; a name without its suffix `.weight`/`.bias`.
#[derive(Debug, Clone, Copy)]
pub struct Names {
    /// Token embedding.
    pub embed: &'static str,
    /// Final normalisation.
    pub norm: &'static str,
    /// Output head (absent when tied).
    pub head: &'static str,
    /// Prefix of a block's tensors.
    pub layer_prefix: &'static str,
    /// Normalisation before attention.
    pub attn_norm: &'static str,
    /// Query projection.
    pub q: &'static str,
    /// Key projection.
    pub k: &'static str,
    /// Value projection.
    pub v: &'static str,
    /// Attention output projection.
    pub o: &'static str,
    /// Normalisation before the MLP.
    pub ffn_norm: &'static str,
    /// Gate projection of the MLP.
    pub gate: &'static str,
    /// Up projection of the MLP.
    pub up: &'static str,
    /// Down projection of the MLP.
    pub down: &'static str,
}

impl Names {
    /// Full name of a block's tensor, without its suffix.
    pub fn in_layer(&self, layer: usize, name: &str) -> String {
        format!("{}{name}", self.layer_prefix.replace("{}", &layer.to_string()))
    }
}

/// One family of checkpoints.
pub struct Architecture {
    /// Short name, also `Spec::architecture`.
    pub name: &'static str,
    /// Values of `model_type` or `architectures[0]` that choose it.
    model_types: &'static [&'static str],
    /// Tensor names.
    pub names: Names,
    spec: fn(&Fields<'_>) -> Result<Spec>,
}

impl Architecture {
    /// The `Spec` that a `config.json` of this family describes.
    pub fn spec(&self, fields: &Fields<'_>) -> Result<Spec> {
        (self.spec)(fields)
    }
}

const ALL: &[Architecture] = &[dream::ARCHITECTURE, llada::ARCHITECTURE];

/// Chooses the family by `model_type`, else by the first entry of `architectures`.
pub fn by_config(fields: &Fields<'_>) -> Result<&'static Architecture> {
    let model_type = fields.text("model_type").or_else(|| fields.first_text("architectures"));
    let model_type = model_type.ok_or_else(|| fields.bad("model_type", "is missing".into()))?;
    ALL.iter().find(|a| a.model_types.contains(&model_type)).ok_or_else(|| {
        let known: Vec<_> = ALL.iter().flat_map(|a| a.model_types).copied().collect();
        fields.bad(
            "model_type",
            format!("{model_type:?} is not one this engine runs (known: {})", known.join(", ")),
        )
    })
}

/// The family a `Spec` came from.
pub fn by_name(name: &str) -> Option<&'static Architecture> {
    ALL.iter().find(|a| a.name == name)
}

/// Every tensor a checkpoint of this `Spec` must hold, with its shape.
pub fn tensors(spec: &Spec, names: &Names) -> Vec<(String, Vec<usize>)> {
    let (d, q, kv, ffn) = (spec.hidden, spec.q_width(), spec.kv_width(), spec.ffn);
    let mut all = vec![(format!("{}.weight", names.embed), vec![spec.vocab, d])];
    for layer in 0..spec.layers {
        let mut push = |name: &str, shape: &[usize], bias: bool| {
            let full = names.in_layer(layer, name);
            all.push((format!("{full}.weight"), shape.to_vec()));
            if bias {
                all.push((format!("{full}.bias"), vec![shape[0]]));
            }
        };
        push(names.attn_norm, &[d], false);
        push(names.q, &[q, d], spec.qkv_bias);
        push(names.k, &[kv, d], spec.qkv_bias);
        push(names.v, &[kv, d], spec.qkv_bias);
        push(names.o, &[d, q], false);
        push(names.ffn_norm, &[d], false);
        push(names.gate, &[ffn, d], false);
        push(names.up, &[ffn, d], false);
        push(names.down, &[d, ffn], false);
    }
    all.push((format!("{}.weight", names.norm), vec![d]));
    if !spec.tied {
        all.push((format!("{}.weight", names.head), vec![spec.vocab, d]));
    }
    all
}
