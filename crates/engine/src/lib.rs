//! A model ready to use: weights, tokenizer, chat template, special ids, predictor and defaults in one [`Model`], and
//! everything that is asked of it: one prompt, a chat, an infilling, a batch, a forward pass, the dependency matrix.
//!
//! Below this crate there are token ids only; above it, nobody wires a decoding together by hand.
//!
//! ```
//! use demask_engine::Model;
//!
//! let model = Model::embedded()?;
//! let answer = model.generate("Tom has 12 pens. Tom buys 7 more. How many pens does Tom have now?").run()?;
//! assert!(answer.text.contains("19"));
//! # Ok::<(), demask_engine::Error>(())
//! ```

mod answer;
pub mod batch;
mod beside;
mod decoding;
mod defaults;
mod description;
#[cfg(feature = "embedded")]
pub mod embedded;
mod error;
mod forward;
pub mod gaps;
mod generate;
mod hub;
mod likelihood;
mod load;
mod model;
mod predictor;
mod prompt;
mod scope;
mod shard;
mod steps;
mod text;
mod trace;
mod words;

pub use answer::Answer;
pub use beside::Beside;
pub use decoding::{Decoding, USUAL_LENGTH};
pub use defaults::Defaults;
pub use description::Description;
pub use error::{Error, Result, is_mistake};
pub use forward::{DependencyMap, Forward};
pub use generate::{Generate, Many, One};
pub use hub::hub_options;
pub use load::Loader;
pub use model::Model;
pub use prompt::Prompt;
pub use scope::{SCOPE, Scope};
pub use shard::Shard;
pub use steps::Steps;
pub use text::Text;
pub use words::counted;
