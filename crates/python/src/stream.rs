//! A decoding step by step, as a Python iterator.

use demask::Steps;
use pyo3::prelude::*;
use std::sync::{Arc, Mutex, PoisonError};

use crate::answer::{Answer, RawStep, raw};
use crate::error::{exception, library};
use crate::model::Model;
use crate::own::Failure;
use crate::watch::{Watch, watched_by};

/// A decoding on its way.
#[pyclass(frozen, module = "demask._native")]
pub(crate) struct Stream {
    steps: Mutex<Option<Steps>>,
    model: demask::Model,
    failure: Failure,
    /// What the gate of the steps' own model looks at.
    watch: Arc<Watch>,
}

impl Stream {
    pub(crate) fn new(steps: Steps, model: &Model, watch: Arc<Watch>) -> Self {
        let (inner, failure) = (model.inner.clone(), model.failure.clone());
        Self { steps: Mutex::new(Some(steps)), model: inner, failure, watch }
    }

    fn with<T: Send>(&self, py: Python<'_>, work: impl FnOnce(&mut Steps) -> T + Send) -> PyResult<T> {
        py.allow_threads(|| {
            let mut steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
            match steps.as_mut() {
                Some(steps) => Ok(work(steps)),
                None => Err(finished()),
            }
        })
    }
}

fn finished() -> PyErr {
    exception("the decoding was finished already".into(), true)
}

#[pymethods]
impl Stream {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<RawStep<'py>>> {
        let next = watched_by(&self.watch, py, None, |_| {
            let mut steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
            steps.as_mut().map(Iterator::next)
        })?;
        match next.ok_or_else(finished)? {
            None => Ok(None),
            Some(Ok(record)) => raw(py, &record).map(Some),
            Some(Err(error)) => Err(self.failure.take().unwrap_or_else(|| library(&error))),
        }
    }

    /// The text as it stands, masks left out.
    fn text(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, |steps| steps.text())?.map_err(|error| library(&error))
    }

    /// The canvas as it stands.
    fn canvas_ids(&self, py: Python<'_>) -> PyResult<Vec<u32>> {
        self.with(py, |steps| steps.canvas().tokens().to_vec())
    }

    /// Decodes what is left.
    fn finish(&self, py: Python<'_>) -> PyResult<Answer> {
        let answer = watched_by(&self.watch, py, None, |_| {
            let steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner).take();
            steps.map(Steps::finish)
        })?;
        match answer {
            None => Err(finished()),
            Some(Ok(answer)) => Ok(Answer { answer, model: self.model.clone() }),
            Some(Err(error)) => Err(self.failure.take().unwrap_or_else(|| library(&error))),
        }
    }
}
