//! Strategies: which masked positions a step unmasks. One file each; adding one is a file and a
//! line in [`registry::ALL`].
//!
//! Invariant: a strategy picks positions (and says whether the sampled token or the argmax goes
//! there, and which committed ones to mask again); it never writes the canvas. Ties go to the
//! lowest position everywhere.

mod demask;
pub mod greedy;
mod history;
mod klass;
mod origin;
mod ranked;
mod registry;
mod schedule;
mod spec;

use demask_model::{HiddenRow, Rows};

use crate::canvas::Canvas;
use crate::dependency::Dependency;
use crate::error::Result;
use crate::marginals::{LogitRows, Marginal};
use crate::rng::Rng;
use crate::sampler::ScoreDtype;

pub use registry::{ALL, Context, Cost, Entry, Param, find};
pub use schedule::Schedule;
pub use spec::StrategySpec;

/// A rule that chooses positions, with whatever it remembers between steps of one canvas.
pub trait Strategy: Send {
    /// What it wants of the forward pass besides the marginals.
    fn needs(&self) -> Needs {
        Needs::default()
    }

    /// Sees (and may change) aligned logits before they become marginals.
    fn on_logits(&mut self, _step: usize, _rows: LogitRows<'_>) {}

    /// Chooses the positions of this step.
    fn select(&mut self, step: &Step<'_>) -> Result<Selection>;
}

/// Extra outputs of the forward pass.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Needs {
    /// Hidden rows of the masked positions.
    pub hidden: Option<HiddenRow>,
    /// Head-averaged attention of this many last layers.
    pub attention_layers: usize,
    /// Precision of the filtered scores.
    pub dtype: ScoreDtype,
}

/// Everything a strategy may look at.
pub struct Step<'a> {
    /// Number of the forward pass, from 0.
    pub index: usize,
    /// The block being decoded: its number, how many there are, and the step within it.
    pub block: BlockStep,
    /// The canvas.
    pub canvas: &'a Canvas,
    /// The paper's `M`, ascending: masked positions of the block.
    pub masked: &'a [usize],
    /// Marginals of `masked`, in the same order.
    pub marginals: &'a [Marginal],
    /// Hidden rows of `masked`, where needed.
    pub hidden: Option<&'a Rows>,
    /// Mean attention `[len, len]`, where needed.
    pub attention: Option<&'a Rows>,
    /// Randomness of the request.
    pub rng: Rng,
    /// More forward passes, for strategies that ask the model again.
    pub probe: &'a dyn Probe,
}

/// Where a step stands in the sequence of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockStep {
    /// Number of the block.
    pub index: usize,
    /// Number of blocks.
    pub count: usize,
    /// Steps spent in this block before this one.
    pub step: usize,
    /// Masks in the block when it was entered.
    pub entered_with: usize,
}

/// Extra forward passes within a step; each counts as a function evaluation.
pub trait Probe {
    /// Runs whole canvases and visits the aligned logits of `positions`: canvas index, index of the
    /// first position of the chunk, chunk `[rows, vocab]`.
    fn ask(
        &self,
        canvases: &[Vec<u32>],
        positions: &[usize],
        visit: &mut dyn FnMut(usize, usize, &mut [f32]),
    ) -> Result<()>;

    /// Size of the vocabulary.
    fn vocab(&self) -> usize;
}

/// Which token goes to a chosen position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TokenRule {
    /// The sampler's candidate.
    #[default]
    Sampled,
    /// The most probable token of the model's own distribution.
    Argmax,
}

/// Why a selection holds no more positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stop {
    /// The scheduled number was reached.
    Count,
    /// No further candidate passes the confidence filter.
    NoCandidate,
    /// The next candidate would exceed the dependency budget.
    Budget,
    /// Nothing passed, so the fallback position was taken.
    Fallback,
    /// Every masked position was taken.
    AllTaken,
}

/// A strategy's decision.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Indices into `Step::masked`, in the order of choice.
    pub chosen: Vec<usize>,
    /// Which token goes there.
    pub tokens: TokenRule,
    /// Positions to mask again after the commit.
    pub remask: Vec<usize>,
    /// Why there are no more.
    pub stop: Option<Stop>,
    /// Budget accounting, where the strategy has one.
    pub budget: Option<Budget>,
    /// The dependency matrix the choice was made with, where there is one.
    pub dependency: Option<Dependency>,
}

/// How much of a budget a step used.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Budget {
    /// The bound (τ for DEMASK).
    pub limit: f32,
    /// What was accumulated.
    pub used: f32,
}

/// Indices of the `k` largest scores, best first; equal scores lowest index first.
pub(crate) fn top_k(scores: &[f32], k: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]).then(a.cmp(&b)));
    order.truncate(k);
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_go_to_the_lowest_index() {
        assert_eq!(top_k(&[0.5, 0.9, 0.5, 0.9], 3), [1, 3, 0]);
    }
}
