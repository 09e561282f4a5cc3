//! One file per command.

pub(crate) mod bench;
pub(crate) mod cache;
pub(crate) mod chat;
pub(crate) mod completions;
pub(crate) mod generate;
pub(crate) mod infill;
pub(crate) mod inspect;
pub(crate) mod pretrain;
pub(crate) mod problems;
pub(crate) mod prompts;
pub(crate) mod quantize;
pub(crate) mod sandbox_exec;
pub(crate) mod score;
pub(crate) mod serve;
pub(crate) mod strategies;
pub(crate) mod synthesize;
pub(crate) mod train;
pub(crate) mod validate;
