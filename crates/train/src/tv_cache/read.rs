//! Reading a cache: whole files, only the columns asked for.

use std::path::{Path, PathBuf};

use demask_decode::dependency::Measure;
use demask_model::files;
use demask_model::guard::caught;
use parquet::file::reader::{FileReader, SerializedFileReader};

use super::columns;
use super::format::Example;
use super::manifest::{self, FileEntry, Manifest, TvCacheHeader};
use crate::data::Refused;
use crate::error::{Error, Result};

/// Which of the large columns to read; ids, masks and positions always come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Columns {
    /// Tokens and revealed tokens.
    pub tokens: bool,
    /// `D(y)`.
    pub dependency: bool,
    /// The same by divergence, where stored.
    pub divergence: bool,
    /// Hidden rows `i`.
    pub hidden_i: bool,
    /// Hidden rows `i-1`.
    pub hidden_i_minus_1: bool,
}

impl Columns {
    /// All that are stored.
    pub const ALL: Self =
        Self { tokens: true, dependency: true, divergence: true, hidden_i: true, hidden_i_minus_1: true };

    /// The matrices of one measure.
    pub fn of(measure: Measure) -> Self {
        let divergence = measure == Measure::Divergence;
        Self { dependency: !divergence, divergence, ..Self::default() }
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
            None if has_files(folder) => Err(bad("the cache is not finished; generate it again to go on")),
            None => {
                Err(bad("is not a TV cache: it has no manifest.json; a TV cache has to be generated first"))
            }
        }
    }

    /// What it is of.
    pub fn header(&self) -> &TvCacheHeader {
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
    pub fn read(&self, index: usize, wanted: Columns) -> Result<Vec<Example>> {
        let path = self.folder.join(&self.manifest.files[index].name);
        let damaged = |problem| Error::Cache { path: path.clone(), problem };
        caught(|| self.rows(&path, index, wanted)).map_err(damaged)?
    }

    fn rows(&self, path: &Path, index: usize, wanted: Columns) -> Result<Vec<Example>> {
        let file = files::open(path).map_err(Error::read(path))?;
        let reader = SerializedFileReader::new(file).map_err(Error::parquet(path))?;
        let damaged = |problem: String| Error::Cache { path: path.to_owned(), problem };
        let promised = self.manifest.files[index].examples;
        let found = reader.metadata().file_metadata().num_rows();
        if usize::try_from(found) != Ok(promised) {
            return Err(damaged(format!(
                "has {found} rows, but manifest.json says {promised}; generate the cache again"
            )));
        }
        let hidden = self.header().settings.hidden_dtype;
        // No room is made on a file's word.
        let mut rows = Vec::new();
        for group in 0..reader.num_row_groups() {
            let group = reader.get_row_group(group).and_then(|group| columns::read(&*group, wanted, hidden));
            let group = group
                .map_err(|cause| damaged(format!("cannot be decoded ({cause}); delete it and run again")))?;
            let group = group.ok_or_else(|| damaged("does not have the documented columns".into()))?;
            rows.extend(group);
        }
        if let Some(row) = rows.iter().position(|row| !fits(row, wanted, self.header().d)) {
            return Err(damaged(format!("row {row} has matrices of another size than its positions say")));
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
        && example.divergence.as_ref().is_none_or(|d| d.len() == masked * masked)
        && (!columns.tokens || example.positions.iter().all(|&p| p < example.tokens.len()))
        && hidden.iter().filter_map(|rows| rows.as_ref()).all(|rows| rows.len() == masked * d)
}

/// Name of a cache's file of this number.
pub fn file_name(index: usize) -> String {
    format!("tv-{index:05}.parquet")
}

/// What the footer of a finished file says.
pub(super) fn footer(path: &Path) -> Result<(TvCacheHeader, FileEntry, Vec<Refused>)> {
    let file = files::open(path).map_err(Error::read(path))?;
    let damaged = |problem| Error::Cache { path: path.to_owned(), problem };
    let reader =
        caught(|| SerializedFileReader::new(file)).map_err(damaged)?.map_err(Error::parquet(path))?;
    let entries = reader.metadata().file_metadata().key_value_metadata();
    let entry = |key: &str| {
        let key = format!("demask.{key}");
        entries?.iter().find(|entry| entry.key == key)?.value.clone()
    };
    let parse = || -> Option<(TvCacheHeader, FileEntry, Vec<Refused>)> {
        let header = serde_json::from_str(&entry("header")?).ok()?;
        let file = serde_json::from_str(&entry("file")?).ok()?;
        Some((header, file, serde_json::from_str(&entry("refused")?).ok()?))
    };
    let problem = || "is not a file of a TV cache; delete it or use another folder".to_owned();
    parse().ok_or_else(|| Error::Cache { path: path.to_owned(), problem: problem() })
}
