//! A checkpoint folder made usable: config, weights, tokenizer, chat template and backbone.

pub mod checkpoint;
pub mod error;

pub use error::{Error, Result};
