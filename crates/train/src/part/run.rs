//! The loop: gather, update, validate, keep the best, save in between.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use demask_model::files::Lock;
use serde::{Deserialize, Serialize};

use super::Objective;
use crate::error::{Error, Result};
use crate::fit::State;
use crate::optimizer::{AdamW, Moments};
use crate::predictor::SquaredError;
use crate::schedule::Schedule;

/// The state is saved at least this often, besides at every validation.
const SAVE: Duration = Duration::from_secs(60);

/// How a part is trained.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartSettings {
    /// Updates.
    pub steps: u64,
    /// Learning rate over them.
    pub rate: Schedule,
    /// The optimizer.
    pub optimizer: AdamW,
    /// Seed of starting weights and of what updates are made of.
    pub seed: u64,
    /// Updates between two validations.
    pub validate: u64,
}

impl PartSettings {
    /// Refuses values that train nothing.
    pub fn check(&self) -> Result<()> {
        let refuse = |name, value: String, allowed| Err(Error::Setting { name, value, allowed });
        if self.steps == 0 || self.validate == 0 {
            return refuse("the number of updates", "0".into(), "at least 1");
        }
        match self.rate.problem().or_else(|| self.optimizer.problem()) {
            Some(problem) => refuse("a setting of the optimizer", problem, "usable"),
            None => Ok(()),
        }
    }
}

/// A run to be started or continued.
pub struct Training<'a> {
    /// How.
    pub settings: &'a PartSettings,
    /// Where state and report go.
    pub folder: &'a Path,
    /// What a state must have in common with this run, besides the settings: the backbone, the data.
    pub identity: &'a str,
}

/// The state of a run after an update.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PartProgress {
    /// Updates done.
    pub step: u64,
    /// Updates of the whole run.
    pub steps: u64,
    /// Loss of this update, where there was something to learn.
    pub loss: Option<f64>,
    /// Loss of the last validation.
    pub validation: Option<f64>,
    /// Learning rate.
    pub rate: f64,
    /// Time left at the speed since this process began.
    pub left: Duration,
}

/// A trained part.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// The weights with the lowest loss on what is held out.
    #[serde(skip)]
    pub parameters: Vec<f32>,
    /// That loss.
    pub validation: f64,
    /// Updates after which it was reached.
    pub best_step: u64,
    /// Updates in all.
    pub steps: u64,
    /// What the same loss is without the part.
    pub baseline: f64,
    /// What that is.
    pub baseline_is: String,
    /// Number of parameters.
    pub size: usize,
}

impl Training<'_> {
    /// Trains to the end; `None` if the watcher stopped it. Continues by itself from the state in the folder.
    pub fn run(
        &self,
        objective: &mut dyn Objective,
        watch: &mut dyn FnMut(&PartProgress) -> ControlFlow<()>,
    ) -> Result<Option<Outcome>> {
        self.settings.check()?;
        let _lock = Lock::take(self.folder)?;
        let PartSettings { steps, seed, .. } = *self.settings;
        let identity = serde_json::json!({ "settings": self.settings, "of": self.identity }).to_string();
        let slots = objective.slots().clone();
        let mut state = match State::read(self.folder, &identity, slots.len())? {
            Some(state) => state,
            None => State::new(Moments::new(objective.initial(seed)?, &self.settings.optimizer)),
        };
        let (matrices, mut gradient) = (slots.matrices(), vec![0.0; slots.len()]);
        let (begin, first, mut saved) = (Instant::now(), state.step, Instant::now());
        let mut validation = None;
        while state.step < steps {
            let rate = self.settings.rate.rate(state.step, steps);
            let mut loss = None;
            for _ in 0..objective.gather(&state.moments.parameters, state.step)? {
                let Some(value) = objective.gradient(&state.moments.parameters, &mut gradient)? else {
                    break;
                };
                let norm = state.moments.update(&self.settings.optimizer, &gradient, &matrices, rate);
                if !norm.is_finite() {
                    return Err(Error::Diverged { step: state.step + 1 });
                }
                state.tally += SquaredError { sum: value, pairs: 1 };
                loss = Some(value);
            }
            state.step += 1;
            let due = state.step.is_multiple_of(self.settings.validate) || state.step == steps;
            if due {
                validation = Some(validate(objective, &mut state)?);
            }
            let left = begin
                .elapsed()
                .div_f64((state.step - first).max(1) as f64)
                .mul_f64((steps - state.step) as f64);
            let stop =
                watch(&PartProgress { step: state.step, steps, loss, validation, rate, left }).is_break();
            if due || stop || saved.elapsed() >= SAVE {
                state.save(self.folder, &identity)?;
                saved = Instant::now();
            }
            if stop && state.step < steps {
                return Ok(None);
            }
        }
        self.finish(objective, &state).map(Some)
    }

    fn finish(&self, objective: &mut dyn Objective, state: &State) -> Result<Outcome> {
        let Some((parameters, loss, step)) = &state.best else {
            return Err(Error::Diverged { step: state.step });
        };
        let (baseline_is, baseline) = objective.baseline()?;
        let outcome = Outcome {
            size: parameters.len(),
            parameters: parameters.clone(),
            validation: *loss,
            best_step: *step,
            steps: state.step,
            baseline,
            baseline_is,
        };
        let path = self.folder.join("report.json");
        let text = serde_json::to_string_pretty(&outcome).unwrap_or_default() + "\n";
        demask_model::file::replace(&path, |out| out.write_all(text.as_bytes()))?;
        Ok(outcome)
    }
}

fn validate(objective: &mut dyn Objective, state: &mut State) -> Result<f64> {
    let loss = objective.validate(&state.moments.parameters)?;
    // One that is not a number is never the best.
    if state.best.as_ref().map_or(loss.is_finite(), |(_, best, _)| loss < *best) {
        state.best = Some((state.moments.parameters.clone(), loss, state.step));
    }
    Ok(loss)
}
