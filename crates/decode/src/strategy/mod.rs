//! Strategies: which masked positions a step unmasks. One file each; adding one is a file and a line in [`ALL`], or an
//! entry of a [`Registry`](crate::registry::Registry) in another crate. What they lean on is in [`rule`](crate::rule).
//!
//! Invariant: a strategy picks positions (and says whether the sampled token or the argmax goes
//! there, and which committed ones to mask again); it never writes the canvas. Ties go to the
//! lowest position everywhere.

mod adjust;
mod apd;
mod clad;
mod codd;
mod copula;
mod credit;
mod dapd;
mod dawn;
mod demask;
mod eb;
mod entropy_threshold;
mod factor;
mod hierarchical;
mod klass;
mod llada2;
mod localleap;
mod low_confidence;
mod mean_field;
mod mi;
mod multi_block;
mod origin;
mod pc;
mod pcg;
mod policy;
mod punt;
mod ranked;
mod remdm;
mod saber;
mod sdar;
mod slowfast;
mod threshold;
mod wino;

use candle_core::Tensor;
use demask_model::{HiddenRow, OnDevice, Rows};

use crate::canvas::Canvas;
use crate::dependency::Dependency;
use crate::error::Result;
use crate::job::Options;
use crate::marginals::{LogitRows, Marginal};
use crate::probe::Probe;
use crate::registry::Entry;
use crate::rng::Rng;
use crate::sampler::{Sampling, ScoreDtype};

pub use policy::{Decision, Learned};

/// Every strategy of this crate.
pub const ALL: &[Entry] = &[
    demask::ENTRY,
    ranked::ENTROPY,
    ranked::TOP1,
    ranked::MASKGIT_PLUS,
    ranked::MARGIN,
    ranked::TOKEN_ORDER,
    ranked::RANDOM,
    origin::ENTRY,
    low_confidence::ENTRY,
    threshold::ENTRY,
    factor::ENTRY,
    entropy_threshold::ENTRY,
    eb::ENTRY,
    klass::ENTRY,
    localleap::ENTRY,
    hierarchical::ENTRY,
    credit::ENTRY,
    multi_block::ENTRY,
    slowfast::ENTRY,
    pc::ENTRY,
    pcg::ENTRY,
    dawn::ENTRY,
    dapd::ENTRY,
    clad::ENTRY,
    mean_field::ENTRY,
    mi::ENTRY,
    punt::ENTRY,
    saber::ENTRY,
    remdm::ENTRY,
    wino::ENTRY,
    llada2::ENTRY,
    sdar::ENTRY,
    apd::ENTRY,
    copula::ENTRY,
    codd::ENTRY,
    adjust::ENTRY,
    policy::ENTRY,
];

/// A rule that chooses positions, with whatever it remembers between steps of one canvas.
pub trait Strategy: Send {
    /// What it wants of the forward pass besides the marginals.
    fn needs(&self) -> Needs {
        Needs::default()
    }

    /// Whether it masks committed tokens again, so that no part of its text is final before the end.
    fn revises(&self) -> bool {
        false
    }

    /// Whether [`Self::on_logits`] is to see the logits; where it is not, a device keeps them to itself.
    fn reads_logits(&self) -> bool {
        true
    }

    /// Whether it takes hidden rows where they were computed ([`Step::resident`]); else a device brings them to the host.
    fn takes_resident(&self) -> bool {
        false
    }

