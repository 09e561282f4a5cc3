//! Examples of a cache as batches: hidden rows from the files, or from the frozen backbone where they are not stored.
//!
//! At most a window of files is in memory.

use std::collections::HashMap;

use demask_decode::dependency::{Feature, Measure, features};
use demask_model::{Backbone, HiddenRow, Query};

use super::config::Config;
use super::split::Place;
use crate::error::{Error, Result};
use crate::predictor::Batch;
use crate::tv_cache::{Cache, Columns, Example};

/// Tokens that go through the backbone at once.
const TOKEN_BUDGET: usize = 8192;

/// Reads examples of a cache for one hidden row.
pub struct Examples<'a> {
    cache: &'a Cache,
    backbone: Option<&'a dyn Backbone>,
    row: HiddenRow,
    measure: Measure,
    /// What is read besides the hidden rows.
    features: &'static [Feature],
    columns: Columns,
    window: usize,
    files: HashMap<usize, Vec<Example>>,
}

impl<'a> Examples<'a> {
    /// Holds about as many files at a time as the config says. Refuses a cache without these hidden rows if there is no backbone to make
    /// them, or if it is not the cache's.
    pub fn new(
        cache: &'a Cache,
        row: HiddenRow,
        backbone: Option<&'a dyn Backbone>,
        config: &Config,
    ) -> Result<Self> {
        let (measure, features) = (config.target, config.architecture.features());
        if !features.is_empty() && cache.header().settings.stability.is_none() {
            let allowed = "the hidden rows alone, because the cache does not store how sure the model was; generate one \
                           with stability labels";
            return Err(Error::Setting {
                name: "what the predictor reads",
                value: Feature::list(features),
                allowed,
            });
        }
        if measure == Measure::Divergence && !cache.header().settings.divergence {
            let allowed = "total variation, because the cache stores no divergences; generate one that does";
            return Err(Error::Setting { name: "the target", value: measure.name().into(), allowed });
        }
        if !cache.header().settings.measures_dependency() {
            let allowed = "stability, because the cache stores no dependencies; generate one that does";
            return Err(Error::Setting { name: "the target", value: measure.name().into(), allowed });
        }
        let stored = cache.header().settings.hidden.has(row);
        let columns = Columns {
            tokens: !stored,
            hidden_i: stored && row == HiddenRow::I,
            hidden_i_minus_1: stored && row == HiddenRow::IMinusOne,
            labels: !features.is_empty(),
            ..Columns::of(measure)
        };
        let setting = |name, value: String, allowed| Err(Error::Setting { name, value, allowed });
        match backbone.filter(|_| !stored) {
            None if !stored => setting(
                "the model",
                "not given".into(),
                "given, because the cache stores no such hidden rows",
            ),
            Some(backbone) if !backbone.answers_to(&cache.header().backbone) => {
                let value =
                    format!("{} and the cache of {}", backbone.fingerprint(), cache.header().backbone);
                setting("the model's fingerprint", value, "that of the cache")
            }
            backbone => {
                let window = config.window;
                Ok(Self { cache, backbone, row, measure, features, columns, window, files: HashMap::new() })
            }
        }
    }

    /// A batch of the examples at these places, in this order.
    pub fn batch(&mut self, places: &[Place]) -> Result<Batch> {
        for place in places {
            if self.files.contains_key(&place.file) {
                continue;
            }
            if self.files.len() >= self.window {
                // Another window has begun: what is left of the last one is in this batch.
                self.files.retain(|file, _| places.iter().any(|place| place.file == *file));
            }
            self.files.insert(place.file, self.cache.read(place.file, self.columns)?);
        }
        let examples: Vec<&Example> =
            places.iter().map(|place| &self.files[&place.file][place.row]).collect();
        self.assemble(&examples)
    }

    /// The examples at these places, which are in the order of files.
    pub fn read(&self, places: &[Place]) -> Result<Vec<Example>> {
        let mut examples = Vec::with_capacity(places.len());
        for places in places.chunk_by(|a, b| a.file == b.file) {
            let mut rows = self.cache.read(places[0].file, self.columns)?;
            examples.extend(places.iter().map(|place| std::mem::take(&mut rows[place.row])));
        }
        Ok(examples)
    }

    /// A batch of these examples.
    pub fn assemble(&self, examples: &[&Example]) -> Result<Batch> {
        let fresh = match self.backbone {
            Some(backbone) => Some(hidden(backbone, examples, self.row)?),
            None => None,
        };
        let mut batch = Batch::default();
        for (index, example) in examples.iter().enumerate() {
            let stored = match self.row {
                HiddenRow::I => &example.hidden_i,
                HiddenRow::IMinusOne => &example.hidden_i_minus_1,
            };
            let rows = match (&fresh, stored) {
                (Some(fresh), _) => fresh[index].clone(),
                (None, Some(stored)) => stored.to_f32(),
                (None, None) => Vec::new(),
            };
            let rows = self.with_features(rows, example);
            batch.push(&rows, &example.measured(self.measure), example.positions.len());
        }
        Ok(batch)
    }
}

impl Examples<'_> {
    /// Each hidden row with the features of its position after it.
    fn with_features(&self, rows: Vec<f32>, example: &Example) -> Vec<f32> {
        if self.features.is_empty() {
            return rows;
        }
        let read = features(self.features, &example.opinions(), None, 1.0);
        let d = self.cache.header().d;
        rows.chunks_exact(d)
            .zip(read.iter())
            .flat_map(|(row, read)| row.iter().chain(read))
            .copied()
            .collect()
    }
}

/// Hidden rows of the masked positions with everything of M masked.
pub(crate) fn hidden(
    backbone: &dyn Backbone,
    examples: &[&Example],
    row: HiddenRow,
) -> Result<Vec<Vec<f32>>> {
    let mask = backbone.spec().ids.mask;
    let canvas = |example: &&Example| {
        let mut tokens = example.tokens.clone();
        example.positions.iter().for_each(|&position| tokens[position] = mask);
        tokens
    };
    let canvases: Vec<Vec<u32>> = examples.iter().map(canvas).collect();
    let mut all = Vec::with_capacity(examples.len());
    let (mut start, mut tokens) = (0, 0);
    for end in 1..=examples.len() {
        tokens += canvases[end - 1].len();
        let next = canvases.get(end).map_or(usize::MAX, |canvas| tokens + canvas.len());
        if next <= TOKEN_BUDGET {
            continue;
        }
        let queries = canvases[start..end].iter().zip(&examples[start..end]);
        let mut queries: Vec<Query<'_>> = queries
            .map(|(tokens, example)| Query {
                tokens,
                hidden: Some((&example.positions, row)),
                ..Query::default()
            })
            .collect();
        all.extend(
            backbone.forward(&mut queries)?.into_iter().map(|pass| pass.hidden.unwrap_or_default().data),
        );
        (start, tokens) = (end, 0);
    }
    Ok(all)
}
