//! Decoding of masked-diffusion language models: canvas, marginals, dependency, strategies, caches,
//! sampler, loop and trace. Token ids only: this crate knows no strings.

pub mod audit;
pub mod cache;
pub mod canvas;
pub mod decoder;
pub mod dependency;
pub mod error;
pub mod job;
pub mod marginals;
pub mod mask;
pub mod observer;
pub mod probe;
pub mod rng;
pub mod sampler;
pub mod spelling;
pub mod strategy;
pub mod trace;

pub use cache::CacheSpec;
pub use canvas::{Canvas, EosPolicy};
pub use decoder::Decoder;
pub use error::{Error, Result};
pub use job::{Job, Options, Totals};
pub use marginals::{HoldEos, Suppression};
pub use observer::{Observer, Observers};
pub use sampler::{Draw, Sampling};
pub use strategy::StrategySpec;
pub use trace::StepRecord;
