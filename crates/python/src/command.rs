//! The command line inside Python: the program itself, and its long commands on a model that is loaded.

use std::ffi::OsString;
use std::path::PathBuf;

use demask::Registry;
use demask::eval::run::suite::Generated;
use demask_cli::host::{Host, Progress};
use pyo3::prelude::*;

use crate::error::{command, exception, library};
use crate::model::Model;
use crate::watch::watched;

/// Runs one of the long commands (eval, lab, sweep, tv-cache, train, validate) with the flags it has on the command line, on
/// a model that is loaded. Returns its result as JSON and what it said.
#[pyfunction]
#[pyo3(signature = (args, model, strategies, progress))]
pub(crate) fn call(
    py: Python<'_>,
    args: Vec<String>,
    model: Option<PyRef<'_, Model>>,
    strategies: Option<Vec<String>>,
    progress: Option<PyObject>,
) -> PyResult<(String, String)> {
    let inner = model.as_ref().map(|model| model.inner.clone());
    let specs = match (&inner, strategies) {
        (Some(model), Some(spellings)) => {
            let specs = spellings.iter().map(|spelling| model.parse_strategy(spelling));
            Some(specs.collect::<demask::Result<Vec<_>>>().map_err(|error| library(&error))?)
        }
        _ => None,
    };
    let failure = model.as_ref().map(|model| model.failure.clone());
    let outcome = watched(py, progress, |watch| {
        let mut show = |progress: &Progress| watch.show(progress);
        let inner = inner.map(|model| model.behind(watch.gate()));
        let mut host = Host::program(&mut show).with_model(inner.as_ref()).with_strategies(specs);
        let outcome = demask_cli::call(&args, &mut host);
        outcome.map(|()| (host.result.to_string(), host.told().to_owned()))
    })?;
    outcome.map_err(|error| failure.and_then(|failure| failure.take()).unwrap_or_else(|| command(&error)))
}

/// The program `demask`: its exit code.
#[pyfunction]
pub(crate) fn main(py: Python<'_>, args: Vec<String>, worker: (String, Vec<String>)) -> u8 {
    let args = args.into_iter().map(OsString::from).collect::<Vec<_>>();
    py.allow_threads(|| demask_cli::program(args, (PathBuf::from(worker.0), worker.1)))
}

/// Says which program renders the chat templates of strangers; it has to call `template_worker`.
#[pyfunction]
pub(crate) fn isolate_templates(program: String, arguments: Vec<String>) {
    demask::model::text::isolate_templates(PathBuf::from(program), arguments);
}

/// Renders templates for another process until it goes away.
#[pyfunction]
pub(crate) fn template_worker(py: Python<'_>) {
    py.allow_threads(demask::model::text::template_worker);
}

/// Sets how many threads compute; before anything is computed.
#[pyfunction]
pub(crate) fn set_threads(count: usize) -> PyResult<()> {
    let set = rayon::ThreadPoolBuilder::new().num_threads(count).build_global();
    set.map_err(|cause| exception(format!("cannot set the number of threads: {cause}"), true))
}

/// Every strategy: name, other names, summary, source, and parameters with default and meaning.
#[pyfunction]
#[allow(clippy::type_complexity, reason = "a table has columns")]
pub(crate) fn strategies() -> Vec<(String, Vec<String>, String, String, Vec<(String, String, String)>)> {
    let registry = Registry::standard();
    let row = |entry: &demask::decode::registry::Entry| {
        let params = entry.params.iter().map(|p| (p.key.to_owned(), p.default.to_owned(), p.help.to_owned()));
        let aliases = entry.aliases.iter().map(|&alias| alias.to_owned()).collect();
        (entry.name.to_owned(), aliases, entry.summary.to_owned(), entry.source.to_owned(), params.collect())
    };
    registry.entries().iter().map(row).collect()
}

/// The stream of the randomness that the runner gives to a document: `number` of `task` in `suite`, drawn once more `draw` times.
#[pyfunction]
pub(crate) fn item_stream(suite: &str, task: &str, number: usize, draw: usize) -> u64 {
    let generated = Generated::find(suite).is_some();
    let id = if generated { number.to_string() } else { format!("{task}/{number}") };
    demask::eval::run::stream(suite, &if draw == 0 { id } else { format!("{id}#{draw}") })
}
