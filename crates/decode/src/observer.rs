//! Everything that watches a decoding: trace file, terminal view, metrics, server stream, tests.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use crate::canvas::Canvas;
use crate::strategy::Stop;
use crate::trace::{Seconds, StepRecord};

/// Watches one canvas.
pub trait Observer: Send {
    /// Called after every step; `Break` ends the decoding with the masks that are left.
    fn on_step(&mut self, record: &StepRecord, canvas: &Canvas) -> ControlFlow<()>;

    /// Whether it wants the dependency matrix in the records.
    fn wants_dependency(&self) -> bool {
        false
    }
}

/// Watches nothing.
impl Observer for () {
    fn on_step(&mut self, _: &StepRecord, _: &Canvas) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// Several observers as one; the first that breaks ends the decoding, all still see the step.
#[derive(Default)]
pub struct Observers(pub Vec<Box<dyn Observer>>);

impl Observer for Observers {
    fn on_step(&mut self, record: &StepRecord, canvas: &Canvas) -> ControlFlow<()> {
        let mut flow = ControlFlow::Continue(());
        for observer in &mut self.0 {
            if observer.on_step(record, canvas).is_break() {
                flow = ControlFlow::Break(());
            }
        }
        flow
    }

    fn wants_dependency(&self) -> bool {
        self.0.iter().any(|o| o.wants_dependency())
    }
}

/// Counts what happened: the numbers behind a summary line or a metrics page.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize)]
pub struct Metrics {
    /// Steps of Algorithm 1.
    pub steps: usize,
    /// Forward passes, extra ones included.
    pub forwards: usize,
    /// Passes that were waited for: canvases that speculation runs side by side are one.
    pub rounds: usize,
    /// Rows that a second model computed.
    pub assistant_rows: usize,
    /// Calls of a small trained part (layer, policy, prior), besides whole passes.
    pub inner_calls: usize,
    /// Tokens written by steps, those behind the end of the text too.
    pub committed: usize,
    /// Tokens of the text: written by steps, before its end.
    pub tokens: usize,
    /// Positions filled by the EOS policy.
    pub filled: usize,
    /// Tokens masked again.
    pub remasked: usize,
    /// Rows of the canvas computed afresh.
    pub computed_rows: usize,
    /// How often a selection ended for each reason.
    pub stops: BTreeMap<Stop, usize>,
    /// Seconds by phase.
    pub seconds: Seconds,
}

impl Metrics {
    /// Tokens before the end of the text, per forward pass.
    pub fn tokens_per_forward(&self) -> f64 {
        self.tokens as f64 / self.forwards.max(1) as f64
    }
}

impl Observer for Metrics {
    fn on_step(&mut self, record: &StepRecord, canvas: &Canvas) -> ControlFlow<()> {
        self.steps += 1;
        self.tokens = canvas.written();
        self.forwards += record.forwards;
        self.rounds += usize::from(record.forwards > 0);
        self.assistant_rows += record.assistant_rows;
        self.inner_calls += record.inner_calls;
        self.committed += record.commits.len();
        self.filled += record.filled.len();
        self.remasked += record.remasked.len();
        self.computed_rows += record.computed_rows;
        self.seconds += record.seconds;
        if let Some(stop) = record.stop {
            *self.stops.entry(stop).or_default() += 1;
        }
        ControlFlow::Continue(())
    }
}

/// An observer that stays readable from outside after the job has taken it.
impl<T: Observer> Observer for Arc<Mutex<T>> {
    fn on_step(&mut self, record: &StepRecord, canvas: &Canvas) -> ControlFlow<()> {
        self.lock().unwrap_or_else(PoisonError::into_inner).on_step(record, canvas)
    }

    fn wants_dependency(&self) -> bool {
        self.lock().unwrap_or_else(PoisonError::into_inner).wants_dependency()
    }
}

/// Keeps every record in memory.
#[derive(Default)]
pub struct Recorder {
    /// The records so far.
    pub records: Vec<StepRecord>,
}

impl Observer for Recorder {
    fn on_step(&mut self, record: &StepRecord, _: &Canvas) -> ControlFlow<()> {
        self.records.push(record.clone());
        ControlFlow::Continue(())
    }
}
