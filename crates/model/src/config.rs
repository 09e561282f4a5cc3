//! `config.json` made into a [`Spec`]: everything that distinguishes one masked-diffusion
//! Transformer from another, as data.
//!
//! Invariant: a `Spec` that was read here is consistent (positive sizes, heads divide, ids inside the vocabulary, no
//! product that overflows), so nothing downstream checks it again. Its fields are public: who changes one answers for it.

use std::path::Path;

use serde_json::Value;

use crate::arch;
use crate::error::{Error, Result};
use crate::files;
use crate::gguf::{self, Gguf};

/// Shape, numerics and special ids of a backbone.
#[derive(Debug, Clone, PartialEq)]
pub struct Spec {
    /// Which mapping file named it (`dream`, `llada`).
    pub architecture: &'static str,
    /// Rows of the embedding and of the head.
    pub vocab: usize,
    /// Width of the residual stream, the paper's `d`.
    pub hidden: usize,
    /// Number of Transformer blocks.
    pub layers: usize,
    /// Query heads.
    pub heads: usize,
    /// Key/value heads (grouped-query attention when fewer than `heads`).
    pub kv_heads: usize,
    /// Width of one head.
    pub head_dim: usize,
    /// Inner width of the gated MLP.
    pub ffn: usize,
    /// RMSNorm epsilon.
    pub eps: f32,
    /// Base of the rotary embedding.
    pub rope_theta: f64,
    /// Longest canvas the checkpoint declares.
    pub max_positions: usize,
    /// The head shares the embedding matrix.
    pub tied: bool,
    /// Query, key and value projections carry a bias.
    pub qkv_bias: bool,
    /// Row `i-1` predicts position `i` (Dream keeps the shift of its autoregressive parent).
    pub shift: bool,
    /// Special token ids.
    pub ids: SpecialIds,
}

/// Token ids with a meaning to the decoder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecialIds {
    /// The mask token.
    pub mask: u32,
    /// Ids that end a response; the first one fills the canvas after an end.
    pub eos: Vec<u32>,
    /// Padding, where the checkpoint names one.
    pub pad: Option<u32>,
    /// Beginning of sequence, where the checkpoint names one.
    pub bos: Option<u32>,
}

impl Spec {
    /// Reads a GGUF file's metadata, or the `config.json` of a checkpoint folder.
    pub fn from_folder(folder: &Path) -> Result<Self> {
        if gguf::is_gguf(folder) {
            return Gguf::open(folder)?.spec();
        }
        let path = folder.join("config.json");
        let text = files::read_to_string(&path).map_err(|cause| Error::Read { path: path.clone(), cause })?;
        Self::from_json(&text, &path)
    }

    /// Parses the text of a `config.json`; `path` is only used in error messages.
    pub fn from_json(text: &str, path: &Path) -> Result<Self> {
        let value: Value = serde_json::from_str(text)
            .map_err(|cause| Error::Json { path: path.to_owned(), cause: cause.to_string() })?;
        let fields = Fields { value: &value, path };
        let spec = arch::by_config(&fields)?.spec(&fields)?;
        spec.check(&fields)?;
        Ok(spec)
    }

    /// The row whose hidden state predicts the token at `position`.
    pub fn predicting_row(&self, position: usize) -> usize {
        if self.shift { position.saturating_sub(1) } else { position }
    }

    /// Width of all query heads together.
    pub fn q_width(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Width of all key (or value) heads together.
    pub fn kv_width(&self) -> usize {
        self.kv_heads * self.head_dim
    }

    /// Number of parameters.
    pub fn parameters(&self) -> usize {
        let attention = self.hidden * (2 * self.q_width() + 2 * self.kv_width());
        let bias = if self.qkv_bias { self.q_width() + 2 * self.kv_width() } else { 0 };
        let layer = attention + bias + 3 * self.hidden * self.ffn + 2 * self.hidden;
        let embeddings = self.vocab * self.hidden * if self.tied { 1 } else { 2 };
        self.layers * layer + embeddings + self.hidden
    }

    fn check(&self, fields: &Fields<'_>) -> Result<()> {
        // Ceilings far above any published model: they turn a corrupt number into a sentence
        // instead of an allocation.
        let limits = [
            ("vocab_size", self.vocab, 1 << 22),
            ("hidden_size", self.hidden, 1 << 17),
            ("number of layers", self.layers, 1 << 12),
            ("number of attention heads", self.heads, 1 << 12),
            ("number of key/value heads", self.kv_heads, 1 << 12),
            ("head dimension", self.head_dim, 1 << 12),
            ("intermediate_size", self.ffn, 1 << 20),
            ("max_position_embeddings", self.max_positions, 1 << 26),
        ];
        for (what, value, limit) in limits {
            if value == 0 || value > limit {
                return Err(fields.bad(what, format!("{value} is not between 1 and {limit}")));
            }
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            return Err(fields.bad(
                "number of key/value heads",
                format!("{} does not divide the {} attention heads", self.kv_heads, self.heads),
            ));
        }
        if !self.head_dim.is_multiple_of(2) {
            return Err(fields
                .bad("head dimension", format!("{} is odd, rotary embeddings need pairs", self.head_dim)));
        }
        if !(self.eps > 0.0 && self.eps < 1.0) {
            return Err(fields.bad("rms_norm_eps", format!("{} is not between 0 and 1", self.eps)));
        }
        if !(self.rope_theta >= 1.0 && self.rope_theta.is_finite()) {
            return Err(fields.bad("rope_theta", format!("{} is not a finite number ≥ 1", self.rope_theta)));
        }
        let named = [
            ("mask_token_id", Some(self.ids.mask)),
            ("pad_token_id", self.ids.pad),
            ("bos_token_id", self.ids.bos),
        ];
        let eos = self.ids.eos.iter().map(|&id| ("eos_token_id", Some(id)));
        for (what, id) in named.into_iter().chain(eos) {
            if let Some(id) = id.filter(|&id| id as usize >= self.vocab) {
                return Err(fields.bad(what, format!("{id} is outside the vocabulary of {}", self.vocab)));
            }
        }
        Ok(())
    }
}

/// Typed access to the fields of a `config.json`, with errors that name file and field.
pub struct Fields<'a> {
    value: &'a Value,
    path: &'a Path,
}

