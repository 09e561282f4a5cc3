//! Tasks with programmatic answer checks, the evaluation runner and its reports.
//!
//! Strings live here (prompts, responses, extraction); the decoder below sees token ids only.

pub mod benchmark;
pub mod error;
pub mod report;
pub mod run;
pub mod sandbox;
pub mod task;
pub mod theory;

pub use error::{Error, Remedy, Result};
