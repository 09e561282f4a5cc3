//! What can go wrong while something is measured.

use std::io;
use std::path::{Path, PathBuf};

/// The result of anything in this crate that measures or writes.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a measurement was refused or gave up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Decoding failed.
    #[error(transparent)]
    Decode(#[from] demask_decode::Error),
    /// The model refused what it was asked.
    #[error(transparent)]
    Engine(#[from] demask_engine::Error),
    /// The backbone failed, or a file could not be written.
    #[error(transparent)]
    Model(#[from] demask_model::Error),
    /// A file or folder could not be read.
    #[error("cannot read {}: {cause}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// A file or folder could not be written.
    #[error("cannot write {}: {cause}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// A picture could not be drawn.
    #[error(transparent)]
    Plot(#[from] demask_plot::Error),
    /// What an earlier run left does not belong to this one.
    #[error("{} was written by another run: {problem}; give another --out, or delete it", path.display())]
    OtherRun {
        /// The file.
        path: PathBuf,
        /// What differs.
        problem: String,
    },
    /// The data to measure on could not be read.
    #[error("{0}")]
    Data(String),
    /// Answers are programs, and running them was not allowed.
    #[error("the answers are programs that have to be run; allow it with --allow-code-execution")]
    CodeNotAllowed,
    /// Programs cannot be run.
    #[error("the sandbox cannot be used: {0}")]
    Sandbox(String),
    /// There is nothing to measure.
    #[error("there is nothing to measure: {0}")]
    Nothing(String),
}

impl Error {
    /// For `map_err`: a file that could not be read.
    pub fn read(path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        let path = path.as_ref().to_path_buf();
        move |cause| Self::Read { path, cause }
    }

    /// For `map_err`: a file that could not be written.
    pub fn write(path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        let path = path.as_ref().to_path_buf();
        move |cause| Self::Write { path, cause }
    }
}
