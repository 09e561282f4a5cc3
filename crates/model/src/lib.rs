//! A checkpoint folder made usable: config, weights, tokenizer, chat template and backbone.

pub mod arch;
pub mod backbone;
pub mod checkpoint;
pub mod config;
pub mod error;
pub mod file;
pub mod files;
pub mod gguf;
pub mod guard;
pub mod hash;
pub mod importance;
pub mod layer;
mod load;
pub mod memory;
pub mod quantize;
pub mod replicas;
pub mod shapes;
pub mod stoppable;
pub mod synthetic;
pub mod tabular;
pub mod text;
pub mod transformer;

pub use backbone::{Backbone, HiddenRow, KvCache, Pass, Query, Reuse, Rows, Shadow};
pub use config::{Grid, Spec, SpecialIds};
pub use error::{Error, Result};
pub use layer::{Parameter, Parameters};
pub use load::{LoadOptions, Precision, names_predictor};
pub use replicas::Replicas;
pub use stoppable::{Gate, Stoppable};
pub use tabular::Tabular;
pub use transformer::device::{Bias, OnDevice, Resident, Statistics};
pub use transformer::{Drawn, Filter};
pub use transformer::{Packed, Transformer};
