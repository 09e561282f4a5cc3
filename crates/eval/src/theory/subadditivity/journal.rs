//! What was measured, one JSON line per mask, in a [`crate::run::journal`].

use std::path::Path;

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

/// The records of a run.
pub(super) struct Journal(journal::Journal<Record>);

impl Journal {
    /// Opens the folder's records, or begins them.
    pub(super) fn open(folder: &Path, settings: &SubadditivitySettings, backbone: &str) -> Result<Self> {
        let header =
            JournalHeader { demask_sub_additivity: 1, backbone: backbone.into(), settings: settings.clone() };
        let same = |found: &JournalHeader| {
            if *found == header {
                return Ok(());
            }
            Err(format!("it has {}, this run has {}", describe(found), describe(&header)))
        };
        Ok(Self(journal::Journal::open(&folder.join(FILE), &header, same)?))
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
