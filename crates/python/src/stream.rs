//! A decoding step by step, as a Python iterator.

use demask::Steps;
use pyo3::prelude::*;
use std::sync::{Mutex, PoisonError};

use crate::answer::{Answer, RawStep, raw};
use crate::error::{exception, library};
use crate::model::Model;
use crate::own::Failure;

/// A decoding on its way.
#[pyclass(frozen, module = "demask._native")]
pub(crate) struct Stream {
    steps: Mutex<Option<Steps>>,
    model: demask::Model,
    failure: Failure,
}

impl Stream {
    pub(crate) fn new(steps: Steps, model: &Model) -> Self {
        Self { steps: Mutex::new(Some(steps)), model: model.inner.clone(), failure: model.failure.clone() }
    }

    fn with<T: Send>(&self, py: Python<'_>, work: impl FnOnce(&mut Steps) -> T + Send) -> PyResult<T> {
        py.allow_threads(|| {
            let mut steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
            match steps.as_mut() {
                Some(steps) => Ok(work(steps)),
                None => Err(exception("the decoding was finished already".into(), true)),
            }
        })
    }
}

#[pymethods]
impl Stream {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<RawStep<'py>>> {
        match self.with(py, Iterator::next)? {
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
        let answer = py.allow_threads(|| {
            let steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner).take();
            steps.map(Steps::finish)
        });
        match answer {
            None => Err(exception("the decoding was finished already".into(), true)),
            Some(Ok(answer)) => Ok(Answer { answer, model: self.model.clone() }),
            Some(Err(error)) => Err(self.failure.take().unwrap_or_else(|| library(&error))),
        }
    }
}
