//! `config.json` made into a [`Spec`]: everything that distinguishes one masked-diffusion
//! Transformer from another, as data.
//!
//! Invariant: a `Spec` that was read here is consistent (positive sizes, heads divide, ids inside the vocabulary, no
//! product that overflows), so nothing downstream checks it again. Its fields are public: whoever changes one answers for it.

mod fields;
mod kinds;

use std::path::Path;

use serde_json::Value;

use crate::arch;
use crate::error::{Error, Result};
use crate::files;
use crate::gguf::{self, Gguf};
use crate::layer::Parameter;

pub use fields::Fields;
pub use kinds::{
    Activation, Experts, FeedForward, Grid, NormKind, NormPlace, Origin, Positions, Scoring, Shift,
    Visibility,
};

/// A `Spec` and what is to be told of it.
type Noted = (Spec, Vec<String>);

/// The block length of a block-causal model that names none.
const DEFAULT_BLOCK: usize = 32;

/// Shape, numerics and special ids of a backbone.
///
/// ```
/// use demask_model::Spec;
/// let config = r#"{"model_type": "Dream", "vocab_size": 300, "hidden_size": 64, "intermediate_size": 160,
///     "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
///     "rms_norm_eps": 1e-6, "rope_theta": 1e4, "mask_token_id": 1, "pad_token_id": 0, "eos_token_id": 2}"#;
/// let spec = Spec::from_json(config, "config.json".as_ref())?;
/// assert_eq!((spec.architecture, spec.head_dim, spec.predicting_row(5)), ("dream", 16, 4));
/// # Ok::<(), demask_model::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Spec {
    /// Which family's mapping file named it (`dream`, `llada2`, …).
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
    /// Inner width of the gated MLP of dense layers.
    pub ffn: usize,
    /// What the other layers have in its place.
    pub experts: Option<Experts>,
    /// The function inside dense layers.
    pub activation: Activation,
    /// How rows are normalised.
    pub norm: NormKind,
    /// Where the norms stand.
    pub norm_place: NormPlace,
    /// The norms' epsilon.
    pub eps: f32,
    /// How a row knows its position.
    pub positions: Positions,
    /// Rows of the table of token types, the first of which every token has; 0 is no table.
    pub token_types: usize,
    /// Width of the embedding tables where they have one of their own; a map brings it to that of the stream.
    pub table: Option<usize>,
    /// One block's weights serve all layers.
    pub shared_layers: bool,
    /// A map, the activation and a norm stand before the head, a bias behind it.
    pub head_transform: bool,
    /// Base of the rotary embedding.
    pub rope_theta: f64,
    /// Leading dimensions of a head that rotate; the rest passes unchanged.
    pub rotary: usize,
    /// Every query and key head is normalised before it rotates.
    pub qk_norm: bool,
    /// Longest canvas the checkpoint declares.
    pub max_positions: usize,
    /// The head shares the embedding matrix.
    pub tied: bool,
    /// Query, key and value projections carry a bias.
    pub qkv_bias: bool,
    /// The map from the heads back into the stream carries one.
    pub output_bias: bool,
    /// They are one tensor, rows in this order.
    pub fused_qkv: bool,
    /// Who sees whom.
    pub attention: Visibility,
    /// The block length it was trained with, where that matters.
    pub block: Option<usize>,
    /// Where blocks are counted from.
    pub origin: Origin,
    /// Which row predicts a position.
    pub shift: Shift,
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

impl SpecialIds {
    /// The mask of a model that has none, because it is no diffusion model.
    pub const NO_MASK: u32 = u32::MAX;

    /// Whether there is a mask token.
    pub fn has_mask(&self) -> bool {
        self.mask != Self::NO_MASK
    }
}

