//! One row of the cache and the parquet file it is written to.
//!
//! Invariant: a file appears under its name only when it is complete, and its bytes are a function of its rows: no
//! time stamps, no batch boundaries, one encoding.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use demask_decode::dependency::{Measure, Opinion};
use demask_model::file::Pending;
use half::f16;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use serde::{Deserialize, Serialize};

use super::columns::{self, Kept};
use super::label;
use crate::error::{Error, Result};

/// Payload after which a row group is closed; bounds the memory of writer and readers.
const ROW_GROUP_BYTES: usize = 64 << 20;

/// A number format of stored matrices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stored {
    /// IEEE half precision.
    #[default]
    F16,
    /// Single precision.
    F32,
}

/// Numbers as they are stored: little-endian, row-major.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Numbers {
    /// Their format.
    pub dtype: Stored,
    /// Their bytes.
    pub bytes: Vec<u8>,
}

impl Numbers {
    /// Rounds to nearest.
    pub fn new(dtype: Stored, values: &[f32]) -> Self {
        let bytes = match dtype {
            Stored::F16 => values.iter().flat_map(|&v| f16::from_f32(v).to_le_bytes()).collect(),
            Stored::F32 => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
        };
        Self { dtype, bytes }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.bytes.len() / self.size()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Appends them in single precision.
    pub fn extend_into(&self, out: &mut Vec<f32>) {
        match self.dtype {
            Stored::F16 => {
                out.extend(self.bytes.chunks_exact(2).map(|b| f16::from_le_bytes([b[0], b[1]]).to_f32()))
            }
            Stored::F32 => {
                out.extend(self.bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])));
            }
        }
    }

    /// In single precision.
    pub fn to_f32(&self) -> Vec<f32> {
        let mut out = Vec::with_capacity(self.len());
        self.extend_into(&mut out);
        out
    }

    fn size(&self) -> usize {
        match self.dtype {
            Stored::F16 => 2,
            Stored::F32 => 4,
        }
    }
}

/// One row: a mask of a response with one draw of tokens.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Example {
    /// The response.
    pub id: String,
    /// Which of its masks.
    pub mask: u32,
    /// Which draw of tokens for this mask.
    pub draw: u32,
    /// The drawn ratio `t`.
    pub ratio: f32,
    /// Tokens of the prompt, at the front of `tokens`.
    pub prompt: usize,
    /// Prompt and response without masks.
    pub tokens: Vec<u32>,
    /// The paper's `M`, ascending positions of `tokens`.
    pub positions: Vec<usize>,
    /// The revealed `y`, one per position.
    pub revealed: Vec<u32>,
    /// `D(y)`, `|M|×|M|`: row = affected, column = revealed.
    pub dependency: Numbers,
    /// The same by `KL(after ‖ before)`, where stored.
    pub divergence: Option<Numbers>,
    /// Hidden rows `i` of the positions, `|M|×d`, where stored.
    pub hidden_i: Option<Numbers>,
    /// Hidden rows `i-1`, where stored.
    pub hidden_i_minus_1: Option<Numbers>,
    /// What the model thinks of the positions, `|M|×5`, where labels are stored; read them with [`Self::opinions`].
    pub opinions: Option<Numbers>,
    /// Of each position whether its most probable token changes once all sure ones are revealed: [`KEEPS`](super::KEEPS),
    /// [`CHANGES`](super::CHANGES) or [`UNLABELLED`](super::UNLABELLED).
    pub changes: Vec<u32>,
}

impl Example {
    /// What the model thinks of the positions, where labels are stored.
    pub fn opinions(&self) -> Vec<Opinion> {
        self.opinions.as_ref().map(label::opinions).unwrap_or_default()
    }

    /// Positions with a label.
    pub fn labelled(&self) -> usize {
        self.changes.iter().filter(|&&change| change != label::UNLABELLED).count()
    }

    /// What was measured, by one of the measures that are stored.
    pub fn measured(&self, measure: Measure) -> Vec<f32> {
        match measure {
            Measure::TotalVariation => self.dependency.to_f32(),
            Measure::Divergence => self.divergence.as_ref().map(Numbers::to_f32).unwrap_or_default(),
        }
    }

    fn payload(&self) -> usize {
        let hidden = [&self.hidden_i, &self.hidden_i_minus_1, &self.divergence, &self.opinions];
        let hidden: usize = hidden.iter().filter_map(|h| h.as_ref()).map(|h| h.bytes.len()).sum();
        4 * (self.tokens.len() + 2 * self.positions.len()) + self.dependency.bytes.len() + hidden
    }
}

/// Writes one file.
pub(super) struct Writer {
    path: PathBuf,
    out: Option<SerializedFileWriter<Pending>>,
    kept: Kept,
    rows: Vec<Example>,
    payload: usize,
}

impl Writer {
    /// Begins `path`, which appears with [`Self::finish`].
    pub(super) fn new(path: &Path, kept: Kept) -> Self {
        Self { path: path.to_owned(), out: None, kept, rows: Vec::new(), payload: 0 }
    }

    /// Adds a row.
    pub(super) fn push(&mut self, example: Example) -> Result<()> {
        self.payload += example.payload();
        self.rows.push(example);
        if self.payload >= ROW_GROUP_BYTES { self.flush() } else { Ok(()) }
    }

    /// Completes the file with these entries in its footer. Where another process made the same file in the meantime, its
    /// file stays: the rows are a function of the same things.
    pub(super) fn finish(mut self, entries: Vec<(&str, String)>) -> Result<()> {
        self.flush()?;
        let fail = |cause| Error::write(&self.path)(cause);
        let Some(mut out) = self.out.take() else { return Ok(()) };
        for (key, value) in entries {
            out.append_key_value_metadata(KeyValue::new(format!("demask.{key}"), value));
        }
        let file = out.into_inner().map_err(io_error).map_err(&fail)?;
        match file.finish_if_first() {
            Err(demask_model::Error::Write { cause, .. }) => Err(fail(cause)),
            finished => finished.map(drop).map_err(Error::from),
        }
    }

    fn flush(&mut self) -> Result<()> {
        let out = match &mut self.out {
            Some(out) => out,
            None => {
                let file = Pending::create(&self.path)?;
                let out = columns::schema(self.kept).and_then(|schema| {
                    SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties()))
                });
                self.out.insert(out.map_err(io_error).map_err(Error::write(&self.path))?)
            }
        };
        if !self.rows.is_empty() {
            let written = columns::write(out, &self.rows, self.kept);
            written.map_err(io_error).map_err(Error::write(&self.path))?;
        }
        self.rows.clear();
        self.payload = 0;
        Ok(())
    }
}

/// The system's own error where there is one, so that a full disk reads as such.
fn io_error(cause: ParquetError) -> io::Error {
    match cause {
        ParquetError::External(cause) => match cause.downcast::<io::Error>() {
            Ok(cause) => *cause,
            Err(cause) => io::Error::other(cause),
        },
        cause => io::Error::other(cause),
    }
}

fn properties() -> WriterProperties {
    let level = ZstdLevel::try_new(3).unwrap_or_default();
    WriterProperties::builder()
        .set_compression(Compression::ZSTD(level))
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_created_by(concat!("demask ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_max_row_group_size(usize::MAX)
        .build()
}
