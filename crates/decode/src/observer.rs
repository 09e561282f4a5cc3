//! Everything that watches a decoding: trace file, terminal view, metrics, server stream, tests.

use std::ops::ControlFlow;

use crate::canvas::Canvas;
use crate::trace::StepRecord;

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
