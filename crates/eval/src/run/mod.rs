//! The one evaluation runner: strategies × suites on a backbone, one record per item.
//!
//! `eval`, `lab`, `sweep` and the scripts of the paper's tables are presets of it. Items are decoded in continuous
//! batches: canvases of any lengths up to a budget of tokens, a finished one makes room for the next.
//!
//! Invariant: a record, its seconds apart, is a function of (seed, strategy, suite, item), whatever the batch, the
//! shard or the interruptions; records of one cell (strategy × suite) are written in the order of its items.

pub mod audit;
mod batch;
pub mod compare;
pub mod grid;
pub mod journal;
pub mod names;
pub mod pick;
mod record;
pub mod suite;
pub mod sweep;

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use demask_decode::StrategySpec;
use demask_engine::{Decoding, Model, Shard};
use demask_model::files::Lock;

use crate::error::{Error, Result};
use batch::Cell;
use journal::Journal;
use suite::Suite;

pub use batch::stream;
pub use record::{RunHeader, Sample, Spent, predictor_fingerprint};

/// File of the records inside a run's folder.
pub const RECORDS: &str = "records.jsonl";
/// Folder of the traces inside a run's folder.
pub const TRACES: &str = "traces";

/// What is done besides the suites and strategies.
#[derive(Debug, Clone)]
pub struct Plan {
    /// How canvases are decoded; strategy, length and stream are each item's own.
    pub decoding: Decoding,
    /// Tokens of all canvases in a batch together; one canvas is always decoded.
    pub token_budget: usize,
    /// Which items.
    pub shard: Shard,
    /// Also write a trace file per item, with dependency matrices.
    pub traces: bool,
}

/// How far a run is.
#[derive(Debug, Clone, Copy)]
pub struct RunProgress<'a> {
    /// The strategy at work.
    pub strategy: &'a StrategySpec,
    /// The suite at work.
    pub suite: &'a str,
    /// Records of this cell, earlier runs included.
    pub done: usize,
    /// Items of this cell.
    pub items: usize,
    /// Of `done`, how many are right.
    pub right: usize,
    /// Records of all cells.
    pub total_done: usize,
    /// Items of all cells.
    pub total: usize,
    /// The cell has just been finished.
    pub finished: bool,
}

/// The records of a run's folder, open for more.
pub struct Records {
    folder: PathBuf,
    journal: Journal<Sample>,
    known: HashMap<(String, String, usize), usize>,
}

impl Records {
    /// Opens or begins the records of a folder; those of another model or other settings are refused.
    pub fn open(folder: &Path, header: &RunHeader) -> Result<Self> {
        let journal = Journal::open(&folder.join(RECORDS), header, |found| header.agrees(found))?;
        let mut records = Self { folder: folder.to_path_buf(), journal, known: HashMap::new() };
        (0..records.samples().len()).for_each(|number| records.note(number));
        Ok(records)
    }

    /// Reads a folder's records without opening them for more.
    pub fn read(folder: &Path) -> Result<(RunHeader, Vec<Sample>)> {
        journal::read(&folder.join(RECORDS))
    }

    /// All records.
    pub fn samples(&self) -> &[Sample] {
        self.journal.records()
    }

    /// The record of an item.
    pub fn find(&self, strategy: &StrategySpec, suite: &str, index: usize) -> Option<&Sample> {
        let number = self.known.get(&(strategy.to_string(), suite.to_owned(), index))?;
        Some(&self.samples()[*number])
    }

    fn note(&mut self, number: usize) {
        let sample = &self.journal.records()[number];
        self.known.insert((sample.strategy.to_string(), sample.task.clone(), sample.index), number);
    }

    fn append(&mut self, samples: Vec<Sample>) -> Result<()> {
        let first = self.samples().len();
        self.journal.append(samples)?;
        (first..self.samples().len()).for_each(|number| self.note(number));
        Ok(())
    }
}

/// Decodes and judges every item of every cell that has no record yet. `watch` may end the run early (then it returns
/// `Break`); the same call goes on later.
pub fn run(
    model: &Model,
    suites: &[Box<dyn Suite>],
    strategies: &[StrategySpec],
    plan: &Plan,
    records: &mut Records,
    watch: &mut dyn FnMut(RunProgress<'_>) -> ControlFlow<()>,
) -> Result<ControlFlow<()>> {
    let of_shard = |suite: &dyn Suite| (0..suite.len()).filter(|&i| plan.shard.has(i)).collect::<Vec<_>>();
    let total = strategies.len() * suites.iter().map(|s| of_shard(s.as_ref()).len()).sum::<usize>();
    let mut before = 0;
    for strategy in strategies {
        for suite in suites {
            let items = of_shard(suite.as_ref());
            let cell = Cell { model, suite: suite.as_ref(), strategy, plan };
            let mut tally = Tally::default();
            let mut missing = Vec::new();
            for &index in &items {
                match records.find(strategy, suite.name(), index) {
                    Some(sample) => tally.add(check(sample, suite.as_ref(), model, records)?),
                    None => missing.push(index),
                }
            }
            let progress = |tally: Tally| RunProgress {
                strategy,
                suite: suite.name(),
                done: tally.done,
                items: items.len(),
                right: tally.right,
                total_done: before + tally.done,
                total,
                finished: tally.done == items.len(),
            };
            let resumed = missing.is_empty() && !items.is_empty();
            if resumed && watch(progress(tally)).is_break() {
                return Ok(ControlFlow::Break(()));
            }
            let flow = cell.decode(&missing, records, &mut |sample| {
                tally.add(sample);
                watch(progress(tally))
            })?;
            if flow.is_break() {
                return Ok(flow);
            }
            before += items.len();
        }
    }
    records.journal.sync()?;
    Ok(ControlFlow::Continue(()))
}

#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    done: usize,
    right: usize,
}

