//! The sub-additivity assumption on a real backbone (section 5.4): revealing a set changes a position
//! by no more than revealing its members one at a time, summed.
//!
//! Per response a few random masks; per mask a random set `S` of up to six of its positions; tokens
//! `y_S` from the model; `|S| + 2` forward passes; at every other masked position
//! `LHS = TV(P, P | y_S)`, `RHS = Σ_j TV(P, P | y_j)` and the slack `RHS − LHS`.
//!
//! Every mask is a line of `records.jsonl`, in the order of the data, so a run that was killed goes on
//! where it stopped. Invariant: a line is a function of (seed, example, mask), whatever the batch.

mod figure;
mod journal;
mod measure;
mod report;

use std::ops::ControlFlow;
use std::path::Path;

use demask_model::Backbone;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::theory::example::Example;
use journal::Journal;
use measure::{Probed, gather, measure};

pub use journal::{Known, Record};
pub use report::{Report, SizeReport, TOLERANCE};

/// How the assumption is tested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubadditivitySettings {
    /// Seed of masks, sets and tokens.
    pub seed: u64,
    /// Masks of each response.
    pub masks_per_response: u32,
    /// Largest set; its size is drawn uniformly from 1 to this, or to all but one of the masks.
    pub largest_set: usize,
}

impl Default for SubadditivitySettings {
    fn default() -> Self {
        Self { seed: 0, masks_per_response: 5, largest_set: 6 }
    }
}

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SubadditivityProgress {
    /// Masks measured by earlier runs.
    pub resumed: usize,
    /// Masks measured, earlier runs included.
    pub masks: usize,
    /// Forward passes of this run.
    pub forwards: usize,
    /// Responses left out because they are shorter than two tokens or longer than the context.
    pub skipped: usize,
}

/// Tests the assumption on every example and writes records, tables and the figure into `folder`;
/// goes on where an earlier run stopped. What `known` parts measured is taken over. `watch` may end it early, with what there is until then.
pub fn run(
    backbone: &dyn Backbone,
    examples: impl IntoIterator<Item = Result<Example>>,
    settings: &SubadditivitySettings,
    (token_budget, known): (usize, &Known),
    folder: &Path,
    watch: &mut dyn FnMut(SubadditivityProgress) -> ControlFlow<()>,
) -> Result<Report> {
    let identity = format!("{} {}", backbone.fingerprint(), backbone.precision());
    known.check(settings, &identity)?;
    let mut journal = Journal::open(folder, settings, &identity)?;
    let mut progress = SubadditivityProgress {
        resumed: journal.len(),
        masks: journal.len(),
        ..SubadditivityProgress::default()
    };
    let mut waiting: Vec<Probed> = Vec::new();
    let mut number = 0;
    'examples: for example in examples {
        let example = example?;
        let length = example.prompt.len() + example.response.len();
        if example.response.len() < 2 || length > backbone.spec().max_positions {
            progress.skipped += 1;
            continue;
        }
        for mask in 0..settings.masks_per_response {
            if number < journal.len() {
                journal.check(number, &example.id, mask)?;
            } else if let Some(record) = known.find(&example.id, mask) {
                // Records stand in the order of the data.
                let before = std::mem::take(&mut waiting);
                if !before.is_empty() {
                    finish(backbone, &before, token_budget, &mut journal, &mut progress)?;
                }
                journal.append_as_written(record)?;
                progress.masks += 1;
            } else {
                waiting.push(Probed::draw(&example, mask, settings, backbone.spec().ids.mask));
            }
            number += 1;
        }
        while gather(&waiting, backbone.spec().vocab, token_budget) < waiting.len() {
            let count = gather(&waiting, backbone.spec().vocab, token_budget);
            let group: Vec<Probed> = waiting.drain(..count).collect();
            finish(backbone, &group, token_budget, &mut journal, &mut progress)?;
            if watch(progress).is_break() {
                waiting.clear();
                break 'examples;
            }
        }
    }
    if !waiting.is_empty() {
        finish(backbone, &waiting, token_budget, &mut journal, &mut progress)?;
        let _ = watch(progress);
    }
    journal.sync()?;
    if journal.len() == 0 {
        return Err(Error::Nothing("no response of two tokens or more that fits the model's context".into()));
    }
    let report = Report::new(journal.records());
    report.write(folder, journal.records())?;
    Ok(report)
}

fn finish(
    backbone: &dyn Backbone,
    items: &[Probed],
    token_budget: usize,
    journal: &mut Journal,
    progress: &mut SubadditivityProgress,
) -> Result<()> {
    let (records, forwards) = measure(backbone, items, token_budget)?;
    progress.forwards += forwards;
    progress.masks += records.len();
    journal.append(records)
}

#[cfg(test)]
mod tests;
