//! Errors as exceptions: `demask.Error`, and for mistakes in the call `demask.UsageError`, which is a `ValueError` too.

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

create_exception!(demask, Error, PyException, "What went wrong, in one sentence.");

/// A sentence with all its causes, as the command line prints it.
fn sentence(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let more = inner.to_string();
        if !text.ends_with(&more) {
            text = format!("{text}: {more}");
        }
        cause = inner.source();
    }
    text
}

/// An exception of the package with this sentence.
pub(crate) fn exception(sentence: String, mistake: bool) -> PyErr {
    if !mistake {
        return Error::new_err(sentence);
    }
    Python::with_gil(|py| {
        let class = py.import("demask._errors").and_then(|module| module.getattr("UsageError"));
        match class.and_then(|class| class.call1((sentence.as_str(),))) {
            Ok(value) => PyErr::from_value(value),
            Err(error) => error,
        }
    })
}

/// An error of the library.
pub(crate) fn library(error: &demask::Error) -> PyErr {
    exception(sentence(error), error.is_mistake())
}

/// An error of a command.
pub(crate) fn command(error: &anyhow::Error) -> PyErr {
    exception(format!("{error:#}"), demask_cli::is_mistake(error))
}