impl Fields<'_> {
    /// The field as text, if present.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.value.get(name).and_then(Value::as_str)
    }

    /// First entry of a list of strings.
    pub fn first_text(&self, name: &str) -> Option<&str> {
        self.value.get(name)?.as_array()?.first()?.as_str()
    }

    /// A required size.
    pub fn size(&self, name: &str) -> Result<usize> {
        self.optional_size(name)?.ok_or_else(|| self.bad(name, "is missing".into()))
    }

    /// A size that may be absent or null.
    pub fn optional_size(&self, name: &str) -> Result<Option<usize>> {
        match self.value.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match value.as_u64().and_then(|v| usize::try_from(v).ok()) {
                Some(size) => Ok(Some(size)),
                None => Err(self.bad(name, format!("{value} is not a size"))),
            },
        }
    }

    /// A number with a default.
    pub fn number(&self, name: &str, default: f64) -> Result<f64> {
        match self.value.get(name) {
            None | Some(Value::Null) => Ok(default),
            Some(value) => value.as_f64().ok_or_else(|| self.bad(name, format!("{value} is not a number"))),
        }
    }

    /// A flag with a default.
    pub fn flag(&self, name: &str, default: bool) -> Result<bool> {
        match self.value.get(name) {
            None | Some(Value::Null) => Ok(default),
            Some(value) => {
                value.as_bool().ok_or_else(|| self.bad(name, format!("{value} is not true or false")))
            }
        }
    }

    /// An id, or a list of ids, or nothing.
    pub fn ids(&self, name: &str) -> Result<Vec<u32>> {
        let one = |value: &Value| {
            let id = value.as_u64().and_then(|v| u32::try_from(v).ok());
            id.ok_or_else(|| self.bad(name, format!("{value} is not a token id")))
        };
        match self.value.get(name) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::Array(list)) => list.iter().map(one).collect(),
            Some(value) => Ok(vec![one(value)?]),
        }
    }

    /// An error about this file.
    pub fn bad(&self, field: &str, problem: String) -> Error {
        Error::Config { path: self.path.to_owned(), field: field.to_owned(), problem }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dream(change: impl Fn(&mut Value)) -> Result<Spec> {
        let mut value = serde_json::json!({
            "model_type": "Dream", "vocab_size": 258, "hidden_size": 64, "intermediate_size": 160,
            "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
            "max_position_embeddings": 512, "rms_norm_eps": 1e-6, "rope_theta": 1e4,
            "mask_token_id": 1, "pad_token_id": 0, "eos_token_id": 2, "bos_token_id": 3
        });
        change(&mut value);
        Spec::from_json(&value.to_string(), Path::new("x/config.json"))
    }

    #[test]
    fn dream_fields_become_a_spec() {
        let spec = dream(|_| ()).unwrap();
        assert_eq!((spec.head_dim, spec.kv_width(), spec.shift, spec.qkv_bias), (16, 32, true, true));
        assert_eq!(spec.ids.eos, [2]);
        assert_eq!(spec.parameters(), 258 * 64 * 2 + 64 + 3 * (64 * (128 + 64) + 128 + 3 * 64 * 160 + 128));
    }

    #[test]
    fn absurd_values_are_refused_by_name() {
        let cases: [(&str, Value, &str); 7] = [
            ("hidden_size", 1_000_000_000_000_u64.into(), "hidden_size"),
            ("vocab_size", 0.into(), "vocab_size"),
            ("num_key_value_heads", 3.into(), "key/value heads"),
            ("num_hidden_layers", (-1).into(), "num_hidden_layers"),
            ("mask_token_id", 258.into(), "mask_token_id"),
            ("rope_theta", "big".into(), "rope_theta"),
            ("model_type", "gpt2".into(), "gpt2"),
        ];
        for (field, value, named) in cases {
            let error = dream(|v| v[field] = value.clone()).unwrap_err().to_string();
            assert!(error.contains(named) && error.contains("config.json"), "{field}: {error}");
        }
    }
}