impl Spec {
    /// A Transformer of the plainest kind: dense, full attention, whole heads rotating, three projections without biases,
    /// no shift. For tests and for models made here; its other fields are the caller's.
    pub fn plain(architecture: &'static str, ids: SpecialIds) -> Self {
        Self {
            architecture,
            vocab: 1,
            hidden: 2,
            layers: 1,
            heads: 1,
            kv_heads: 1,
            head_dim: 2,
            ffn: 1,
            experts: None,
            activation: Activation::SiluGate,
            norm: NormKind::Rms,
            norm_place: NormPlace::Before,
            eps: 1e-6,
            positions: Positions::Rotary,
            token_types: 0,
            table: None,
            shared_layers: false,
            head_transform: false,
            rope_theta: 1e4,
            rotary: 2,
            qk_norm: false,
            max_positions: 1,
            tied: false,
            qkv_bias: false,
            output_bias: false,
            fused_qkv: false,
            attention: Visibility::Full,
            block: None,
            origin: Origin::Response,
            shift: Shift::None,
            ids,
        }
    }

    /// Reads a GGUF file's metadata, or `config.json` of a checkpoint folder; special ids that it leaves open come from
    /// `generation_config.json` (ends) and `tokenizer_config.json` (the mask) beside it.
    pub fn from_folder(folder: &Path) -> Result<Self> {
        Ok(Self::from_folder_with_notes(folder)?.0)
    }

    /// The same with what a user should know: fields that nothing here understands, and what was assumed.
    pub fn from_folder_with_notes(folder: &Path) -> Result<(Self, Vec<String>)> {
        if gguf::is_gguf(folder) {
            return Ok((Gguf::open(folder)?.spec()?, Vec::new()));
        }
        let path = folder.join("config.json");
        let text = files::read_to_string(&path).map_err(|cause| Error::Read { path: path.clone(), cause })?;
        Self::parse(&text, &path, fields::Beside::read(folder), Some(folder))
    }

    /// Parses the text of a `config.json`; `path` is only used in error messages.
    pub fn from_json(text: &str, path: &Path) -> Result<Self> {
        Ok(Self::from_json_with_notes(text, path)?.0)
    }

    /// The same with what a user should know: fields that nothing here understands, and what was assumed.
    pub fn from_json_with_notes(text: &str, path: &Path) -> Result<(Self, Vec<String>)> {
        Self::parse(text, path, fields::Beside::default(), None)
    }

    fn parse(text: &str, path: &Path, beside: fields::Beside, folder: Option<&Path>) -> Result<Noted> {
        let value: Value = serde_json::from_str(text)
            .map_err(|cause| Error::Json { path: path.to_owned(), cause: cause.to_string() })?;
        let fields = Fields::new(&value, path, beside.clone());
        let unknown = match arch::by_config(&fields) {
            Ok(family) => return Self::noted(family, fields),
            Err(unknown) => unknown,
        };
        // A wrapper names a class of its own; what it wraps may still be one of ours.
        let inner = arch::wrapper::base_config(&value);
        let base = inner.as_ref().unwrap_or(&value);
        let tried = Fields::new(base, path, beside.clone());
        let family = arch::wrapper::family(&tried, &value, folder, unknown)?;
        Self::noted(family, Fields::new(base, path, beside))
    }

    /// The `Spec` of a family's config, and what is to be told of it.
    fn noted(family: &arch::Architecture, fields: Fields<'_>) -> Result<Noted> {
        let spec = family.spec(&fields)?.checked(&fields)?;
        let unknown = family.unknown(&fields)?;
        let mut notes = fields.into_assumed();
        if !unknown.is_empty() {
            let named = unknown.join(", ");
            notes.push(format!("config.json has fields this engine does not know and leaves out: {named}"));
        }
        Ok((spec, notes))
    }

    /// Itself, unless something in it contradicts itself.
    pub(crate) fn checked(self, fields: &Fields<'_>) -> Result<Self> {
        match self.problem() {
            None => Ok(self),
            Some((field, problem)) => Err(fields.bad(field, problem)),
        }
    }

    /// The blocks of a canvas whose response begins at `response`, of the trained length unless another is given;
    /// `None` where every row sees every row.
    pub fn grid(&self, response: usize, block: Option<usize>) -> Option<Grid> {
        if self.attention == Visibility::Full {
            return None;
        }
        let start = if self.origin == Origin::Prompt { 0 } else { response };
        Some(Grid::new(start, block.or(self.block).unwrap_or(DEFAULT_BLOCK)))
    }

