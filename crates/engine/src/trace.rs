//! Traces: a file that is written while a canvas is decoded, or records that are kept for its answer.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use demask_decode::trace::{Trace, TraceHeader, TraceWriter};
use demask_decode::{Canvas, Job, Observer, Observers, StepRecord};
use demask_model::file::Pending;

use crate::error::Result;
use crate::model::Model;

/// Writes every step, and is taken back when the decoding is over.
#[derive(Default)]
pub(crate) struct TraceFile(Option<TraceWriter<Pending>>);

impl TraceFile {
    /// Begins the file of a canvas that no step has touched.
    pub(crate) fn create(path: &Path, header: &TraceHeader, dependency: bool) -> Result<Self> {
        let writer = TraceWriter::new(Pending::create(path)?, header, dependency);
        Ok(Self(Some(writer.map_err(demask_decode::Error::Trace)?)))
    }

    /// Completes it; a second call does nothing.
    pub(crate) fn finish(&mut self) -> Result<()> {
        match self.0.take() {
            Some(writer) => Ok(writer.finish().map_err(demask_decode::Error::Trace)?.finish()?),
            None => Ok(()),
        }
    }
}

impl Observer for TraceFile {
    fn on_step(&mut self, record: &StepRecord, canvas: &Canvas) -> ControlFlow<()> {
        match &mut self.0 {
            Some(writer) => writer.on_step(record, canvas),
            None => ControlFlow::Continue(()),
        }
    }

    fn wants_dependency(&self) -> bool {
        self.0.as_ref().is_some_and(TraceWriter::wants_dependency)
    }
}

/// What a trace says first of a job that has not begun.
pub(crate) fn header(model: &Model, job: &Job) -> TraceHeader {
    TraceHeader::new(job.canvas(), job.spelling(), &job.options().cache, job.options().seed)
        .with_predictor(model.understanding())
}

/// The records of a decoding, kept while it goes on.
#[derive(Clone)]
pub(crate) struct Recording {
    records: Arc<Mutex<Vec<StepRecord>>>,
    dependency: bool,
}

impl Recording {
    /// One among the observers, if it is wanted.
    pub(crate) fn watch(dependency: Option<bool>, observers: &mut Observers) -> Option<Self> {
        let recording = Self { records: Arc::default(), dependency: dependency? };
        observers.0.push(Box::new(recording.clone()));
        Some(recording)
    }

    /// What was recorded.
    pub(crate) fn trace(&self, header: TraceHeader) -> Trace {
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        Trace { header, steps: std::mem::take(&mut *records) }
    }
}

impl Observer for Recording {
    fn on_step(&mut self, record: &StepRecord, _: &Canvas) -> ControlFlow<()> {
        let mut record = record.clone();
        if !self.dependency {
            record.dependency = None;
        }
        self.records.lock().unwrap_or_else(PoisonError::into_inner).push(record);
        ControlFlow::Continue(())
    }

    fn wants_dependency(&self) -> bool {
        self.dependency
    }
}
