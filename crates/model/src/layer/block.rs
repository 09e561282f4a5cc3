//! One block: attention and a feed-forward half, each added to the residual stream. Norms stand before the halves, or (BERT)
//! behind the sums.

use candle_core::Tensor;

use super::parameter::{Parameter, Parameters, Place, Role};
use super::{Experts, Mlp, Norm, PlainMlp, Projections, Watch, composed, residual};
use crate::config::{FeedForward, NormPlace, Spec};
use crate::error::Result;

/// The norm of attention.
pub const ATTN_NORM: Role = Role("attn_norm");
/// The norm of the feed-forward half.
pub const FFN_NORM: Role = Role("ffn_norm");

/// A block with its weights.
#[derive(Debug)]
pub struct Block {
    place: NormPlace,
    composed: bool,
    attn_norm: Norm,
    /// The maps around attention.
    pub projections: Projections,
    ffn_norm: Norm,
    ffn: Ffn,
}

/// The feed-forward half of a block.
#[derive(Debug)]
pub enum Ffn {
    /// One gated MLP for every row.
    Dense(Box<Mlp>),
    /// One without a gate.
    Plain(Box<PlainMlp>),
    /// A few of many for each row.
    Experts(Box<Experts>),
}

impl Block {
    /// Its parameters, in the order of a checkpoint.
    pub fn parameters(spec: &Spec, layer: usize, place: &Place) -> Result<Vec<Parameter>> {
        let mut all = Norm::parameters(spec, ATTN_NORM, spec.hidden, place)?;
        all.extend(Projections::parameters(spec, place)?);
        all.extend(Norm::parameters(spec, FFN_NORM, spec.hidden, place)?);
        all.extend(match spec.feed_forward(layer) {
            FeedForward::Dense(width) => Mlp::parameters(spec.hidden, width, place)?.to_vec(),
            FeedForward::Plain(width) => PlainMlp::parameters(spec.hidden, width, place)?.to_vec(),
            FeedForward::Experts(experts) => Experts::parameters(spec.hidden, experts, place)?,
        });
        Ok(all)
    }

    /// Made of its parameters.
    pub fn load(spec: &Spec, layer: usize, place: &Place, from: &mut dyn Parameters) -> Result<Self> {
        let norm = |role, from: &mut dyn Parameters| Norm::load(spec, role, spec.hidden, place, from);
        Ok(Self {
            place: spec.norm_place,
            composed: from.composed(),
            attn_norm: norm(ATTN_NORM, from)?,
            projections: Projections::load(spec, place, from)?,
            ffn_norm: norm(FFN_NORM, from)?,
            ffn: match spec.feed_forward(layer) {
                FeedForward::Dense(width) => {
                    Ffn::Dense(Box::new(Mlp::load(spec.hidden, width, place, from)?))
                }
                FeedForward::Plain(width) => {
                    Ffn::Plain(Box::new(PlainMlp::load(spec.hidden, width, spec.activation, place, from)?))
                }
                FeedForward::Experts(experts) => {
                    Ffn::Experts(Box::new(Experts::load(spec.hidden, experts, place, from)?))
                }
            },
        })
    }

    /// What attention reads of the stream.
    pub fn attention_input(&self, x: &Tensor) -> Result<Tensor> {
        Ok(match self.place {
            NormPlace::Before => self.attn_norm.forward(x)?,
            NormPlace::Behind => x.clone(),
        })
    }

    /// The stream after attention, whose heads gave `attended`.
    pub fn after_attention(&self, x: &Tensor, attended: &Tensor) -> Result<Tensor> {
        self.added(x, &self.projections.output(attended)?, &self.attn_norm)
    }

    /// The feed-forward half of some rows, before it is added.
    pub fn feed_forward(&self, x: &Tensor, layer: usize, watch: &mut dyn Watch) -> Result<Tensor> {
        let input = match self.place {
            NormPlace::Before => self.ffn_norm.forward(x)?,
            NormPlace::Behind => x.clone(),
        };
        Ok(match &self.ffn {
            Ffn::Dense(mlp) => mlp.forward(&input)?,
            Ffn::Plain(mlp) => mlp.forward(&input)?,
            Ffn::Experts(experts) => experts.forward(&input, layer, watch)?,
        })
    }

    /// The stream after the feed-forward half.
    pub fn after_feed_forward(&self, x: &Tensor, layer: usize, watch: &mut dyn Watch) -> Result<Tensor> {
        self.added(x, &self.feed_forward(x, layer, watch)?, &self.ffn_norm)
    }

    fn added(&self, x: &Tensor, half: &Tensor, norm: &Norm) -> Result<Tensor> {
        let sum = if self.composed { composed::add(x, half)? } else { residual(x, half)? };
        Ok(match self.place {
            NormPlace::Before => sum,
            NormPlace::Behind => norm.forward(&sum)?,
        })
    }
}
