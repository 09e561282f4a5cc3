//! What parallel sampling costs on a real backbone: for the sets that DEMASK itself selects, the
//! distance between joint and factorised sampling (section 4.2), estimated and put beside τ.
//!
//! For a set `s_1 … s_k` chosen on a canvas, a chain draws `y_1` from the marginal, reveals it, runs
//! the backbone, draws `y_2` from the conditional, and so on: a sample of the joint, token by token.
//! Each chain gives two unbiased estimates:
//! - the telescoping sum `Σ_t TV(P(Y_{s_t}), P(Y_{s_t} | y_{s<t}))`, which bounds TV(P, Q) always and is
//!   what the sub-additivity assumption bounds by τ;
//! - `(1 − Q(y)/P(y))₊`, whose mean is TV(P, Q) itself.
//!
//! Distributions are the model's own (temperature 1) without the mask token.

mod chain;
mod report;

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use demask_decode::registry::Context;
use demask_decode::{Canvas, Decoder, Job, Observer, Options, StepRecord, StrategySpec};
use demask_model::Backbone;

use crate::error::{Error, Result};

pub use chain::Estimate;
pub use report::{Report, TauReport};

/// Canvases decoded together.
const BATCH: usize = 32;

/// How the bound is examined.
#[derive(Debug, Clone)]
pub struct BoundSettings {
    /// The strategy; its `tau` is replaced by each of `taus`.
    pub strategy: StrategySpec,
    /// Values of τ.
    pub taus: Vec<f32>,
    /// Chains per selected set.
    pub chains: usize,
    /// Length of each response.
    pub length: usize,
    /// Decoding options; their stream is the number of the prompt.
    pub options: Options,
    /// Rows of the backbone computed at once.
    pub token_budget: usize,
}

/// A set that a step selected.
#[derive(Debug, Clone, PartialEq)]
pub struct Selected {
    /// Number of the prompt.
    pub prompt: usize,
    /// Number of the step.
    pub step: usize,
    /// The canvas before the step.
    pub canvas: Vec<u32>,
    /// Positions in the order of selection.
    pub set: Vec<usize>,
    /// Accumulated (predicted) dependency.
    pub used: f32,
}

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BoundProgress {
    /// The τ being examined.
    pub tau: f32,
    /// Sets of two or more positions found.
    pub sets: usize,
    /// Sets estimated.
    pub done: usize,
}

/// Decodes the prompts at every τ and estimates the distance of every set of two or more.
pub fn run(
    backbone: &dyn Backbone,
    context: &Context,
    prompts: &[Vec<u32>],
    settings: &BoundSettings,
    watch: &mut dyn FnMut(BoundProgress) -> ControlFlow<()>,
) -> Result<Report> {
    if prompts.is_empty() || settings.taus.is_empty() || settings.chains == 0 {
        return Err(Error::Nothing("there must be a prompt, a value of tau and a chain".into()));
    }
    let mut taus = Vec::new();
    for &tau in &settings.taus {
        let strategy = settings.strategy.clone().with("tau", tau)?;
        let (steps, selected) = select(backbone, context, prompts, &strategy, settings)?;
        let mut flow = watch(BoundProgress { tau, sets: selected.len(), done: 0 });
        let mut estimates = Vec::new();
        if flow.is_continue() {
            estimates = chain::estimate(backbone, &selected, settings, &mut |done| {
                flow = watch(BoundProgress { tau, sets: selected.len(), done });
                flow
            })?;
        }
        if flow.is_break() {
            return Err(Error::Nothing("it was stopped before the last set was estimated".into()));
        }
        taus.push(TauReport::new(tau, prompts.len(), steps, &selected, estimates));
    }
    Ok(Report { strategy: settings.strategy.to_string(), chains: settings.chains, taus })
}

/// Decodes every prompt; how many tokens each step wrote, and the sets of two or more.
fn select(
    backbone: &dyn Backbone,
    context: &Context,
    prompts: &[Vec<u32>],
    strategy: &StrategySpec,
    settings: &BoundSettings,
) -> Result<(Vec<usize>, Vec<Selected>)> {
    let (mut steps, mut selected) = (Vec::new(), Vec::new());
    for (batch, prompts) in prompts.chunks(BATCH).enumerate() {
        let (mut jobs, mut watchers) = (Vec::new(), Vec::new());
        for (index, prompt) in prompts.iter().enumerate() {
            let number = batch * BATCH + index;
            let canvas = Canvas::generate(prompt, settings.length, &backbone.spec().ids)?;
            let watcher = Watcher::new(number, canvas.tokens());
            let options = Options { stream: number as u64, ..settings.options.clone() };
            jobs.push(Job::new(canvas, strategy, context, options, Box::new(watcher.clone()))?);
            watchers.push(watcher);
        }
        Decoder::new(backbone).run(&mut jobs)?;
        for watcher in watchers {
            let seen = watcher.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            steps.extend(seen.sets.iter().map(|s| s.set.len()));
            selected.extend(seen.sets.iter().filter(|s| s.set.len() > 1).cloned());
        }
    }
    Ok((steps, selected))
}

/// Remembers every step's set and the canvas it was chosen on.
#[derive(Clone)]
struct Watcher(Arc<Mutex<Seen>>);

struct Seen {
    prompt: usize,
    before: Vec<u32>,
    sets: Vec<Selected>,
}

impl Watcher {
    fn new(prompt: usize, tokens: &[u32]) -> Self {
        Self(Arc::new(Mutex::new(Seen { prompt, before: tokens.to_vec(), sets: Vec::new() })))
    }
}

impl Observer for Watcher {
    fn on_step(&mut self, record: &StepRecord, canvas: &Canvas) -> ControlFlow<()> {
        let mut seen = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let selected = Selected {
            prompt: seen.prompt,
            step: record.step,
            canvas: std::mem::replace(&mut seen.before, canvas.tokens().to_vec()),
            set: record.commits.iter().map(|c| c.position).collect(),
            used: record.budget.map_or(0.0, |b| b.used),
        };
        seen.sets.push(selected);
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests;
