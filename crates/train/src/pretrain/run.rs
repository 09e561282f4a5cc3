//! The training loop: batch, gradient, update; save, validate and export in between.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use demask_model::checkpoint::Store;
use demask_model::files::Lock;
use demask_model::{Spec, Transformer};

use super::batch::{Batches, ExampleSource};
use super::config::{Config, Objective, Stage};
use super::curve::{Curve, Point, Score};
use super::export::export;
use super::layout::Layout;
use super::loss::Loss;
use super::muon::Matrices;
use super::state::State;
use super::step::{self, Gradient};
use super::weights;
use crate::compute::Compute;
use crate::error::{Error, Result};
use crate::optimizer::{self, Moments};

/// Who hears of a run's progress and judges its weights.
pub trait Watcher {
    /// After every update. Breaking saves the state and stops.
    fn on_step(&mut self, progress: &PretrainProgress) -> ControlFlow<()>;

    /// Scores of the weights after `step` updates; the error is a sentence.
    fn validate(&mut self, step: u64, model: &Transformer) -> std::result::Result<Vec<Score>, String>;

    /// After a validation, with its scores; `exported` if they were the best so far.
    fn on_validation(&mut self, _step: u64, _scores: &[Score], _exported: bool) {}

    /// Before the first step, with the number of updates already done.
    fn on_start(&mut self, _step: u64, _parameters: usize) {}
}

/// The state of a run after an update.
#[derive(Debug, Clone, PartialEq)]
pub struct PretrainProgress {
    /// Updates done.
    pub step: u64,
    /// Updates of the whole run.
    pub steps: u64,
    /// What is trained now.
    pub objective: Objective,
    /// Loss of this step.
    pub loss: f64,
    /// Share of this step's predictions whose most probable token was right.
    pub right: f64,
    /// Learning rate.
    pub rate: f64,
    /// Tokens per second since this process began.
    pub tokens_per_second: f64,
    /// Time left at the speed since this process began.
    pub left: Duration,
    /// Set every `report.log_steps` updates: the mean numbers since the last time.
    pub logged: Option<Point>,
}

/// A run to be started or continued.
pub struct Run<'a> {
    /// What to train.
    pub config: &'a Config,
    /// The backbone, with the tokenizer's vocabulary and ids.
    pub spec: &'a Spec,
    /// Where states, curves and the export go.
    pub folder: &'a Path,
    /// The tokenizer's folder, copied into the export.
    pub tokenizer: Option<&'a Path>,
    /// A checkpoint folder to start from instead of random weights.
    pub start: Option<&'a Path>,
    /// Where to compute.
    pub compute: Compute,
}

/// What a run leaves behind.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Updates done.
    pub step: u64,
    /// The weights (not their average).
    pub parameters: Vec<f32>,
}

/// Numbers summed since the last logged point.
#[derive(Default)]
struct Tally {
    loss: Loss,
    norm: f64,
    steps: u64,
}