    /// The feed-forward half of a block.
    pub fn feed_forward(&self, layer: usize) -> FeedForward<'_> {
        match &self.experts {
            Some(experts) if experts.layers.get(layer) == Some(&true) => FeedForward::Experts(experts),
            _ if self.activation == Activation::SiluGate => FeedForward::Dense(self.ffn),
            _ => FeedForward::Plain(self.ffn),
        }
    }

    /// Width of the embedding tables.
    pub fn table_width(&self) -> usize {
        self.table.unwrap_or(self.hidden)
    }

    /// Blocks that a checkpoint holds.
    pub fn stored_layers(&self) -> usize {
        if self.shared_layers { 1 } else { self.layers }
    }

    /// The row whose hidden state predicts the token at `position`.
    pub fn predicting_row(&self, position: usize) -> usize {
        if self.shift.is_some() { position.saturating_sub(1) } else { position }
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
        self.count(|_| true)
    }

    /// Parameters that one row meets: of the experts only as many as it chooses.
    pub fn active_parameters(&self) -> usize {
        let chosen = self.experts.as_ref().map_or(0, |experts| experts.chosen);
        self.count(|parameter| parameter.expert.is_none_or(|(index, _)| index < chosen))
    }

    fn count(&self, counts: impl Fn(&Parameter) -> bool) -> usize {
        let all = arch::parameters(self).unwrap_or_default();
        all.iter().filter(|p| counts(p)).map(Parameter::elements).sum()
    }

    /// What contradicts itself or is out of all proportion, as (field, problem).
    pub(crate) fn problem(&self) -> Option<(&'static str, String)> {
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
            ("embedding_size", self.table_width(), 1 << 17),
            ("block length", self.block.unwrap_or(1), 1 << 20),
            ("type_vocab_size", self.token_types.max(1), 1 << 16),
        ];
        if let Some((what, value, limit)) = limits.into_iter().find(|&(_, v, limit)| v == 0 || v > limit) {
            return Some((what, format!("{value} is not between 1 and {limit}")));
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            let problem = format!("{} does not divide the {} attention heads", self.kv_heads, self.heads);
            return Some(("number of key/value heads", problem));
        }
        let rotates = self.positions == Positions::Rotary;
        if rotates && (!self.rotary.is_multiple_of(2) || self.rotary == 0 || self.rotary > self.head_dim) {
            let problem = format!(
                "{} of {} dimensions rotate; rotary embeddings need pairs within a head",
                self.rotary, self.head_dim
            );
            return Some(("head dimension", problem));
        }
        if !(self.eps > 0.0 && self.eps < 1.0) {
            return Some((self.eps_field(), format!("{} is not between 0 and 1", self.eps)));
        }
        if !(self.rope_theta >= 1.0 && self.rope_theta.is_finite()) {
            return Some(("rope_theta", format!("{} is not a finite number ≥ 1", self.rope_theta)));
        }
        let experts = self.experts.as_ref().and_then(|experts| experts.problem(self.layers));
        experts.or_else(|| self.stray_id())
    }

    /// How a config names the norms' epsilon.
    fn eps_field(&self) -> &'static str {
        match self.norm {
            NormKind::Rms => "rms_norm_eps",
            NormKind::Layer => "layer_norm_eps",
        }
    }

    /// A special id that is not in the vocabulary.
    fn stray_id(&self) -> Option<(&'static str, String)> {
        let named = [
            ("mask_token_id", self.ids.has_mask().then_some(self.ids.mask)),
            ("pad_token_id", self.ids.pad),
            ("bos_token_id", self.ids.bos),
        ];
        let eos = self.ids.eos.iter().map(|&id| ("eos_token_id", Some(id)));
        named.into_iter().chain(eos).find_map(|(what, id)| {
            let id = id.filter(|&id| id as usize >= self.vocab)?;
            Some((what, format!("{id} is outside the vocabulary of {}", self.vocab)))
        })
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
        assert_eq!(
            (spec.head_dim, spec.kv_width(), spec.shift, spec.qkv_bias),
            (16, 32, Shift::Global, true)
        );
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
