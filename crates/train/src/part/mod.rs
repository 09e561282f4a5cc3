//! Training of parts beside the frozen backbone: ADJUST's layer, an unmasking policy (by reward, or by what decoding one
//! token at a time finally writes), a prior of text. One loop for all of them: an [`Objective`] says what a loss is, the
//! loop updates, validates, keeps the best weights and saves its state.
//!
//! Invariant: a run that was stopped and continued makes the same weights, bit for bit, as one that was not; a part's file
//! names the backbone it was trained on.

pub mod adjust;
pub mod grpo;
mod hmm;
pub mod imitation;
pub mod network;
pub mod prior;
mod run;
mod slots;
pub mod trajectory;

use crate::error::Result;

pub use run::{Outcome, PartProgress, PartSettings, Training};
pub use slots::{Slot, Slots, Vars};

/// Something that is trained: parameters as one flat vector, and the loss of an update.
pub trait Objective {
    /// Names and shapes of the parameters.
    fn slots(&self) -> &Slots;

    /// Starting values.
    fn initial(&self, seed: u64) -> Result<Vec<f32>>;

    /// Gathers what update number `step` is made of, with the parameters as they are; returns how many times it is used.
    fn gather(&mut self, parameters: &[f32], step: u64) -> Result<usize>;

    /// Loss of what was gathered at these parameters; writes its gradient. `None` where there is nothing to learn from it.
    fn gradient(&mut self, parameters: &[f32], gradient: &mut [f32]) -> Result<Option<f64>>;

    /// Loss on what is held out: the lower the better.
    fn validate(&mut self, parameters: &[f32]) -> Result<f64>;

    /// What the loss on the same held-out examples is without the part, and a word for that.
    fn baseline(&mut self) -> Result<(String, f64)>;
}

#[cfg(test)]
mod tests;
