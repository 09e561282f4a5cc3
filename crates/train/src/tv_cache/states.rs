//! States that a decoder visits: the prompts of the responses are decoded, and some of the canvases on the way, chosen
//! deterministically, are measured like random masks, with what was so in the step before.
//!
//! Invariant: what is chosen is a function of (seed, response id, decoder and its heads) alone; the batch changes nothing.

use std::sync::{Arc, Mutex, PoisonError};

use demask_decode::marginals::LogitRows;
use demask_decode::registry::Context;
use demask_decode::rng::Purpose;
use demask_decode::rule::{Before, Last};
use demask_decode::strategy::{Needs, Selection, Step, Strategy};
use demask_decode::{Canvas, Decoder, Job, Options, Sampling, StrategySpec, Suppression};
use demask_model::Backbone;
use serde::{Deserialize, Serialize};

use super::mask::randomness;
use super::settings::TvCacheSettings;
use super::source::Response;
use crate::error::{Error, Result};

/// Slot of random numbers that belongs to no position.
const VISIT: u64 = u64::MAX - 4;

/// Where the states of a cache come from.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum States {
    /// Random masks of the responses (the paper).
    #[default]
    Random,
    /// Canvases that a decoder visits.
    Decoder(Visits),
}

impl States {
    pub(super) fn is_random(&self) -> bool {
        *self == Self::Random
    }
}

/// How they are visited.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Visits {
    /// The decoder's spelling.
    pub strategy: String,
    /// Sampling temperature.
    #[serde(default)]
    pub temperature: f32,
    /// Nucleus.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f32>,
    /// Tells the heads the decoder used from others; see [`heads`].
    #[serde(default)]
    pub heads: String,
}

/// Names the trained heads of a context, for a cache's record of who visited its states.
pub fn heads(context: &Context) -> String {
    let predictor = context.predictor.as_ref().map(|predictor| predictor.fingerprint());
    let stability = context.stability.as_ref().map(|head| head.fingerprint());
    [predictor, stability].into_iter().flatten().collect::<Vec<_>>().join("+")
}

/// A canvas on the way.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Visited {
    /// The canvas with its masks.
    pub(super) canvas: Vec<u32>,
    /// The masks of the step.
    pub(super) masked: Vec<usize>,
    /// The step before, at each of them.
    pub(super) before: Vec<Option<Before>>,
}

/// The states of one response and the text the decoder finally wrote.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Journey {
    pub(super) states: Vec<Visited>,
    pub(super) text: Vec<u32>,
}

/// Decodes the prompts with canvases of these lengths and keeps some states of each.
pub(super) fn visit(
    backbone: &dyn Backbone,
    context: &Context,
    visits: &Visits,
    settings: &TvCacheSettings,
    prompts: &[(&Response, usize)],
) -> Result<Vec<Journey>> {
    let strategy: StrategySpec = context.registry.parse(&visits.strategy)?;
    let spec = backbone.spec();
    let (mut jobs, mut logs) = (Vec::new(), Vec::new());
    for (response, length) in prompts {
        let canvas = Canvas::generate(&response.prompt, *length, &spec.ids)?;
        let log = Arc::new(Mutex::new(Vec::new()));
        let watched = Watched { inner: strategy.build(context)?, last: Last::default(), log: log.clone() };
        if watched.needs().assistant {
            let (name, allowed) = ("the decoder of the states", "one that needs no second model");
            return Err(Error::Setting { name, value: visits.strategy.clone(), allowed });
        }
        let sampling =
            Sampling { temperature: visits.temperature, top_p: visits.top_p, ..Sampling::default() };
        let suppression = Suppression { ids: vec![spec.ids.mask], ..Suppression::default() };
        let stream = randomness(settings, &response.id).bits(Purpose::Position, 0, VISIT);
        let options = Options { sampling, suppression, seed: settings.seed, stream, ..Options::default() };
        logs.push(log);
        jobs.push(Job::with_strategy(canvas, &visits.strategy, Box::new(watched), options, Box::new(()))?);
    }
    Decoder::new(backbone).run(&mut jobs)?;
    let journey = |((job, log), (response, _)): ((&Job, &Log), &(&Response, usize))| {
        let all = std::mem::take(&mut *log.lock().unwrap_or_else(PoisonError::into_inner));
        Journey { states: some(all, settings, &response.id), text: job.canvas().tokens().to_vec() }
    };
    Ok(jobs.iter().zip(&logs).zip(prompts).map(journey).collect())
}

/// As many as there are masks per response, of those with a pair of positions, in the order they were visited.
fn some(all: Vec<Visited>, settings: &TvCacheSettings, id: &str) -> Vec<Visited> {
    let rng = randomness(settings, id);
    let mut usable: Vec<(usize, Visited)> =
        all.into_iter().enumerate().filter(|(_, state)| state.masked.len() >= 2).collect();
    usable.sort_by_key(|(step, _)| rng.bits(Purpose::Position, 1 + *step as u64, VISIT));
    usable.truncate(settings.masks_per_response as usize);
    usable.sort_by_key(|(step, _)| *step);
    usable.into_iter().map(|(_, state)| state).collect()
}

type Log = Arc<Mutex<Vec<Visited>>>;

/// A strategy whose steps are written down.
struct Watched {
    inner: Box<dyn Strategy>,
    last: Last,
    log: Log,
}

impl Strategy for Watched {
    fn needs(&self) -> Needs {
        self.inner.needs()
    }

    fn revises(&self) -> bool {
        self.inner.revises()
    }

    fn on_logits(&mut self, step: usize, rows: LogitRows<'_>) {
        self.inner.on_logits(step, rows);
    }

    fn on_verify(&mut self, canvas: &Canvas, rows: LogitRows<'_>) {
        self.inner.on_verify(canvas, rows);
    }

    fn check(&self, options: &Options) -> demask_decode::Result<()> {
        self.inner.check(options)
    }

    fn select(&mut self, step: &Step<'_>) -> demask_decode::Result<Selection> {
        let before = self.last.advance(step.masked, step.marginals);
        let state = Visited { canvas: step.canvas.tokens().to_vec(), masked: step.masked.to_vec(), before };
        self.log.lock().unwrap_or_else(PoisonError::into_inner).push(state);
        self.inner.select(step)
    }
}
