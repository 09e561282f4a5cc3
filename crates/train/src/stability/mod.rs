//! Training of the stability head: of each unsure position of a state, whether its most probable token changes once all
//! sure ones are revealed. Log-loss over the labels of TV caches, the loop of all parts, and rounds in which the decoder
//! that uses the head visits the states it learns from next.
//!
//! Invariant: a head is a function of caches, dependency head and settings alone, however often its run was stopped.

mod data;
mod fit;
mod network;
mod objective;
mod report;
mod rounds;

pub use fit::{StabilityFit, StabilityFitted, StabilitySettings};
pub use report::{Calibrated, Gate, StabilityReport};
pub use rounds::{Round, Rounds};
