//! The native half of the Python package `demask`: the library and the command line, behind plain values (numbers,
//! strings, lists, bytes). What a user sees, with types and numpy arrays, is the Python half in `python/demask`.
//!
//! Invariants: every call that computes lets other Python threads run; whatever Python strategies or Ctrl-C do ends in an
//! exception, never in a hang; an error's sentence is the library's own.

mod answer;
mod command;
mod decoding;
mod error;
mod model;
mod own;
mod stream;
mod watch;

use pyo3::prelude::*;

/// The native half of the package.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("Error", module.py().get_type::<error::Error>())?;
    module.add_class::<model::Model>()?;
    module.add_class::<answer::Answer>()?;
    module.add_class::<stream::Stream>()?;
    module.add_function(wrap_pyfunction!(command::call, module)?)?;
    module.add_function(wrap_pyfunction!(command::main, module)?)?;
    module.add_function(wrap_pyfunction!(command::template_worker, module)?)?;
    module.add_function(wrap_pyfunction!(command::isolate_templates, module)?)?;
    module.add_function(wrap_pyfunction!(command::set_threads, module)?)?;
    module.add_function(wrap_pyfunction!(command::strategies, module)?)?;
    module.add_function(wrap_pyfunction!(command::item_stream, module)?)?;
    module.add_function(wrap_pyfunction!(decoding::options, module)?)?;
    Ok(())
}