impl Tally {
    fn add(&mut self, sample: &Sample) {
        self.done += 1;
        self.right += usize::from(sample.correct);
    }
}

/// Refuses to go on with other items.
fn check<'a>(sample: &'a Sample, suite: &dyn Suite, model: &Model, records: &Records) -> Result<&'a Sample> {
    let item = suite.item(sample.index, model.text())?;
    if sample.version == suite.version()
        && sample.protocol == suite.protocol()
        && sample.id == item.id
        && sample.prompt == item.prompt
        && sample.canvas == item.max_new_tokens
    {
        return Ok(sample);
    }
    let problem = format!(
        "item {} of {} was another one, or was asked differently ({} then, {} now; canvas {} then, {} now)",
        sample.index,
        suite.name(),
        spelled(&(sample.version, sample.protocol.clone())),
        spelled(&(suite.version(), suite.protocol())),
        sample.canvas,
        item.max_new_tokens
    );
    Err(Error::OtherRun { path: records.folder.join(RECORDS), problem })
}

/// A version and a protocol in words.
fn spelled((version, protocol): &(u32, Option<String>)) -> String {
    format!("{}version {version}", protocol.as_ref().map_or(String::new(), |p| format!("{p} ")))
}

/// Puts the records of shards together, as one run writes them: strategies and suites in the order they were first
/// met, items by number. A shard is its folder or the file of its records. Records that appear twice must agree; lines
/// stay as they were written.
pub fn merge(shards: &[PathBuf], out: &Path) -> Result<usize> {
    let Some(first) = shards.first() else { return Err(Error::Nothing("no folder to merge".into())) };
    let file_of = |shard: &Path| if shard.is_file() { shard.to_owned() } else { shard.join(RECORDS) };
    let lines_of = |shard: &Path| journal::read_lines::<RunHeader, Sample>(&file_of(shard));
    let (header, mut samples) = lines_of(first)?;
    for shard in &shards[1..] {
        let (other, more) = lines_of(shard)?;
        header.agrees(&other).map_err(|problem| Error::OtherRun { path: file_of(shard), problem })?;
        samples.extend(more);
    }
    let mut order: HashMap<String, usize> = HashMap::new();
    for (sample, _) in &samples {
        for name in [sample.strategy.to_string(), format!("task {}", sample.task)] {
            let next = order.len();
            order.entry(name).or_insert(next);
        }
    }
    samples
        .sort_by_key(|(s, _)| (order[&s.strategy.to_string()], order[&format!("task {}", s.task)], s.index));
    let rules = |s: &Sample| (s.version, s.protocol.clone());
    let mut rules_of: HashMap<&str, (u32, Option<String>)> = HashMap::new();
    for (sample, _) in &samples {
        let known = rules_of.entry(&sample.task).or_insert_with(|| rules(sample));
        if *known != rules(sample) {
            return Err(Error::Data(format!(
                "the parts ask {} by different versions or protocols, {} and {}",
                sample.task,
                spelled(known),
                spelled(&rules(sample))
            )));
        }
    }
    let same = |a: &Sample, b: &Sample| {
        (a.index, &a.task, &a.strategy, &a.response, a.version)
            == (b.index, &b.task, &b.strategy, &b.response, b.version)
    };
    samples.dedup_by(|(a, _), (b, _)| same(a, b));
    let key = |(s, _): &(Sample, String)| (s.index, s.task.clone(), s.strategy.to_string());
    if let Some([(a, _), _]) = samples.windows(2).find(|w| key(&w[0]) == key(&w[1])) {
        return Err(Error::Data(format!(
            "item {} of {} with {} appears twice with different responses",
            a.index, a.task, a.strategy
        )));
    }
    let path = out.join(RECORDS);
    if path.exists() {
        return Err(Error::OtherRun { path, problem: "merging writes a new file".into() });
    }
    let _lock = Lock::take(out)?;
    record::write_all(&path, &header, &samples)?;
    Ok(samples.len())
}
