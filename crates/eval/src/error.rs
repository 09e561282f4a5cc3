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
    #[error("{} was written by another run: {problem}; write to another folder, or delete it", path.display())]
    OtherRun {
        /// The file.
        path: PathBuf,
        /// What differs.
        problem: String,
    },
    /// There is no task of that name, or none was named.
    #[error("{0}")]
    UnknownTask(String),
    /// The data to measure on could not be read.
    #[error("{0}")]
    Data(String),
    /// A choice of the caller's does not fit the data or the model.
    #[error("{problem}")]
    Choice {
        /// What does not fit.
        problem: String,
        /// What would.
        remedy: Remedy,
    },
    /// Answers are programs, and running them was not allowed.
    #[error("the answers are programs that have to be run, and that was not allowed")]
    CodeNotAllowed,
    /// Programs cannot be run.
    #[error("the sandbox cannot be used: {0}")]
    Sandbox(String),
    /// There is nothing to measure.
    #[error("there is nothing to measure: {0}")]
    Nothing(String),
}

/// What a caller can do about an error, in the caller's own words: a flag, a field, an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remedy {
    /// Ask for a shorter response.
    ShorterResponse,
    /// Ask without the chat template.
    WithoutTemplate,
    /// Name the file of the worked examples, or ask for none.
    NameShots,
    /// Allow programs to be run.
    AllowCode,
    /// Take the test split, knowing that it is no longer a fair report.
    TestSplit,
    /// Make a run that goes on decoding after an end of sequence.
    NoEosFilling,
}

impl Error {
    /// What the caller can do about it, where that is a choice of this crate's.
    pub fn remedy(&self) -> Option<Remedy> {
        match self {
            Self::Choice { remedy, .. } => Some(*remedy),
            Self::CodeNotAllowed => Some(Remedy::AllowCode),
            _ => None,
        }
    }

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
