//! The one resolver of names of tasks and benchmarks: `all` spelled out, each name once, an unknown one refused.

use crate::benchmark;
use crate::error::{Error, Result};
use crate::run::suite::Generated;
use crate::task::{self, Task};

/// Names of generated tasks and, where they are wanted, of benchmarks.
///
/// ```
/// use demask_eval::run::names::resolve;
/// assert_eq!(resolve(&["lines", "arith", "lines"], false)?, ["lines", "arith"]);
/// assert!(resolve(&["gsm8k"], true).is_ok() && resolve(&["gsm8k"], false).is_err());
/// # Ok::<(), demask_eval::Error>(())
/// ```
pub fn resolve<S: AsRef<str>>(given: &[S], benchmarks: bool) -> Result<Vec<String>> {
    let tasks: Vec<String> = task::all().iter().map(|t| t.name().to_owned()).collect();
    let is_benchmark = |name: &str| benchmarks && benchmark::ALL.iter().any(|d| d.answers_to(name));
    let mut found: Vec<String> = Vec::new();
    for name in given.iter().map(|n| n.as_ref().trim()).filter(|n| !n.is_empty()) {
        if name == "all" {
            found.extend(tasks.iter().cloned());
        } else if name == "all:fresh" {
            found.extend(tasks.iter().filter_map(|task| Generated::fresh_name(task)));
        } else if Generated::find(name).is_some() || is_benchmark(name) {
            found.push(name.to_owned());
        } else {
            return Err(unknown(&format!("there is no task {name:?}"), &tasks, benchmarks));
        }
    }
    let mut unique: Vec<String> = Vec::new();
    for name in found {
        if !unique.contains(&name) {
            unique.push(name);
        }
    }
    if unique.is_empty() { Err(unknown("no task was named", &tasks, benchmarks)) } else { Ok(unique) }
}

/// Generated tasks by a list of names with commas between them.
pub fn tasks(names: &str) -> Result<Vec<Box<dyn Task>>> {
    let names = resolve(&names.split(',').collect::<Vec<_>>(), false)?;
    // A task's problems in fresh wording are those of another split, not another task.
    match names.iter().find(|name| task::by_name(name).is_none()) {
        Some(name) => Err(Error::UnknownTask(format!("{name} is a split of a task; name the task alone"))),
        None => Ok(names.iter().filter_map(|name| task::by_name(name)).collect()),
    }
}

fn unknown(problem: &str, tasks: &[String], benchmarks: bool) -> Error {
    let tasks = tasks.join(", ");
    let others = "; the benchmarks are gsm8k, mmlu_pro, humaneval, mbpp, countdown, sudoku";
    let others = if benchmarks { others } else { "" };
    Error::UnknownTask(format!("{problem}; the tasks are {tasks}, or all of them with all{others}"))
}
