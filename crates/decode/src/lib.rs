//! Decoding of masked-diffusion language models: canvas, marginals, dependency, strategies, caches,
//! sampler, loop and trace. Token ids only: this crate knows no strings.
//!
//! ```
//! use demask_decode::{Canvas, Context, Decoder, Job, Options};
//! use demask_model::{Backbone, Tabular};
//!
//! // An explicit joint over three binary positions: all equal.
//! let backbone = Tabular::new(3, 2, vec![1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])?;
//! let canvas = Canvas::generate(&[], 3, &backbone.spec().ids)?;
//! let strategy = "entropy:k=1".parse()?;
//! let mut jobs = [Job::new(canvas, &strategy, &Context::default(), Options::default(), Box::new(()))?];
//! Decoder::new(&backbone).run(&mut jobs)?;
//! assert_eq!(jobs[0].canvas().tokens(), [0, 0, 0]);
//! # Ok::<(), demask_decode::Error>(())
//! ```

mod ahead;
pub mod assistant;
pub mod audit;
pub mod batch;
mod blocks;
pub mod cache;
pub mod canvas;
mod clock;
pub mod decoder;
pub mod dependency;
pub mod editing;
pub mod error;
pub mod job;
pub mod marginals;
pub mod mask;
pub mod observer;
mod plan;
pub mod probe;
pub mod registry;
pub mod replay;
pub mod responses;
pub mod rng;
pub mod rule;
pub mod sampler;
pub mod spelling;
pub mod strategy;
#[cfg(test)]
mod testing;
pub mod trace;
pub mod trained;

pub use assistant::Assistant;
pub use cache::{CacheSpec, Prefixes};
pub use canvas::{Canvas, EosPolicy};
pub use decoder::Decoder;
pub use editing::Editing;
pub use error::{Error, Result};
pub use job::{Job, Options, Totals};
pub use marginals::{HoldEos, Suppression};
pub use observer::{Observer, Observers};
pub use registry::{Context, Registry, StrategySpec};
pub use sampler::{Draw, Sampling};
pub use strategy::Strategy;
pub use trace::StepRecord;
