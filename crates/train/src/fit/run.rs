//! The training loop: batch, gradient, update; validate, keep the best, save in between.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use demask_decode::dependency::{Metadata, Parts};
use demask_model::files::Lock;
use demask_model::{Backbone, HiddenRow};

use super::config::Config;
use super::curve::{Curve, Point};
use super::examples::Examples;
use super::report::{Baselines, Report};
use super::split::{Place, Split};
use super::state::State;
use crate::compute::Compute;
use crate::error::{Error, Result};
use crate::optimizer::Moments;
use crate::predictor::{Computed, Model, SquaredError};
use crate::tv_cache::{Cache, Example};

/// The state is saved at least this often, besides at every validation.
const SAVE: Duration = Duration::from_secs(60);
/// Points of the curve between which training errors are averaged.
const POINTS: u64 = 400;

/// Who hears of a run's progress.
pub trait Watcher {
    /// After every update. Breaking saves the state and stops.
    fn on_step(&mut self, _progress: &FitProgress) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    /// After a validation; `best` if it has the lowest error so far.
    fn on_validation(&mut self, _step: u64, _mse: f64, _best: bool) {}

    /// Before the first update, with what is trained on.
    fn on_start(&mut self, _row: HiddenRow, _training: usize, _validation: usize, _parameters: usize) {}
}

/// Watches nothing.
impl Watcher for () {}

/// The state of a run after an update.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FitProgress {
    /// Updates done.
    pub step: u64,
    /// Updates of the whole run.
    pub steps: u64,
    /// Training error of this batch.
    pub training: f64,
    /// Learning rate.
    pub rate: f64,
    /// Examples per second since this process began.
    pub examples_per_second: f64,
    /// Time left at the speed since this process began.
    pub left: Duration,
}

/// A run to be started or continued.
pub struct Fit<'a> {
    /// What to train on.
    pub cache: &'a Cache,
    /// How.
    pub config: &'a Config,
    /// Which hidden row stands for a position.
    pub row: HiddenRow,
    /// The frozen backbone, for caches without hidden rows.
    pub backbone: Option<&'a dyn Backbone>,
    /// Where state, curve and report go.
    pub folder: &'a Path,
    /// What the cache was made of, for the predictor's metadata.
    pub trained_on: &'a str,
    /// Where updates are computed.
    pub compute: Compute,
}

/// A trained predictor.
#[derive(Debug, Clone)]
pub struct Fitted {
    /// The best weights, ready to be saved.
    pub parts: Parts,
    /// How good they are.
    pub report: Report,
}

/// The better of several by validation error; the first on a tie.
pub fn best(fitted: Vec<Fitted>) -> Option<Fitted> {
    fitted.into_iter().reduce(|a, b| if b.report.validation_mse < a.report.validation_mse { b } else { a })
}

/// What stays the same during a run.
struct Plan {
    computed: Computed,
    split: Split,
    held: Vec<Example>,
    per_epoch: u64,
    steps: u64,
    identity: String,
}

