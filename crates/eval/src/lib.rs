//! Tasks with programmatic answer checks, the evaluation runner and its reports.
//!
//! Strings live here (prompts, responses, extraction); the decoder below sees token ids only.

pub mod task;
