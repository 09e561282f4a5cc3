//! Tasks with programmatic answer checks, the evaluation runner and its reports.
//!
//! Strings live here (prompts, responses, extraction); the decoder below sees token ids only.

pub mod benchmark;
pub mod bound;
pub mod error;
pub mod example;
pub mod frontier;
pub mod grid;
pub mod journal;
pub mod paper;
pub mod runner;
pub mod sandbox;
pub mod subadditivity;
pub mod suite;
pub mod summary;
pub mod sweep;
pub mod table;
pub mod task;
pub mod tradeoff;

pub use error::{Error, Remedy, Result};
