//! The engine for masked-diffusion language models as a library.
//!
//! ```
//! use demask::Model;
//!
//! fn main() -> demask::Result<()> {
//!     let model = Model::embedded()?; // or Model::load("Dream-org/Dream-v0-Instruct-7B"), a folder, a .gguf file
//!     let question = "Tom has 12 pens. Tom buys 7 more. Tom loses 5. How many pens does Tom have now?";
//!     let answer = model.generate(question).run()?; // DEMASK, as the checkpoint asks; .strategy("…") takes another
//!     assert!(answer.text.contains("14"), "{}", answer.text);
//!     println!("{} ({} forward passes)", answer.text, answer.metrics.forwards);
//!     Ok(())
//! }
//! ```
//!
//! - [`Model::generate`] decodes a prompt, a chat ([`Message`]s) or a text with gaps ([`Prompt::infill`]);
//!   [`Model::generate_all`] a batch. [`Generate::steps`] is an iterator of [`StepRecord`]s, [`Generate::observer`] takes
//!   an [`Observer`].
//! - A strategy of your own implements [`Strategy`]; [`Model::with_registry`] gives it a name everywhere, or
//!   [`Generate::own_strategy`] takes it as it is.
//! - [`Model::forward`] gives hidden rows and logits, [`Model::dependency`] the predicted dependency matrix.
//! - The rooms below are the project's crates: [`decode`] (canvas, strategies, loop, trace), [`model`] (checkpoints,
//!   tokenizer, network), [`kernels`], and behind features of their names `train`, `eval` and `serve`.

pub use demask_decode as decode;
pub use demask_engine as engine;
pub use demask_kernels as kernels;
pub use demask_model as model;

#[cfg(feature = "eval")]
pub use demask_eval as eval;
#[cfg(any(feature = "eval", feature = "train"))]
pub use demask_plot as plot;
#[cfg(feature = "serve")]
pub use demask_serve as serve;
#[cfg(feature = "train")]
pub use demask_train as train;

pub use demask_decode::{
    CacheSpec, Canvas, EosPolicy, Observer, Registry, Sampling, StepRecord, Strategy, StrategySpec,
};
pub use demask_engine::{
    Answer, Decoding, Defaults, DependencyMap, Error, Forward, Generate, Loader, Many, Model, One, Prompt,
    Result, Shard, Steps, Text, counted, hub_options,
};
pub use demask_model::text::Message;