    /// Sees (and may change) aligned logits before they become marginals.
    fn on_logits(&mut self, _step: usize, _rows: LogitRows<'_>) {}

    /// Sees, before it selects, the logits at committed positions of the block as if their tokens were not there.
    fn on_verify(&mut self, _canvas: &Canvas, _rows: LogitRows<'_>) {}

    /// Refuses options it cannot be decoded with, with a sentence.
    fn check(&self, _options: &Options) -> Result<()> {
        Ok(())
    }

    /// A text it wants the assistant's opinion of, before it selects; asked again after each answer until there is none.
    /// Canvases of a batch are answered together.
    fn draft(&mut self, _step: &Step<'_>) -> Result<Option<Draft>> {
        Ok(None)
    }

    /// The assistant's logits for a draft: a row for each position from [`Draft::from`] to one past its last token.
    fn on_answer(&mut self, _rows: Rows) {}

    /// How likely a mask that this step leaves is to be taken next: what speculation guesses by. It decides no token.
    fn likeliness(&self, marginal: &Marginal) -> f32 {
        marginal.raw.top1
    }

    /// Chooses the positions of this step.
    fn select(&mut self, step: &Step<'_>) -> Result<Selection>;
}

/// Extra outputs of the forward pass.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Needs {
    /// Hidden rows of the masked positions.
    pub hidden: Option<HiddenRow>,
    /// Whether hidden rows are wanted of all positions of the canvas, not of the masks alone.
    pub everywhere: bool,
    /// Head-averaged attention of this many last layers.
    pub attention_layers: usize,
    /// Precision of the filtered scores.
    pub dtype: ScoreDtype,
    /// Decided positions whose logits [`Strategy::on_logits`] sees too.
    pub decided: Extent,
    /// Whether [`Strategy::on_verify`] is to see the committed positions of the block.
    pub verify: bool,
    /// Whether it also sees the logits of masks in later blocks.
    pub ahead: bool,
    /// Logits kept for [`Strategy::select`].
    pub keep: Keep,
    /// Whether it drafts texts for an assistant.
    pub assistant: bool,
    /// Cells from the first mask on that take part; the canvas is cut off behind them. `None` is all of it.
    pub lookahead: Option<usize>,
    /// Rows before the first mask of the last step that are computed afresh, all earlier ones keeping their keys and
    /// values. `None` leaves it to the options.
    pub window: Option<usize>,
}

/// Whose logits are kept for the selection: as many floats as the vocabulary has tokens for each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Keep {
    /// Nobody's: they stream by.
    #[default]
    Nothing,
    /// Those of all masks of the step.
    All,
}

/// A text for the assistant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    /// The text from its first token.
    pub tokens: Vec<u32>,
    /// The first position whose logits are wanted; at least 1.
    pub from: usize,
}

/// Which decided positions a strategy wants the model's current opinion of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Extent {
    /// None: only masks are predicted.
    #[default]
    Nothing,
    /// Those of the block, except what was given from outside.
    Block,
    /// All up to the end of the block, prompt included.
    Canvas,
    /// All of the response, what was given inside it included.
    Response,
}

/// Everything a strategy may look at.
pub struct Step<'a> {
    /// Number of the forward pass, from 0.
    pub index: usize,
    /// The block being decoded: its number, how many there are, and the step within it.
    pub block: BlockStep,
    /// The canvas.
    pub canvas: &'a Canvas,
    /// The paper's `M`, ascending: masked positions of the block (and any left behind by a schedule before it).
    pub masked: &'a [usize],
    /// Marginals of `masked`, in the same order.
    pub marginals: &'a [Marginal],
    /// Logits of `masked` after suppression, where kept.
    pub rows: Option<&'a Rows>,
    /// How tokens are drawn.
    pub sampling: &'a Sampling,
    /// Hidden rows of `masked` (or of all positions), where needed.
    pub hidden: Option<&'a Rows>,
    /// The same rows on the device that computed them, where the strategy takes them there.
    pub resident: Option<(&'a dyn OnDevice, &'a Tensor)>,
    /// Mean attention `[len, len]`, where needed.
    pub attention: Option<&'a Rows>,
    /// Randomness of the request.
    pub rng: Rng,
    /// More forward passes, for strategies that ask the model again.
    pub probe: &'a dyn Probe,
}

/// Where a step stands in the sequence of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BlockStep {
    /// Number of the block.
    pub index: usize,
    /// Number of blocks.
    pub count: usize,
    /// Steps spent in this block before this one.
    pub step: usize,
    /// Masks in the block when it was entered.
    pub entered_with: usize,
    /// Positions of a whole block; the first may share its own with the prompt, and the last may be cut short.
    pub length: usize,
    /// Whether decided tokens of the block may be replaced, see [`Editing`](crate::editing::Editing).
    pub edited: bool,
}

/// Which token goes to a chosen position.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum TokenRule {
    /// The sampler's candidate.
    #[default]
    Sampled,
    /// The most probable token of the model's own distribution.
    Argmax,
    /// These, which the strategy drew itself, in the order of choice.
    Given(Vec<Drawn>),
}

/// A token that a strategy drew.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drawn {
    /// The token.
    pub token: u32,
    /// Its probability in the model's own distribution.
    pub probability: f32,
}

/// Why a selection holds no more positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
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
    /// Calls of a small trained part (layer, policy, prior), besides whole passes.
    pub inner_calls: usize,
    /// Seconds of those.
    pub inner_seconds: f64,
    /// The block's schedule ends with this step: masks that are left compete with those of the next block, as in
    /// LLaDA's own loop, and stay masks after the last block.
    pub last: bool,
}

/// How much of a budget a step used.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Budget {
    /// The bound (τ for DEMASK).
    pub limit: f32,
    /// What was accumulated.
    pub used: f32,
}
