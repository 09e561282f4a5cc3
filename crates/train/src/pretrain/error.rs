//! What can go wrong in a pre-training run.
//!
//! Invariant: every message is one sentence that names the file or the value and, where the user can act, what to do.

use std::io;
use std::path::{Path, PathBuf};

/// The result of anything in pre-training.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a run stopped or was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be read.
    #[error("cannot read {}: {cause}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// A file could not be written.
    #[error("cannot write {}: {cause}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// The configuration is not usable.
    #[error("{}: {problem}", path.display())]
    Config {
        /// The TOML file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A saved state is damaged or of another run.
    #[error("{}: {problem}", path.display())]
    State {
        /// The file.
        path: PathBuf,
        /// What is wrong and what to do.
        problem: String,
    },
    /// An example cannot be trained on.
    #[error("example {index} {problem}")]
    Example {
        /// Its index in the stream.
        index: u64,
        /// What is wrong, as the end of a sentence.
        problem: String,
    },
    /// The loss or its gradient is no longer a number.
    #[error(
        "the gradient of step {step} is not finite; lower the learning rate and start again in another folder"
    )]
    Diverged {
        /// The step.
        step: u64,
    },
    /// The caller's validation failed.
    #[error("validation at step {step} failed: {problem}")]
    Validation {
        /// The step.
        step: u64,
        /// What it said.
        problem: String,
    },
    /// A picture could not be drawn.
    #[error(transparent)]
    Plot(#[from] demask_plot::Error),
    /// The model refused.
    #[error(transparent)]
    Model(#[from] demask_model::Error),
    /// The tensor library refused.
    #[error("tensor operation failed: {0}")]
    Tensor(#[from] candle_core::Error),
}

impl Error {
    /// For `map_err`: a file that could not be read.
    pub fn read(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |cause| Self::Read { path, cause }
    }

    /// For `map_err`: a file that could not be written.
    pub fn write(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |cause| Self::Write { path, cause }
    }
}
