//! What can go wrong between a model's name and an answer.

use std::path::PathBuf;

use demask_decode::Error as Decode;

use crate::words::counted;

/// The result of anything in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a model was refused or did not answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The checkpoint, its text files or the backbone.
    #[error(transparent)]
    Model(#[from] demask_model::Error),
    /// The decoding.
    #[error(transparent)]
    Decode(#[from] Decode),
    /// A predictor does not fit the model.
    #[error("{}: {problem}", path.display())]
    Predictor {
        /// The predictor's file.
        path: PathBuf,
        /// Why.
        problem: String,
    },
    /// generation_config.json cannot be used.
    #[error("{}: {problem}", path.display())]
    Defaults {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// scope.json cannot be used.
    #[error("{}: {problem}", path.display())]
    Scope {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A conversation was given to a model that has no chat template.
    #[error("{} has no chat template; give it the prompt as it is", path.display())]
    NoTemplate {
        /// The checkpoint.
        path: PathBuf,
    },
    /// Prompt and response do not fit the context together.
    #[error(
        "the prompt has {} and the response {length}, together more than the model's context of {context}",
        counted(*given, "token")
    )]
    TooLong {
        /// Tokens of the prompt.
        given: usize,
        /// Tokens of the response.
        length: usize,
        /// Positions of the model.
        context: usize,
    },
    /// A text with gaps does not fit the context.
    #[error(
        "the text has {tokens} tokens, more than the model's context of {context}; shorten it or its gaps"
    )]
    TextTooLong {
        /// Tokens of the text, its gaps included.
        tokens: usize,
        /// Positions of the model.
        context: usize,
    },
    /// Nothing stands before the first mask, and the model predicts a token from the one before.
    #[error(
        "the prompt is empty; this model predicts each token from the one before it and needs at least one"
    )]
    NothingBefore,
    /// The gaps of a text are not written as they should be.
    #[error("{0}")]
    Gap(#[from] crate::gaps::GapError),
    /// A text that stands beside masks brings masks of its own.
    #[error("the text has the model's mask token in it; gaps are written [MASK] or [MASK:5]")]
    MaskInText,
    /// An observer ended a decoding whose answer was wanted.
    #[error("decoding was stopped with {} left", counted(*masks, "mask"))]
    Stopped {
        /// Masks that are left.
        masks: usize,
    },
    /// Something of this model was asked for that it does not have.
    #[error("{} has no dependency predictor", path.display())]
    NoPredictor {
        /// The checkpoint.
        path: PathBuf,
    },
}

impl Error {
    /// Whether the caller can repair the call itself: a name, a value, a length or a gap is wrong.
    pub fn is_mistake(&self) -> bool {
        match self {
            Self::Decode(cause) => is_mistake(cause),
            Self::TooLong { .. }
            | Self::TextTooLong { .. }
            | Self::NothingBefore
            | Self::Gap(_)
            | Self::MaskInText => true,
            _ => false,
        }
    }
}

/// Whether the caller can repair the call itself.
pub fn is_mistake(error: &Decode) -> bool {
    matches!(
        error,
        Decode::Unknown { .. }
            | Decode::UnknownParameter { .. }
            | Decode::BadValue { .. }
            | Decode::Missing { .. }
            | Decode::Taken { .. }
            | Decode::NoPredictor { .. }
            | Decode::NoAssistant { .. }
            | Decode::Refused { .. }
            | Decode::Canvas(_)
    )
}