impl Run<'_> {
    /// Trains to the end, or until the watcher breaks. Continues by itself from the newest state in the folder.
    pub fn train(&self, source: &mut dyn ExampleSource, watcher: &mut dyn Watcher) -> Result<Outcome> {
        let layout = Layout::new(self.spec)?;
        let _lock = Lock::take(self.folder)?;
        let (states, start) = (self.folder.join("state"), self.begun_from()?);
        let mut state = match State::newest(&states, |step| self.identity(step, &start), layout.len())? {
            Some(state) => state,
            None => State::new(Moments::new(self.first_weights(&layout)?, &self.config.optimizer)),
        };
        let mut curve = Curve::read(self.folder, state.step);
        let mut gradient = step::gradient(self.spec, &layout, &self.compute, self.config.precision)?;
        watcher.on_start(state.step, layout.len());
        let (begin, first, before) = (Instant::now(), state.counts(), state.seconds);
        let (mut saved, mut tally, mut sum) = (Instant::now(), Tally::default(), vec![0.0; layout.len()]);
        while let Some((stage, local)) = self.config.stage_at(state.step) {
            let rate = stage.rate.rate(local, stage.steps);
            let (loss, norm) =
                self.update(&mut state, &layout, gradient.as_mut(), &mut sum, source, stage, rate)?;
            state.seconds = before + begin.elapsed().as_secs_f64();
            tally.add(loss, norm);
            let logged = self.logged(&state, stage.objective, rate, &mut tally);
            curve.points.extend(logged.clone());
            let stop = watcher.on_step(&progress(
                self.config,
                &state,
                first,
                begin,
                stage.objective,
                loss,
                rate,
                logged,
            ));
            let stop = stop.is_break();
            if stage.objective == Objective::Autoregressive && local + 1 == stage.steps {
                // A decoder with a causal assistant needs these weights, which the next stage changes.
                self.export("causal", &state, &layout)?;
            }
            let due = self.config.report.validate_steps;
            if (due > 0 && state.step.is_multiple_of(due) && !stop) || state.step == self.config.steps() {
                self.validate(&mut state, &layout, &mut curve, watcher)?;
            }
            let late = saved.elapsed() >= Duration::from_secs(self.config.report.save_seconds);
            if late || stop || state.step == self.config.steps() {
                // The curve first: points beyond a state are dropped on resume, missing ones could not be made up.
                curve.write(self.folder)?;
                state.save(&states, &self.identity(state.step, &start))?;
                saved = Instant::now();
            }
            if stop {
                break;
            }
        }
        curve.picture(self.folder)?;
        Ok(Outcome { step: state.step, parameters: state.moments.parameters })
    }

    #[expect(clippy::too_many_arguments, reason = "the loop's variables, borrowed for one update")]
    fn update(
        &self,
        state: &mut State,
        layout: &Layout,
        gradient: &mut dyn Gradient,
        sum: &mut [f32],
        source: &mut dyn ExampleSource,
        stage: &Stage,
        rate: f64,
    ) -> Result<(Loss, f64)> {
        let batches = Batches::new(self.spec, &self.config.data, self.config.seed, gradient.part_tokens());
        let batch = batches.at(source, state.cursor, stage)?;
        sum.fill(0.0);
        let loss = gradient.add_all(&state.moments.parameters, &batch.parts, sum)?;
        let norm = optimizer::norm(sum);
        if let Some(muon) = &self.config.muon {
            let momentum = state.momentum.get_or_insert_with(|| vec![0.0; layout.len()]);
            let parameters = &mut state.moments.parameters;
            Matrices::new(layout).update(muon, momentum, parameters, sum, rate, self.config.precision);
        }
        state.moments.update(&self.config.optimizer, sum, &layout.matrices(), rate);
        if !norm.is_finite() {
            return Err(Error::Diverged { step: state.step + 1 });
        }
        state.step += 1;
        state.cursor += batch.examples;
        state.tokens += batch.tokens as u64;
        Ok((loss, norm))
    }

    fn logged(&self, state: &State, objective: Objective, rate: f64, tally: &mut Tally) -> Option<Point> {
        let every = self.config.report.log_steps.max(1);
        if !state.step.is_multiple_of(every) && state.step != self.config.steps() {
            return None;
        }
        let Tally { loss, norm, steps } = std::mem::take(tally);
        Some(Point {
            step: state.step,
            objective,
            loss: loss.value / steps as f64,
            right: loss.right as f64 / loss.count.max(1) as f64,
            rate,
            norm: norm / steps as f64,
            tokens: state.tokens,
            seconds: state.seconds,
        })
    }

    /// Scores the averaged weights, and exports them if they are the best so far.
    fn validate(
        &self,
        state: &mut State,
        layout: &Layout,
        curve: &mut Curve,
        watcher: &mut dyn Watcher,
    ) -> Result<()> {
        let parameters = state.moments.averaged();
        let model = weights::transformer(self.spec, layout, parameters, &self.compute)?;
        let failed = |problem| Error::Validation { step: state.step, problem };
        let scores = watcher.validate(state.step, &model).map_err(failed)?;
        let mean = scores.iter().map(|score| score.value).sum::<f64>() / scores.len().max(1) as f64;
        let best = state.best.is_none_or(|best| mean >= best);
        if best {
            self.export("export", state, layout)?;
            state.best = Some(mean);
        }
        watcher.on_validation(state.step, &scores, best);
        curve.scores.push((state.step, scores));
        curve.picture(self.folder)
    }

    /// Writes the averaged weights as a checkpoint folder.
    fn export(&self, name: &str, state: &State, layout: &Layout) -> Result<()> {
        let (parameters, dtype) = (state.moments.averaged(), self.config.report.dtype.dtype());
        export(&self.folder.join(name), self.spec, layout, parameters, dtype, self.tokenizer)
    }

    fn first_weights(&self, layout: &Layout) -> Result<Vec<f32>> {
        let Some(start) = self.start else { return Ok(layout.initial(self.config.seed)) };
        let store = Store::open(start)?;
        let mut parameters = Vec::with_capacity(layout.len());
        for slot in layout.slots() {
            parameters.extend(store.tensor_shaped(&slot.name, &slot.shape)?.to_f32());
        }
        Ok(parameters)
    }

    /// Where the weights began. A model that learns from its own answers asks the start for them again when it goes on, so
    /// there it is the weights themselves; others need them for the first update only.
    fn begun_from(&self) -> Result<String> {
        let Some(start) = self.start else { return Ok(String::new()) };
        let own = self.config.stage.iter().any(|stage| stage.objective == Objective::Certainty);
        let weights =
            if own { format!(" {}", Store::open(start)?.fingerprint(self.spec)) } else { String::new() };
        Ok(format!("{}{weights}", start.display()))
    }

    /// What a state saved after `step` updates must have in common with this run.
    fn identity(&self, step: u64, start: &str) -> String {
        let spec = self.spec;
        format!("{} vocabulary {} ids {:?} start {start}", self.config.identity(step), spec.vocab, spec.ids)
    }
}

impl Tally {
    fn add(&mut self, loss: Loss, norm: f64) {
        self.loss += loss;
        self.norm += norm;
        self.steps += 1;
    }
}

#[expect(clippy::too_many_arguments, reason = "the loop's variables, borrowed for one report")]
fn progress(
    config: &Config,
    state: &State,
    first: (u64, u64),
    begin: Instant,
    objective: Objective,
    loss: Loss,
    rate: f64,
    logged: Option<Point>,
) -> PretrainProgress {
    let seconds = begin.elapsed().as_secs_f64().max(1e-9);
    let done = (state.step - first.0).max(1) as f64;
    let left = seconds / done * (config.steps() - state.step) as f64;
    PretrainProgress {
        step: state.step,
        steps: config.steps(),
        objective,
        loss: loss.value,
        right: loss.right as f64 / loss.count.max(1) as f64,
        rate,
        tokens_per_second: (state.tokens - first.1) as f64 / seconds,
        left: Duration::from_secs_f64(left.min(1e9)),
        logged,
    }
}

impl State {
    fn counts(&self) -> (u64, u64) {
        (self.step, self.tokens)
    }
}
