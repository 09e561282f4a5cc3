//! Pre-training of a small backbone from scratch, as Dream itself was made: first autoregressively, then with the
//! masked-diffusion loss of eq. 1.
//!
//! Examples come from the caller ([`ExampleSource`]), progress and validation go to the caller ([`Watcher`]).
//!
//! Invariant: the weights after a step are a function of the config and the examples alone, however often the run was
//! killed and resumed, and whatever the number of threads.

mod batch;
mod certainty;
mod config;
mod curve;
mod export;
mod layout;
mod loss;
mod muon;
mod picture;
mod run;
mod shape;
mod state;
pub mod step;
mod weights;

pub use crate::error::{Error, Result};
pub use batch::{Batch, BatchPart, Batches, Example, ExampleSource};
pub use certainty::{Certainty, certainty};
pub use config::{Config, Data, Model, Objective, Precision, Report, Stage, Stored};
pub use curve::{Curve, Point, Score};
pub use export::export;
pub use layout::{Layout, Slot};
pub use loss::{Loss, cross_entropy, differentiable};
pub use muon::Muon;
pub use run::{Outcome, PretrainProgress, Run, Watcher};
pub use state::State;
pub use weights::transformer;

#[cfg(test)]
pub(crate) mod tests;
