//! One file per command.

pub(crate) mod bench;
pub(crate) mod calibrate_predictor;
pub(crate) mod chat;
pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod eval;
pub(crate) mod generate;
pub(crate) mod infill;
pub(crate) mod inspect;
pub(crate) mod lab;
pub(crate) mod predictor;
pub(crate) mod pretrain;
pub(crate) mod problems;
pub(crate) mod prompts;
pub(crate) mod quantize;
pub(crate) mod sandbox_exec;
pub(crate) mod score;
pub(crate) mod serve;
pub(crate) mod strategies;
pub(crate) mod sweep;
pub(crate) mod synthesize;
pub(crate) mod table;
pub(crate) mod trace;
pub(crate) mod train;
pub(crate) mod tv_cache;
pub(crate) mod validate;
