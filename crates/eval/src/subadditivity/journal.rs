//! What was measured, one JSON line per mask, appended as it comes.
//!
//! Invariant: after any interruption the file is a prefix of what the whole run writes; the line that
//! was being written is cut off when the run goes on.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Settings;
use crate::error::{Error, Result};

const FILE: &str = "records.jsonl";

/// One mask: the set that was revealed and both sides at every target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The example.
    pub id: String,
    /// Number of the mask.
    pub mask: u32,
    /// The mask ratio that was drawn.
    pub ratio: f64,
    /// `|M|`.
    pub masked: usize,
    /// Positions of `S`.
    pub set: Vec<usize>,
    /// Tokens revealed there.
    pub revealed: Vec<u32>,
    /// Positions of `M \ S`.
    pub targets: Vec<usize>,
    /// `TV(P, P | y_S)` at the targets.
    pub lhs: Vec<f32>,
    /// `Σ_j TV(P, P | y_j)` at the targets.
    pub rhs: Vec<f32>,
}

impl Record {
    /// `RHS − LHS` at the targets.
    pub fn slack(&self) -> impl Iterator<Item = f32> {
        self.rhs.iter().zip(&self.lhs).map(|(rhs, lhs)| rhs - lhs)
    }
}

/// First line: what the records belong to.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Header {
    demask_sub_additivity: u32,
    backbone: String,
    #[serde(flatten)]
    settings: Settings,
}

/// The records of a run, in the file and in memory.
pub(super) struct Journal {
    path: PathBuf,
    file: File,
    records: Vec<Record>,
}

impl Journal {
    /// Opens the folder's records, or begins them.
    pub(super) fn open(folder: &Path, settings: &Settings, backbone: &str) -> Result<Self> {
        fs::create_dir_all(folder).map_err(Error::write(folder))?;
        let path = folder.join(FILE);
        let header =
            Header { demask_sub_additivity: 1, backbone: backbone.into(), settings: settings.clone() };
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(cause) => return Err(Error::Read { path, cause }),
        };
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let mut lines = text[..whole].lines();
        let records = match lines.next() {
            None => Vec::new(),
            Some(first) => {
                let other = |problem: String| Error::OtherRun { path: path.clone(), problem };
                let found: Header =
                    serde_json::from_str(first).map_err(|e| other(format!("its first line is {e}")))?;
                if found != header {
                    return Err(other(format!(
                        "it has {}, this run has {}",
                        describe(&found),
                        describe(&header)
                    )));
                }
                let parse = |(number, line)| {
                    serde_json::from_str(line)
                        .map_err(|e| other(format!("line {} is damaged ({e})", number + 2)))
                };
                lines.enumerate().map(parse).collect::<Result<Vec<_>>>()?
            }
        };
        let mut file =
            OpenOptions::new().create(true).append(true).open(&path).map_err(Error::write(&path))?;
        file.set_len(whole as u64).map_err(Error::write(&path))?;
        if whole == 0 {
            let line = serde_json::to_string(&header).map_err(|e| Error::write(&path)(e.into()))?;
            writeln!(file, "{line}").map_err(Error::write(&path))?;
        }
        Ok(Self { path, file, records })
    }

    /// Number of records.
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    /// All records.
    pub(super) fn records(&self) -> &[Record] {
        &self.records
    }

    /// Refuses to go on over other data.
    pub(super) fn check(&self, number: usize, id: &str, mask: u32) -> Result<()> {
        let Record { id: found, mask: index, .. } = &self.records[number];
        if found == id && *index == mask {
            return Ok(());
        }
        let problem =
            format!("its record {number} is mask {index} of {found:?}, this data has mask {mask} of {id:?}");
        Err(Error::OtherRun { path: self.path.clone(), problem })
    }

    /// Adds records.
    pub(super) fn append(&mut self, records: Vec<Record>) -> Result<()> {
        let mut text = String::new();
        for record in &records {
            text.push_str(&serde_json::to_string(record).map_err(|e| Error::write(&self.path)(e.into()))?);
            text.push('\n');
        }
        self.file.write_all(text.as_bytes()).map_err(Error::write(&self.path))?;
        self.records.extend(records);
        Ok(())
    }

    /// Makes sure that everything is on the disk.
    pub(super) fn sync(&self) -> Result<()> {
        self.file.sync_all().map_err(Error::write(&self.path))
    }
}

fn describe(header: &Header) -> String {
    let Settings { seed, masks_per_response, largest_set } = header.settings;
    format!(
        "backbone {}, seed {seed}, {masks_per_response} masks and sets up to {largest_set}",
        header.backbone
    )
}
