//! Conversations in files: JSON lines or parquet, with `messages` (Tulu-3's layout) or `prompt` and `response`.
//!
//! Rows are read by number, so a run can begin anywhere and several runs can share the work. Invariant: a row that
//! cannot be used is a [`Refused`] with its number and a reason, never an error of the whole file.

mod encode;
mod jsonl;
mod table;

use std::ops::Range;
use std::path::{Path, PathBuf};

use demask_model::text::Message;

use crate::error::{Error, Result};

pub use encode::{Encoded, Encoder};

/// One row.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The row's `id`, or its number.
    pub id: String,
    /// What is said.
    pub content: Content,
}

/// What a row says.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// A conversation; the last turn of the assistant is the response.
    Messages(Vec<Message>),
    /// A question and its answer.
    Pair {
        /// The question.
        prompt: String,
        /// The answer.
        response: String,
    },
}

/// A row that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Refused {
    /// Number of the row, from 0.
    pub row: u64,
    /// Why, as the end of a sentence.
    pub why: String,
}

/// Rows by number.
pub trait Records: Send + Sync {
    /// How many there are.
    fn len(&self) -> usize;

    /// Whether there is none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Tells this content from any other.
    fn identity(&self) -> String;

    /// The rows of a range.
    fn read(&self, range: Range<usize>) -> Result<Vec<Result<Record, Refused>>>;
}

/// Opens a `.jsonl`, `.json` (lines) or `.parquet` file, or all such files of a folder in the order of their names.
pub fn open(path: &Path) -> Result<Box<dyn Records>> {
    if path.is_dir() {
        let mut files = Vec::new();
        collect(path, &mut files)?;
        files.sort();
        let parts = files.iter().map(|file| open_file(file)).collect::<Result<Vec<_>>>()?;
        if parts.is_empty() {
            let problem = "holds no .jsonl or .parquet file".into();
            return Err(Error::Data { path: path.to_owned(), problem });
        }
        return Ok(Box::new(Parts(parts)));
    }
    open_file(path)
}

fn open_file(path: &Path) -> Result<Box<dyn Records>> {
    match extension(path) {
        Some("jsonl" | "json" | "ndjson") => Ok(Box::new(jsonl::Lines::open(path)?)),
        Some("parquet") => Ok(Box::new(table::Table::open(path)?)),
        _ => {
            let problem = "is neither a .jsonl nor a .parquet file".into();
            Err(Error::Data { path: path.to_owned(), problem })
        }
    }
}

fn extension(path: &Path) -> Option<&str> {
    path.extension()?.to_str()
}

/// Data files below a folder, hidden ones left out.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(folder).map_err(Error::read(folder))? {
        let path = entry.map_err(Error::read(folder))?.path();
        let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if hidden {
            continue;
        }
        if path.is_dir() {
            collect(&path, files)?;
        } else if matches!(extension(&path), Some("jsonl" | "ndjson" | "parquet")) {
            files.push(path);
        }
    }
    Ok(())
}

/// Several files as one.
struct Parts(Vec<Box<dyn Records>>);

impl Records for Parts {
    fn len(&self) -> usize {
        self.0.iter().map(|part| part.len()).sum()
    }

    fn identity(&self) -> String {
        self.0.iter().map(|part| part.identity()).collect::<Vec<_>>().join("+")
    }

    fn read(&self, range: Range<usize>) -> Result<Vec<Result<Record, Refused>>> {
        let (mut rows, mut start) = (Vec::new(), 0);
        for part in &self.0 {
            let end = start + part.len();
            let inside = range.start.clamp(start, end)..range.end.clamp(start, end);
            if !inside.is_empty() {
                let shifted = |row: Result<Record, Refused>| {
                    row.map_err(|refused| Refused { row: refused.row + start as u64, ..refused })
                };
                rows.extend(part.read(inside.start - start..inside.end - start)?.into_iter().map(shifted));
            }
            start = end;
        }
        Ok(rows)
    }
}

#[cfg(test)]
mod tests;
