//! Training of the dependency predictor, phase 2 of section 4.3: minimise eq. 6 over a TV cache with the backbone
//! frozen, keep the weights with the lowest validation error.
//!
//! Invariant: the weights after a step are a function of cache and config alone, however often the run was killed and
//! resumed, and whatever the number of threads.

mod config;
mod curve;
mod examples;
mod figure;
mod report;
mod run;
mod split;
mod state;

pub use config::Config;
pub use curve::{Curve, Point};
pub use examples::Examples;
pub(crate) use examples::hidden;
pub(crate) use report::rank_correlation;
pub use report::{Bin, Report};
pub use run::{Fit, FitProgress, Fitted, Watcher, best};
pub(crate) use split::held_out;
pub use split::{Place, Split};
pub(crate) use state::State;
