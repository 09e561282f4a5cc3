//! One block: attention and a feed-forward half, each behind a norm and added to the residual stream.

use candle_core::Tensor;

use super::parameter::{Parameter, Parameters, Place, Role};
use super::{Experts, Mlp, Projections, RmsNorm, Watch};
use crate::config::{FeedForward, Spec};
use crate::error::Result;

/// The norm before attention.
pub const ATTN_NORM: Role = Role("attn_norm");
/// The norm before the feed-forward half.
pub const FFN_NORM: Role = Role("ffn_norm");

/// A block with its weights.
#[derive(Debug)]
pub struct Block {
    /// The norm before attention.
    pub attn_norm: RmsNorm,
    /// The maps around attention.
    pub projections: Projections,
    /// The norm before the feed-forward half.
    pub ffn_norm: RmsNorm,
    /// The feed-forward half.
    pub ffn: Ffn,
}

/// The feed-forward half of a block.
#[derive(Debug)]
pub enum Ffn {
    /// One MLP for every row.
    Dense(Box<Mlp>),
    /// A few of many for each row.
    Experts(Box<Experts>),
}

impl Block {
    /// Its parameters, in the order of a checkpoint.
    pub fn parameters(spec: &Spec, layer: usize, place: &Place) -> Result<Vec<Parameter>> {
        let mut all = vec![place.scale(ATTN_NORM, spec.hidden)?];
        all.extend(Projections::parameters(spec, place)?);
        all.push(place.scale(FFN_NORM, spec.hidden)?);
        all.extend(match spec.feed_forward(layer) {
            FeedForward::Dense(width) => Mlp::parameters(spec.hidden, width, place)?.to_vec(),
            FeedForward::Experts(experts) => Experts::parameters(spec.hidden, experts, place)?,
        });
        Ok(all)
    }

    /// Made of its parameters.
    pub fn load(spec: &Spec, layer: usize, place: &Place, from: &mut dyn Parameters) -> Result<Self> {
        let norm = |role, from: &mut dyn Parameters| {
            let norm = RmsNorm::new(from.vector(&place.scale(role, spec.hidden)?)?, spec.eps);
            Ok::<_, crate::Error>(norm.composed(from.composed()))
        };
        Ok(Self {
            attn_norm: norm(ATTN_NORM, from)?,
            projections: Projections::load(spec, place, from)?,
            ffn_norm: norm(FFN_NORM, from)?,
            ffn: match spec.feed_forward(layer) {
                FeedForward::Dense(width) => {
                    Ffn::Dense(Box::new(Mlp::load(spec.hidden, width, place, from)?))
                }
                FeedForward::Experts(experts) => {
                    Ffn::Experts(Box::new(Experts::load(spec.hidden, experts, place, from)?))
                }
            },
        })
    }

    /// The feed-forward half of some rows, before it is added.
    pub fn feed_forward(&self, x: &Tensor, layer: usize, watch: &mut dyn Watch) -> Result<Tensor> {
        let normed = self.ffn_norm.forward(x)?;
        Ok(match &self.ffn {
            Ffn::Dense(mlp) => mlp.forward(&normed)?,
            Ffn::Experts(experts) => experts.forward(&normed, layer, watch)?,
        })
    }
}
