//! What can go wrong while a TV cache is made, a predictor is fitted or a backbone is pre-trained.
//!
//! Invariant: every message is one sentence that names the file or the value and, where the user can act, what to do.

use std::io;
use std::path::{Path, PathBuf};

/// The result of anything in this crate.
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
    #[error("cannot write {}: {cause}; what was finished before is kept, run the same command again to go on", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// A data file has no usable content.
    #[error("{}: {problem}", path.display())]
    Data {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A folder or file does not hold what it should.
    #[error("{}: {problem}", path.display())]
    Cache {
        /// The folder or file.
        path: PathBuf,
        /// What is wrong and what to do.
        problem: String,
    },
    /// A setting is out of range.
    #[error("{name} is {value}, must be {allowed}")]
    Setting {
        /// The setting.
        name: &'static str,
        /// The value found.
        value: String,
        /// What is allowed.
        allowed: &'static str,
    },
    /// A configuration file is not usable.
    #[error("{}: {problem}", path.display())]
    Config {
        /// The TOML file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A saved training state is of another run or damaged.
    #[error("{}: {problem}", path.display())]
    State {
        /// The file.
        path: PathBuf,
        /// What is wrong and what to do.
        problem: String,
    },
    /// The loss is no longer a number.
    #[error(
        "the gradient of step {step} is not finite; lower the learning rate and start again in another folder"
    )]
    Diverged {
        /// The step.
        step: u64,
    },
    /// An example cannot be trained on.
    #[error("example {index} {problem}")]
    Example {
        /// Its index in the stream.
        index: u64,
        /// What is wrong, as the end of a sentence.
        problem: String,
    },
    /// The caller's validation failed.
    #[error("validation at step {step} failed: {problem}")]
    Validation {
        /// The step.
        step: u64,
        /// What it said.
        problem: String,
    },
    /// The tensor library refused.
    #[error("tensor operation failed: {0}")]
    Tensor(#[from] candle_core::Error),
    /// A picture could not be drawn.
    #[error(transparent)]
    Plot(#[from] demask_plot::Error),
    /// Measuring dependency failed.
    #[error(transparent)]
    Decode(#[from] demask_decode::Error),
    /// The model refused.
    #[error(transparent)]
    Model(#[from] demask_model::Error),
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

    /// For `map_err`: a parquet file that could not be read.
    pub(crate) fn parquet(path: &Path) -> impl Fn(parquet::errors::ParquetError) -> Self {
        let path = path.to_path_buf();
        move |cause| Self::Cache {
            path: path.clone(),
            problem: format!("is not a readable parquet file ({cause})"),
        }
    }
}
