//! What can go wrong while decoding.

/// The result of anything in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a decoding was refused or gave up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The backbone failed.
    #[error(transparent)]
    Model(#[from] demask_model::Error),
    /// A name is unknown.
    #[error("there is no {kind} {name:?}{}", suggest(.nearest))]
    Unknown {
        /// What it would be the name of: a strategy or a cache.
        kind: &'static str,
        /// What was asked for.
        name: String,
        /// The nearest known name.
        nearest: Option<String>,
    },
    /// A strategy or cache has no such parameter.
    #[error("{kind} {name} has no parameter {key:?}{}", suggest(.nearest))]
    UnknownParameter {
        /// What it is.
        kind: &'static str,
        /// Its name.
        name: String,
        /// What was asked for.
        key: String,
        /// The nearest known parameter, or the list of all.
        nearest: Option<String>,
    },
    /// A parameter's value does not parse or is out of range.
    #[error("{what} = {value}: {why}")]
    BadValue {
        /// The strategy or cache and key, or the option.
        what: String,
        /// The value found.
        value: String,
        /// What is allowed.
        why: String,
    },
    /// The canvas cannot be decoded.
    #[error("{0}")]
    Canvas(String),
    /// The model's output is not a number.
    #[error(
        "the model's logits at position {position} are not finite in step {step}; the weights are damaged or the dtype overflows"
    )]
    NotFinite {
        /// Position whose row is bad.
        position: usize,
        /// Step of the decoding.
        step: usize,
    },
    /// A strategy stopped making progress.
    #[error("strategy {strategy} left {masked} masks after {steps} steps without progress")]
    Stalled {
        /// The strategy.
        strategy: String,
        /// Masks left.
        masked: usize,
        /// Steps done.
        steps: usize,
    },
    /// A name is already in use.
    #[error("there is already a {kind} named {name:?}; give yours another name")]
    Taken {
        /// What it is the name of.
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// A strategy needs a dependency predictor.
    #[error(
        "strategy {strategy} needs a dependency predictor: put predictor.safetensors into the checkpoint's folder, train \
         one, or use dependency=oracle"
    )]
    NoPredictor {
        /// The strategy.
        strategy: String,
    },
    /// A strategy needs a second, causal model.
    #[error(
        "strategy {strategy} needs an assistant: a causal model with the same tokenizer and special ids, such as the \
         folder causal that pre-training leaves behind"
    )]
    NoAssistant {
        /// The strategy.
        strategy: String,
    },
    /// A model cannot assist this one.
    #[error("this model cannot assist: {0}")]
    Assistant(String),
    /// A trained part is not usable.
    #[error("{0}")]
    Part(String),
    /// A strategy cannot be decoded with these options.
    #[error("strategy {strategy} {why}")]
    Refused {
        /// The strategy.
        strategy: String,
        /// What it cannot do, and what to do instead.
        why: String,
    },
    /// A strategy needs something it was not given.
    #[error("strategy {strategy} needs {what}")]
    Missing {
        /// The strategy.
        strategy: String,
        /// What is missing and how to give it.
        what: String,
    },
    /// A strategy of the calling program gave up.
    #[error("strategy {strategy}: {problem}")]
    Own {
        /// The strategy.
        strategy: String,
        /// What went wrong, in its own words.
        problem: String,
    },
    /// A predictor's file is not usable.
    #[error("{0}")]
    Predictor(String),
    /// A trace could not be written.
    #[error("cannot write the trace: {0}")]
    Trace(#[source] std::io::Error),
}

fn suggest(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|n| format!("; did you mean {n}?")).unwrap_or_default()
}
