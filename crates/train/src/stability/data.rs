//! Labelled positions of caches as rows of numbers: hidden row, then features, computed as the decoder computes them.

use demask_decode::dependency::{Feature, Predictor, features};
use demask_model::{HiddenRow, Rows};
use half::f16;

use crate::error::{Error, Result};
use crate::fit::held_out;
use crate::tv_cache::{CHANGES, Cache, Columns, Example, UNLABELLED};

/// Labelled positions. Hidden rows are kept in half precision, as caches store them.
#[derive(Debug, Default)]
pub(super) struct Positions {
    hidden: Vec<f16>,
    features: Vec<f32>,
    /// Whether the token changes.
    pub(super) changes: Vec<bool>,
    width: usize,
    count: usize,
}

impl Positions {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.changes.len()
    }

    /// Share of those that change.
    pub(super) fn rate(&self) -> f64 {
        self.changes.iter().filter(|&&change| change).count() as f64 / self.len().max(1) as f64
    }

    /// Numbers of a row.
    pub(super) fn inputs(&self) -> usize {
        self.width + self.count
    }

    /// Appends row number `index`.
    pub(super) fn extend(&self, index: usize, out: &mut Vec<f32>) {
        let hidden = &self.hidden[index * self.width..(index + 1) * self.width];
        out.extend(hidden.iter().map(|value| value.to_f32()));
        out.extend_from_slice(&self.features[index * self.count..(index + 1) * self.count]);
    }

    fn push(&mut self, hidden: &[f32], features: &[f32], change: bool) {
        self.hidden.extend(hidden.iter().map(|&value| f16::from_f32(value)));
        self.features.extend_from_slice(features);
        self.changes.push(change);
    }
}

/// Both sides of the caches' labels.
#[derive(Debug, Default)]
pub(super) struct Labelled {
    pub(super) training: Positions,
    pub(super) held: Positions,
}

/// Reads the labels of caches; a response is held out by its id, as for the dependency head.
pub(super) fn read(
    caches: &[Cache],
    row: HiddenRow,
    predictor: Option<&Predictor>,
    wanted: &[Feature],
    share: f64,
) -> Result<Labelled> {
    let width = caches.first().map_or(0, |cache| cache.header().d);
    let empty = || Positions { width, count: wanted.len(), ..Positions::default() };
    let mut labelled = Labelled { training: empty(), held: empty() };
    for cache in caches {
        let gamma = check(cache, row)?;
        let columns = Columns {
            hidden_i: row == HiddenRow::I,
            hidden_i_minus_1: row == HiddenRow::IMinusOne,
            labels: true,
            ..Columns::default()
        };
        for file in 0..cache.manifest().files.len() {
            // Another draw of the same mask has the same labels.
            for example in cache.read(file, columns)?.iter().filter(|example| example.draw == 0) {
                let side = match held_out(&example.id, share) {
                    true => &mut labelled.held,
                    false => &mut labelled.training,
                };
                add(side, example, row, predictor, wanted, gamma)?;
            }
        }
    }
    for (side, name) in [(&labelled.training, "train on"), (&labelled.held, "validate on")] {
        if side.len() == 0 {
            let value = format!("{share} (no labelled position is left to {name})");
            let allowed = "such that both sides have some; or make a larger cache";
            return Err(Error::Setting { name: "the share of held-out responses", value, allowed });
        }
    }
    Ok(labelled)
}

fn check(cache: &Cache, row: HiddenRow) -> Result<f32> {
    let settings = &cache.header().settings;
    let refuse = |name, value: String, allowed| Err(Error::Setting { name, value, allowed });
    match settings.stability {
        None => refuse("the cache", "without stability labels".into(), "generated with them"),
        Some(_) if !settings.hidden.has(row) => {
            refuse("the cache", format!("without hidden rows {row}"), "generated with them")
        }
        Some(labelling) => Ok(labelling.gamma),
    }
}

fn add(
    side: &mut Positions,
    example: &Example,
    row: HiddenRow,
    predictor: Option<&Predictor>,
    wanted: &[Feature],
    gamma: f32,
) -> Result<()> {
    if example.labelled() == 0 {
        return Ok(());
    }
    let stored = match row {
        HiddenRow::I => &example.hidden_i,
        HiddenRow::IMinusOne => &example.hidden_i_minus_1,
    };
    let data = stored.as_ref().map(|rows| rows.to_f32()).unwrap_or_default();
    let hidden = Rows { data, width: side.width };
    let opinions = example.opinions();
    let dependency = predictor.map(|predictor| predictor.predict(&hidden, &opinions)).transpose()?;
    let table = features(wanted, &opinions, dependency.as_ref(), gamma);
    for (i, &change) in example.changes.iter().enumerate().filter(|(_, change)| **change != UNLABELLED) {
        side.push(hidden.row(i), table.row(i), change == CHANGES);
    }
    Ok(())
}
