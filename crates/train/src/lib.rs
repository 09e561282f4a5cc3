//! Training: TV cache, dependency predictor, other parts beside the backbone, pre-training of small backbones.

pub mod calibrate;
pub mod compute;
pub mod data;
pub mod distill;
pub mod error;
pub mod estimate;
pub mod fit;
pub mod optimizer;
pub mod part;
pub mod predictor;
pub mod pretrain;
pub mod schedule;
pub mod scope;
pub mod stability;
pub mod tokenizer;
pub mod tv_cache;
