//! What was measured, one JSON line per mask, in a [`crate::run::journal`].

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use demask_engine::counted;
use serde::{Deserialize, Serialize};

use super::SubadditivitySettings;
use crate::error::{Error, Result};
use crate::run::journal;

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

impl journal::Keyed for Record {
    fn key(&self) -> String {
        format!("mask {} of {:?}", self.mask, self.id)
    }
}

/// First line: what the records belong to.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct JournalHeader {
    demask_sub_additivity: u32,
    backbone: String,
    #[serde(flatten)]
    settings: SubadditivitySettings,
}

impl JournalHeader {
    fn new(settings: &SubadditivitySettings, backbone: &str) -> Self {
        Self { demask_sub_additivity: 1, backbone: backbone.into(), settings: settings.clone() }
    }

    fn agrees(&self, found: &Self) -> std::result::Result<(), String> {
        if found == self {
            return Ok(());
        }
        Err(format!("it has {}, this run has {}", describe(found), describe(self)))
    }
}

/// What parts of a run measured elsewhere.
#[derive(Default)]
pub struct Known {
    headers: Vec<(PathBuf, JournalHeader)>,
    records: HashMap<(String, u32), (Record, String)>,
}

impl Known {
    /// The records of these folders.
    pub fn read(folders: &[PathBuf]) -> Result<Self> {
        let mut known = Self::default();
        for folder in folders {
            let path = folder.join(FILE);
            let (header, records): (JournalHeader, Vec<(Record, String)>) = journal::read_lines(&path)?;
            known.headers.push((path, header));
            let keyed =
                records.into_iter().map(|(record, line)| ((record.id.clone(), record.mask), (record, line)));
            known.records.extend(keyed);
        }
        Ok(known)
    }

    /// Refuses parts of another run.
    pub(super) fn check(&self, settings: &SubadditivitySettings, backbone: &str) -> Result<()> {
        let header = JournalHeader::new(settings, backbone);
        for (path, found) in &self.headers {
            header.agrees(found).map_err(|problem| Error::OtherRun { path: path.clone(), problem })?;
        }
        Ok(())
    }

    /// The record of a mask, and the line it was read from.
    pub(super) fn find(&self, id: &str, mask: u32) -> Option<&(Record, String)> {
        self.records.get(&(id.to_owned(), mask))
    }
}

/// The records of a run.
pub(super) struct Journal(journal::Journal<Record>);

impl Journal {
    /// Opens the folder's records, or begins them.
    pub(super) fn open(folder: &Path, settings: &SubadditivitySettings, backbone: &str) -> Result<Self> {
        let header = JournalHeader::new(settings, backbone);
        Ok(Self(journal::Journal::open(&folder.join(FILE), &header, |found| header.agrees(found))?))
    }

    /// Number of records.
    pub(super) fn len(&self) -> usize {
        self.0.records().len()
    }

    /// All records.
    pub(super) fn records(&self) -> &[Record] {
        self.0.records()
    }

    /// Refuses to go on with other data.
    pub(super) fn check(&self, number: usize, id: &str, mask: u32) -> Result<()> {
        let Record { id: found, mask: index, .. } = &self.records()[number];
        if found == id && *index == mask {
            return Ok(());
        }
        let problem =
            format!("its record {number} is mask {index} of {found:?}, this data has mask {mask} of {id:?}");
        Err(Error::OtherRun { path: self.0.path().to_path_buf(), problem })
    }

    /// Adds a record as a part has written it.
    pub(super) fn append_as_written(&mut self, (record, line): &(Record, String)) -> Result<()> {
        self.0.append_as_written(record.clone(), line)
    }

    /// Adds records.
    pub(super) fn append(&mut self, records: Vec<Record>) -> Result<()> {
        self.0.append(records)
    }

    /// Makes sure that everything is on the disk.
    pub(super) fn sync(&self) -> Result<()> {
        self.0.sync()
    }
}

fn describe(header: &JournalHeader) -> String {
    let SubadditivitySettings { seed, masks_per_response, largest_set } = header.settings;
    format!(
        "backbone {}, seed {seed}, {} and sets up to {largest_set}",
        header.backbone,
        counted(masks_per_response as usize, "mask")
    )
}
