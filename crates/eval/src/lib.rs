//! Tasks with programmatic answer checks, the evaluation runner and its reports.
//!
//! Strings live here (prompts, responses, extraction); the decoder below sees token ids only.

pub mod benchmark;
pub mod bound;
pub mod error;
pub mod example;
pub mod plot;
pub mod sandbox;
pub mod subadditivity;
pub mod task;

pub use error::{Error, Result};
