//! How much of the backbone's speed cache generation keeps: the same canvases measured, and merely run.

use std::path::Path;
use std::time::Instant;

use demask_decode::probe::{BackboneProbe, Probe, Question};
use demask_decode::rng::{Purpose, Rng};
use demask_kernels::{Meter, meter};
use demask_model::Backbone;

use super::columns::Kept;
use super::format::Writer;
use super::measure::{Masking, Measure, tasks};
use super::settings::TvCacheSettings;
use super::source::Response;
use crate::error::Result;

/// What to measure on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Workload {
    /// Tokens of a prompt.
    pub prompt: usize,
    /// Tokens of a response.
    pub response: usize,
    /// Responses per round.
    pub responses: usize,
    /// Masks per response.
    pub masks: u32,
    /// Tokens that go through the backbone at once.
    pub token_budget: usize,
    /// Rounds, each over responses of its own.
    pub rounds: usize,
}

/// Speed of both in one round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Round {
    /// Tokens that went through the backbone, in each of the two ways.
    pub tokens: u64,
    /// Seconds of forward passes and logits alone.
    pub plain_seconds: f64,
    /// Seconds of cache generation, the file included.
    pub cache_seconds: f64,
    /// Products and attention of forward passes and logits alone.
    pub plain_work: Meter,
    /// Those of cache generation.
    pub cache_work: Meter,
}

impl Round {
    /// Share of the plain speed that cache generation keeps.
    pub fn ratio(&self) -> f64 {
        self.plain_seconds / self.cache_seconds
    }
}

/// Alternates the two on random tokens; `scratch` is a folder for one file.
pub fn run(backbone: &dyn Backbone, workload: &Workload, scratch: &Path) -> Result<Vec<Round>> {
    let settings = TvCacheSettings { masks_per_response: workload.masks, ..TvCacheSettings::default() };
    let mut rounds = Vec::new();
    for round in 0..workload.rounds {
        let responses: Vec<(Response, Vec<u32>)> =
            (0..workload.responses).map(|index| response(backbone, workload, round, index)).collect();
        let tasks: Vec<Masking<'_>> =
            responses.iter().flat_map(|(r, tokens)| tasks(&settings, r, tokens, backbone.spec())).collect();
        // Which of the two goes first changes with every round, so that neither has the warmer machine.
        let plain = || meter(|| plain(backbone, workload, &tasks));
        let cache = || meter(|| cache(backbone, &settings, workload, &tasks, scratch));
        let ((plain_seconds, plain_work), (cache_seconds, cache_work)) = if round.is_multiple_of(2) {
            let first = plain();
            (first, cache())
        } else {
            let first = cache();
            (plain(), first)
        };
        let tokens = tasks.iter().map(|task| task.tokens_through_backbone() as u64).sum();
        let (plain_seconds, cache_seconds) = (plain_seconds?, cache_seconds?);
        rounds.push(Round { tokens, plain_seconds, cache_seconds, plain_work, cache_work });
    }
    Ok(rounds)
}

fn plain(backbone: &dyn Backbone, workload: &Workload, tasks: &[Masking<'_>]) -> Result<f64> {
    let start = Instant::now();
    let probe = BackboneProbe::new(backbone, workload.token_budget);
    let mut questions = Vec::new();
    for task in tasks {
        let question = Question { tokens: task.canvas(), predict: task.positions(), hidden: None };
        questions.extend(std::iter::repeat_n(question, task.passes()));
    }
    probe.ask_each(&questions, &mut |_, _| ())?;
    Ok(start.elapsed().as_secs_f64())
}

fn cache(
    backbone: &dyn Backbone,
    settings: &TvCacheSettings,
    workload: &Workload,
    tasks: &[Masking<'_>],
    scratch: &Path,
) -> Result<f64> {
    let start = Instant::now();
    let mut writer = Writer::new(&scratch.join("bench.parquet"), Kept::of(settings));
    let measure = Measure { backbone, settings, token_budget: workload.token_budget };
    measure.each(tasks, &mut |_, _, examples| {
        examples.into_iter().try_for_each(|example| writer.push(example))?;
        Ok(std::ops::ControlFlow::Continue(()))
    })?;
    writer.finish(Vec::new())?;
    Ok(start.elapsed().as_secs_f64())
}

fn response(
    backbone: &dyn Backbone,
    workload: &Workload,
    round: usize,
    index: usize,
) -> (Response, Vec<u32>) {
    let rng = Rng::new(index as u64, round as u64);
    let spec = backbone.spec();
    let token = |place: usize| {
        let token = (rng.bits(Purpose::Token, 0, place as u64) % spec.vocab as u64) as u32;
        if token == spec.ids.mask { (token + 1) % spec.vocab as u32 } else { token }
    };
    let tokens: Vec<u32> = (0..workload.prompt + workload.response).map(token).collect();
    let (prompt, answer) = tokens.split_at(workload.prompt);
    let response =
        Response { id: format!("{round}/{index}"), prompt: prompt.to_vec(), response: answer.to_vec() };
    (response, tokens)
}
