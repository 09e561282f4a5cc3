//! Editing of decided tokens (LLaDA2.1), beside any strategy: in the pass that unmasks, every decided cell of the block
//! takes the most probable token where that is another one and its probability exceeds a threshold.
//!
//! A block without masks is passed over again until a pass changes nothing, or a fixed number of times; only then is it left, and
//! only then does an end of sequence in it take effect.

use crate::canvas::{Canvas, Cell, Pick};
use crate::error::{Error, Result};
use crate::marginals::Marginal;

/// When a decided token is replaced, and how long a block is looked at.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Editing {
    /// A token is replaced by one whose probability is above this.
    pub threshold: f32,
    /// Most passes over a block that has no mask left.
    pub post_steps: usize,
}

impl Editing {
    /// Passes over a block without masks in the published loop.
    pub const POST_STEPS: usize = 16;

    /// Refuses values outside their range.
    pub fn check(&self) -> Result<()> {
        if (0.0..=1.0).contains(&self.threshold) {
            return Ok(());
        }
        Err(Error::BadValue {
            what: "edit threshold".into(),
            value: self.threshold.to_string(),
            why: "must be between 0 and 1".into(),
        })
    }

    /// Positions of the block that may be edited: what steps decided, not what was given or filled.
    pub(crate) fn editable(canvas: &Canvas, block: std::ops::Range<usize>) -> Vec<usize> {
        block.filter(|&p| matches!(canvas.cells()[p], Cell::Committed { .. })).collect()
    }

    /// The tokens that take another's place.
    pub(crate) fn edits(&self, canvas: &Canvas, positions: &[usize], marginals: &[Marginal]) -> Vec<Pick> {
        let edit = |(&position, marginal): (&usize, &Marginal)| {
            let (token, confidence) = (marginal.raw.argmax as u32, marginal.raw.top1);
            let other = token != canvas.tokens()[position];
            (other && confidence > self.threshold).then_some(Pick { position, token, confidence })
        };
        positions.iter().zip(marginals).filter_map(edit).collect()
    }
}
