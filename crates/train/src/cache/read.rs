//! Reading a cache: whole files, only the columns asked for.

use std::fs::File;
use std::path::{Path, PathBuf};

use arrow::array::{ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{Float32Type, Int32Type};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReaderBuilder};

use super::format::{self, Example, Numbers, Stored};
use super::manifest::{self, FileEntry, Header, Manifest};
use crate::data::Refused;
use crate::error::{Error, Result};

/// Which of the large columns to read; ids, masks and positions always come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Columns {
    /// Tokens and revealed tokens.
    pub tokens: bool,
    /// `D(y)`.
    pub dependency: bool,
    /// Hidden rows `i`.
    pub hidden_i: bool,
    /// Hidden rows `i-1`.
    pub hidden_i_minus_1: bool,
}

impl Columns {
    /// All that are stored.
    pub const ALL: Self = Self { tokens: true, dependency: true, hidden_i: true, hidden_i_minus_1: true };

    fn names(self) -> Vec<&'static str> {
        let always =
            [format::ID, format::MASK, format::DRAW, format::RATIO, format::PROMPT, format::POSITIONS];
        let mut names = always.to_vec();
        let wanted = [
            (self.tokens, format::TOKENS),
            (self.tokens, format::REVEALED),
            (self.dependency, format::DEPENDENCY),
            (self.hidden_i, format::HIDDEN_I),
            (self.hidden_i_minus_1, format::HIDDEN_I_MINUS_1),
        ];
        names.extend(wanted.into_iter().filter(|(wanted, _)| *wanted).map(|(_, name)| name));
        names
    }
}

/// A finished cache.
#[derive(Debug, Clone)]
pub struct Cache {
    folder: PathBuf,
    manifest: Manifest,
}

impl Cache {
    /// Opens a finished cache.
    pub fn open(folder: &Path) -> Result<Self> {
        let bad = |problem: &str| Error::Cache { path: folder.to_owned(), problem: problem.into() };
        match Manifest::read(folder)? {
            Some(manifest) if manifest.examples() == 0 => Err(bad("the cache has no examples")),
            Some(manifest) => Ok(Self { folder: folder.to_owned(), manifest }),
            None if has_files(folder) => {
                Err(bad("the cache is not finished; run demask cache generate again to go on"))
            }
            None => {
                Err(bad("is not a TV cache: it has no manifest.json; make one with demask cache generate"))
            }
        }
    }

    /// What it is of.
    pub fn header(&self) -> &Header {
        &self.manifest.header
    }

    /// Its table of contents.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Rows of the source that it leaves out.
    pub fn refused(&self) -> Result<Vec<Refused>> {
        manifest::read_refused(&self.folder)
    }

    /// The rows of file number `index`.
    pub fn read(&self, index: usize, columns: Columns) -> Result<Vec<Example>> {
        let path = self.folder.join(&self.manifest.files[index].name);
        let file = File::open(&path).map_err(Error::read(&path))?;
        let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(Error::parquet(&path))?;
        let mask = ProjectionMask::columns(builder.parquet_schema(), columns.names());
        let reader =
            builder.with_projection(mask).with_batch_size(64).build().map_err(Error::parquet(&path))?;
        let damaged = |problem: String| Error::Cache { path: path.clone(), problem };
        let mut rows = Vec::with_capacity(self.manifest.files[index].examples);
        for batch in reader {
            let batch = batch
                .map_err(|cause| damaged(format!("cannot be decoded ({cause}); delete it and run again")))?;
            let table = Table { batch: &batch, hidden: self.header().settings.hidden_dtype };
            for row in 0..batch.num_rows() {
                let example = table.example(row).filter(|example| fits(example, columns, self.header().d));
                rows.push(example.ok_or_else(|| {
                    damaged(format!("row {} does not have the documented columns", rows.len()))
                })?);
            }
        }
        Ok(rows)
    }
}

fn has_files(folder: &Path) -> bool {
    let names = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.into_iter().any(|name| name.to_string_lossy().starts_with("tv-"))
}

/// Whether the matrices have the sizes that the positions say.
fn fits(example: &Example, columns: Columns, d: usize) -> bool {
    let masked = example.positions.len();
    let hidden = [&example.hidden_i, &example.hidden_i_minus_1];
    (!columns.dependency || example.dependency.len() == masked * masked)
        && (!columns.tokens || example.positions.iter().all(|&p| p < example.tokens.len()))
        && hidden.iter().filter_map(|rows| rows.as_ref()).all(|rows| rows.len() == masked * d)
}

/// Name of file number `index`.
pub(super) fn name(index: usize) -> String {
    format!("tv-{index:05}.parquet")
}

/// What the footer of a finished file says.
pub(super) fn footer(path: &Path) -> Result<(Header, FileEntry, Vec<Refused>)> {
    let file = File::open(path).map_err(Error::read(path))?;
    let metadata = ArrowReaderMetadata::load(&file, Default::default()).map_err(Error::parquet(path))?;
    let entries = metadata.metadata().file_metadata().key_value_metadata();
    let entry = |key: &str| {
        let key = format!("demask.{key}");
        entries?.iter().find(|entry| entry.key == key)?.value.clone()
    };
    let parse = || -> Option<(Header, FileEntry, Vec<Refused>)> {
        let header = serde_json::from_str(&entry("header")?).ok()?;
        let file = serde_json::from_str(&entry("file")?).ok()?;
        Some((header, file, serde_json::from_str(&entry("refused")?).ok()?))
    };
    let problem = || "is not a file of a TV cache; delete it or use another folder".to_owned();
    parse().ok_or_else(|| Error::Cache { path: path.to_owned(), problem: problem() })
}

struct Table<'a> {
    batch: &'a RecordBatch,
    hidden: Stored,
}

impl Table<'_> {
    fn example(&self, row: usize) -> Option<Example> {
        Some(Example {
            id: self.column(format::ID)?.as_string_opt::<i32>()?.value(row).to_owned(),
            mask: self.number(format::MASK, row)?,
            draw: self.number(format::DRAW, row)?,
            ratio: self.column(format::RATIO)?.as_primitive_opt::<Float32Type>()?.value(row),
            prompt: self.number(format::PROMPT, row)? as usize,
            tokens: self.list(format::TOKENS, row).unwrap_or_default(),
            positions: self.list(format::POSITIONS, row)?.into_iter().map(|p| p as usize).collect(),
            revealed: self.list(format::REVEALED, row).unwrap_or_default(),
            dependency: self.matrix(format::DEPENDENCY, row, Stored::F16).unwrap_or_default(),
            hidden_i: self.matrix(format::HIDDEN_I, row, self.hidden),
            hidden_i_minus_1: self.matrix(format::HIDDEN_I_MINUS_1, row, self.hidden),
        })
    }

    fn column(&self, name: &str) -> Option<&ArrayRef> {
        self.batch.column_by_name(name)
    }

    fn number(&self, name: &str, row: usize) -> Option<u32> {
        Some(self.column(name)?.as_primitive_opt::<Int32Type>()?.value(row) as u32)
    }

    fn list(&self, name: &str, row: usize) -> Option<Vec<u32>> {
        let values = self.column(name)?.as_list_opt::<i32>()?.value(row);
        Some(values.as_primitive_opt::<Int32Type>()?.values().iter().map(|&v| v as u32).collect())
    }

    fn matrix(&self, name: &str, row: usize, dtype: Stored) -> Option<Numbers> {
        let bytes = self.column(name)?.as_binary_opt::<i32>()?.value(row).to_vec();
        Some(Numbers { dtype, bytes })
    }
}