impl Fit<'_> {
    /// Trains to the end; `None` if the watcher stopped it. Continues by itself from the state in the folder.
    pub fn run(&self, watcher: &mut dyn Watcher) -> Result<Option<Fitted>> {
        self.config.check()?;
        let _lock = Lock::take(self.folder)?;
        let mut examples = Examples::new(self.cache, self.row, self.backbone, self.config)?;
        let plan = self.plan(&examples)?;
        let optimizer = self.config.optimizer();
        let model = &plan.computed.model;
        let state = State::read(self.folder, &plan.identity, model.len())?;
        let mut state =
            state.unwrap_or_else(|| State::new(Moments::new(model.initial(self.config.seed), &optimizer)));
        let mut curve = Curve::read(self.folder, state.step);
        watcher.on_start(self.row, plan.split.training.len(), plan.split.validation.len(), model.len());
        if self.train(&plan, &mut state, &mut curve, &mut examples, watcher)?.is_break() {
            return Ok(None);
        }
        self.finish(&plan, &state, &curve, &examples).map(Some)
    }

    fn plan(&self, examples: &Examples<'_>) -> Result<Plan> {
        let header = self.cache.header();
        let model = Model::new(header.d, self.config.architecture)?.predicting(self.config.target);
        let split = Split::of(self.cache, self.config)?;
        let held = examples.read(&split.validation)?;
        let per_epoch = split.updates(self.config.batch);
        let identity =
            serde_json::json!({ "config": self.config, "cache": header, "row": format!("{:?}", self.row) });
        Ok(Plan {
            computed: Computed { model, compute: self.compute.clone() },
            split,
            held,
            per_epoch,
            steps: per_epoch * self.config.epochs,
            identity: identity.to_string(),
        })
    }

    fn train(
        &self,
        plan: &Plan,
        state: &mut State,
        curve: &mut Curve,
        examples: &mut Examples<'_>,
        watcher: &mut dyn Watcher,
    ) -> Result<ControlFlow<()>> {
        let schedule = self.config.schedule(plan.steps);
        let validation = plan.per_epoch.div_ceil(self.config.validations_per_epoch).max(1);
        let point = (plan.steps / POINTS).max(1);
        let (begin, first, mut saved) = (Instant::now(), state.step, Instant::now());
        let (mut order, mut gradient): ((u64, Vec<Place>), _) =
            ((u64::MAX, Vec::new()), vec![0.0; plan.computed.model.len()]);
        while state.step < plan.steps {
            let epoch = state.step / plan.per_epoch;
            if order.0 != epoch {
                order = (epoch, plan.split.order(self.config.seed, epoch, self.config.window));
            }
            let rate = schedule.rate(state.step, plan.steps);
            let start = (state.step % plan.per_epoch) as usize * self.config.batch;
            let end = (start + self.config.batch).min(order.1.len());
            let error = self.update(plan, state, examples, &order.1[start..end], &mut gradient, rate)?;
            let stop =
                watcher.on_step(&progress(plan, state.step, first, begin, self.config.batch, error, rate));
            let due = state.step.is_multiple_of(validation) || state.step == plan.steps;
            let mse = if due { Some(self.validate(plan, state, examples, watcher)?) } else { None };
            if due || state.step.is_multiple_of(point) {
                let training = std::mem::take(&mut state.tally).mean();
                curve.points.push(Point { step: state.step, rate, training, validation: mse });
            }
            if due || stop.is_break() || saved.elapsed() >= SAVE {
                // The curve first: points beyond a state are dropped on resume, missing ones could not be made up.
                curve.write(self.folder)?;
                state.save(self.folder, &plan.identity)?;
                saved = Instant::now();
            }
            if stop.is_break() {
                return Ok(stop);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn update(
        &self,
        plan: &Plan,
        state: &mut State,
        examples: &mut Examples<'_>,
        places: &[Place],
        gradient: &mut [f32],
        rate: f64,
    ) -> Result<SquaredError> {
        let batch = examples.batch(places)?;
        let error = plan.computed.gradient(&state.moments.parameters, &batch, gradient)?;
        let matrices = [plan.computed.model.matrices()];
        let norm = state.moments.update(&self.config.optimizer(), gradient, &matrices, rate);
        state.step += 1;
        if !norm.is_finite() {
            return Err(Error::Diverged { step: state.step });
        }
        state.tally += error;
        Ok(error)
    }

    fn validate(
        &self,
        plan: &Plan,
        state: &mut State,
        examples: &Examples<'_>,
        watcher: &mut dyn Watcher,
    ) -> Result<f64> {
        let mut error = SquaredError::default();
        for held in plan.held.chunks(self.config.batch) {
            let batch = examples.assemble(&held.iter().collect::<Vec<_>>())?;
            error += plan.computed.error(&state.moments.parameters, &batch)?;
        }
        let mse = error.mean();
        let better = state.best.as_ref().is_none_or(|(_, best, _)| mse < *best);
        if better {
            state.best = Some((state.moments.parameters.clone(), mse, state.step));
        }
        watcher.on_validation(state.step, mse, better);
        Ok(mse)
    }

    fn finish(&self, plan: &Plan, state: &State, curve: &Curve, examples: &Examples<'_>) -> Result<Fitted> {
        let Some((weights, mse, step)) = &state.best else {
            return Err(Error::Diverged { step: state.step });
        };
        let baselines = Baselines::of(self.cache, &plan.split, self.config.target)?;
        let mut pairs = Vec::new();
        for held in plan.held.chunks(self.config.batch) {
            let held: Vec<&Example> = held.iter().collect();
            pairs.push(plan.computed.predict(weights, &examples.assemble(&held)?)?);
        }
        let predicted = pairs.concat();
        let mut report = Report::new(&baselines, &plan.held, &predicted);
        report.hidden_row = self.row.to_string();
        (report.validation_mse, report.best_step, report.steps) = (*mse, *step, plan.steps);
        report.training_examples = plan.split.training.len();
        report.write(self.folder, curve)?;
        let metadata = Metadata {
            backbone: Some(self.cache.header().backbone.clone()),
            trained_on: Some(self.trained_on.to_owned()),
            validation_mse: Some(*mse),
            baseline_mse: Some(report.constant_mse),
            measure: self.config.target,
            ..Metadata::new(self.row)
        };
        Ok(Fitted { parts: plan.computed.model.parts(weights, metadata), report })
    }
}

fn progress(
    plan: &Plan,
    step: u64,
    first: u64,
    begin: Instant,
    batch: usize,
    error: SquaredError,
    rate: f64,
) -> FitProgress {
    let seconds = begin.elapsed().as_secs_f64().max(1e-9);
    let done = (step - first).max(1) as f64;
    FitProgress {
        step,
        steps: plan.steps,
        training: error.mean(),
        rate,
        examples_per_second: done * batch as f64 / seconds,
        left: Duration::from_secs_f64((seconds / done * (plan.steps - step) as f64).min(1e9)),
    }
}
