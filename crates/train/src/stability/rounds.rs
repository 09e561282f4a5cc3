//! On-policy rounds: decode, label, train, decode with what was trained. Each round has responses of its own and trains on
//! the states of all rounds so far.
//!
//! Invariant: how much is done is counted in responses and states, never in time, so a run ends in the same bytes however
//! often it was stopped.

use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use demask_decode::dependency::Parts;
use demask_decode::registry::Context;
use demask_engine::Shard;
use demask_model::checkpoint::Dtype;
use demask_model::{Backbone, HiddenRow};

use super::fit::{StabilityFit, StabilityFitted, StabilitySettings};
use crate::data::Refused;
use crate::error::{Error, Result};
use crate::part::PartProgress;
use crate::tv_cache::{
    Cache, Claim, Generator, Observer, Outcome, Response, ResponseSource, States, TvCacheSettings, Visits,
    heads,
};

/// Rounds to be run or continued.
pub struct Rounds<'a> {
    /// The frozen backbone.
    pub backbone: &'a dyn Backbone,
    /// What decoders may use; its stability head is replaced by each round's.
    pub context: &'a Context,
    /// The predictor the head will lie beside, if any.
    pub parts: Option<&'a Parts>,
    /// Which hidden row stands for a position, where there is none.
    pub row: HiddenRow,
    /// The prompts; each round takes the next ones.
    pub source: &'a dyn ResponseSource,
    /// How states are measured; the limit is that of a round.
    pub cache: &'a TvCacheSettings,
    /// The decoder of the first round, which needs no head.
    pub first: &'a Visits,
    /// The decoder of the others.
    pub then: &'a Visits,
    /// How many rounds.
    pub count: usize,
    /// How the head is trained.
    pub settings: &'a StabilitySettings,
    /// Where caches, states and the predictors of the rounds go.
    pub folder: &'a Path,
    /// Tokens that go through the backbone at once.
    pub token_budget: usize,
}

/// A round that is done.
#[derive(Debug, Clone)]
pub struct Round {
    /// Its number, from 0.
    pub index: usize,
    /// The decoder whose states it added.
    pub strategy: String,
    /// Labelled positions of all rounds so far.
    pub labels: u64,
    /// The head.
    pub fitted: StabilityFitted,
    /// Its file.
    pub path: PathBuf,
}

impl Rounds<'_> {
    /// Runs all rounds; `None` if a watcher stopped it. `done` hears of each.
    pub fn run(
        &self,
        observer: &mut dyn Observer,
        watch: &mut dyn FnMut(&PartProgress) -> ControlFlow<()>,
        done: &mut dyn FnMut(&Round),
    ) -> Result<Option<Round>> {
        let each = self.cache.limit;
        if self.count == 0 || each == 0 || self.source.len() < self.count * each {
            let value = format!("{} rounds of {each} of {} responses", self.count, self.source.len());
            let allowed = "at least one of each, and responses enough for all";
            return Err(Error::Setting { name: "what the rounds need", value, allowed });
        }
        let (mut caches, mut last): (Vec<Cache>, Option<Round>) = (Vec::new(), None);
        for index in 0..self.count {
            let folder = self.folder.join(format!("round-{index}"));
            let head = last.as_ref().and_then(|round| round.fitted.parts.stability.clone());
            let context = Context { stability: head.map(Arc::new), ..self.context.clone() };
            let visits = if index == 0 { self.first } else { self.then };
            let visits = Visits { heads: heads(&context), ..visits.clone() };
            let strategy = visits.strategy.clone();
            let settings = TvCacheSettings { states: States::Decoder(visits), ..self.cache.clone() };
            let source = Share { source: self.source, rows: index * each..(index + 1) * each };
            let place = folder.join("cache");
            let generator = Generator {
                backbone: self.backbone,
                source: &source,
                settings: &settings,
                folder: &place,
                token_budget: self.token_budget,
                shard: Shard::WHOLE,
                context: Some(&context),
                claim: Claim::Lock,
            };
            if let Outcome::Stopped = generator.run(observer)? {
                return Ok(None);
            }
            caches.push(Cache::open(&place)?);
            let fit = StabilityFit {
                caches: &caches,
                parts: self.parts,
                row: self.row,
                settings: self.settings,
                folder: &folder.join("run"),
            };
            let Some(fitted) = fit.run(watch)? else { return Ok(None) };
            let path = folder.join("predictor.safetensors");
            fitted.parts.save(&path, Dtype::F32)?;
            let labels = caches.iter().map(|cache| cache.manifest().labels()).sum();
            let round = Round { index, strategy, labels, fitted, path };
            done(&round);
            last = Some(round);
        }
        Ok(last)
    }
}

/// Some rows of a source.
struct Share<'a> {
    source: &'a dyn ResponseSource,
    rows: Range<usize>,
}

impl ResponseSource for Share<'_> {
    fn len(&self) -> usize {
        self.rows.len()
    }

    fn identity(&self) -> String {
        format!("{} rows {}..{}", self.source.identity(), self.rows.start, self.rows.end)
    }

    fn read(&self, range: Range<usize>) -> Result<Vec<Result<Response, Refused>>> {
        self.source.read(self.rows.start + range.start..self.rows.start + range.end)
    }
}
