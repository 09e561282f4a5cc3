//! A finished decoding and its steps, as plain values.

use demask::decode::StepRecord;
use demask::decode::trace::Trace;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::exception;

/// A step: its record as JSON without the dependency matrix; the matrix's positions and its numbers in f32, where there
/// is one.
pub(crate) type RawStep<'py> = (String, Option<(Vec<usize>, Bound<'py, PyBytes>)>);

/// A record as Python reads it.
pub(crate) fn raw<'py>(py: Python<'py>, record: &StepRecord) -> PyResult<RawStep<'py>> {
    let matrix = record.dependency.as_ref().map(|d| (d.positions.clone(), bytes(py, &d.values)));
    let plain = StepRecord { dependency: None, ..record.clone() };
    let json = serde_json::to_string(&plain).map_err(|cause| exception(cause.to_string(), false))?;
    Ok((json, matrix))
}

/// Numbers as bytes, for `numpy.frombuffer`.
pub(crate) fn bytes<'py>(py: Python<'py>, numbers: &[f32]) -> Bound<'py, PyBytes> {
    let all = PyBytes::new_with(py, 4 * numbers.len(), |room| {
        for (place, number) in room.chunks_exact_mut(4).zip(numbers) {
            place.copy_from_slice(&number.to_ne_bytes());
        }
        Ok(())
    });
    all.unwrap_or_else(|_| PyBytes::new(py, &[]))
}

/// A finished decoding.
#[pyclass(frozen, module = "demask._native")]
pub(crate) struct Answer {
    pub(crate) answer: demask::Answer,
    pub(crate) model: demask::Model,
}

#[pymethods]
impl Answer {
    #[getter]
    fn text(&self) -> &str {
        &self.answer.text
    }

    #[getter]
    fn token_ids(&self) -> Vec<u32> {
        self.answer.tokens.clone()
    }

    #[getter]
    fn response_ids(&self) -> Vec<u32> {
        self.answer.response().to_vec()
    }

    #[getter]
    fn canvas_ids(&self) -> Vec<u32> {
        self.answer.canvas.tokens().to_vec()
    }

    #[getter]
    fn strategy(&self) -> &str {
        &self.answer.strategy
    }

    #[getter]
    fn seconds(&self) -> f64 {
        self.answer.seconds
    }

    /// Everything that was counted, as JSON.
    fn metrics(&self) -> PyResult<String> {
        serde_json::to_string(&self.answer.metrics).map_err(|cause| exception(cause.to_string(), false))
    }

    /// The steps, where they were kept.
    fn steps<'py>(&self, py: Python<'py>) -> PyResult<Option<Vec<RawStep<'py>>>> {
        let Some(trace) = &self.answer.trace else { return Ok(None) };
        trace.steps.iter().map(|record| raw(py, record)).collect::<PyResult<Vec<_>>>().map(Some)
    }

    /// The trace as a file holds it: JSON lines.
    fn trace_lines(&self) -> PyResult<Option<String>> {
        let Some(Trace { header, steps }) = &self.answer.trace else { return Ok(None) };
        let mut lines = vec![serde_json::to_string(header)];
        lines.extend(steps.iter().map(serde_json::to_string));
        let lines: Result<Vec<String>, _> = lines.into_iter().collect();
        let mut text = lines.map_err(|cause| exception(cause.to_string(), false))?.join("\n");
        text.push('\n');
        Ok(Some(text))
    }

    /// The animation that `demask trace view --html` writes.
    fn page(&self, py: Python<'_>) -> PyResult<Option<String>> {
        let Some(trace) = &self.answer.trace else { return Ok(None) };
        let page =
            py.allow_threads(|| demask::serve::saved_page(std::slice::from_ref(trace), self.model.text()));
        page.map(Some).map_err(|error| exception(error.to_string(), false))
    }
}
