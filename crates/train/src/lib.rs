//! Training: TV cache, dependency predictor, pre-training of small backbones.

pub mod optimizer;
pub mod pretrain;
pub mod schedule;
pub mod tokenizer;
