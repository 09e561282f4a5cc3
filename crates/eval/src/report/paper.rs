//! The paper's Table 1 (every method on every task, with speed-up) and Table 2 (without EOS filling), from records.

use demask_decode::{EosPolicy, StrategySpec};

use crate::error::{Error, Remedy, Result};
use crate::report::summary::{Line, Summary};
use crate::report::table::{Table, Text};
use crate::run::{RunHeader, Sample};

/// What speed-ups of Table 1 count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speed {
    /// Wall-clock time, as in the paper.
    Time,
    /// Forward passes: the same on every machine.
    Forwards,
}

/// Table 1. `tuned` are the tasks that parameters were chosen on; they are left out of the average.
pub fn main_table(
    samples: &[Sample],
    baseline: Option<&StrategySpec>,
    tuned: &[String],
    speed: Speed,
) -> Result<Table> {
    let summary = Summary::new(samples, baseline)?;
    if let Some(unknown) = tuned.iter().find(|t| !summary.tasks.contains(t)) {
        return Err(Error::Nothing(format!(
            "there is no record of the task {unknown:?} that parameters were tuned on"
        )));
    }
    let averaged: Vec<&String> = summary.tasks.iter().filter(|t| !tuned.contains(t)).collect();
    let base = summary.baseline.as_ref().map_or(String::new(), method);
    let what = match speed {
        Speed::Time => "speed-up (wall-clock)",
        Speed::Forwards => "reduction of forward passes",
    };
    let excluded =
        if tuned.is_empty() { String::new() } else { format!("; Avg excludes {}", tuned.join(", ")) };
    let caption = format!(
        "Accuracy (%) ± standard error with {what} in parentheses, relative to {base}. Bold: best average accuracy{excluded}."
    );
    let mut columns = vec!["Method".to_owned()];
    columns.extend(summary.tasks.iter().cloned());
    columns.push("Avg".into());
    let mut table = Table::new(&caption, columns);
    let times = |x: Option<f64>| x.map_or(String::new(), |x| format!(" ({x:.1}×)"));
    let gain = |line: &Line| match speed {
        Speed::Time => summary.speed_up(line),
        Speed::Forwards => summary.fewer_forwards(line),
    };
    let averages: Vec<Option<(f64, Option<f64>)>> = summary
        .strategies
        .iter()
        .map(|strategy| {
            let cells: Option<Vec<&Line>> =
                averaged.iter().map(|task| summary.cell(strategy, task)).collect();
            let cells = cells.filter(|c| !c.is_empty())?;
            let n = cells.len() as f64;
            let gains: Option<Vec<f64>> = cells.iter().map(|c| gain(c)).collect();
            let accuracy = cells.iter().map(|c| c.accuracy.value).sum::<f64>() / n;
            Some((accuracy, gains.map(|g| g.iter().sum::<f64>() / n)))
        })
        .collect();
    let best = averages.iter().flatten().map(|a| a.0).fold(f64::NEG_INFINITY, f64::max);
    for (strategy, average) in summary.strategies.iter().zip(averages) {
        let cell = |task: &String| match summary.cell(strategy, task) {
            Some(line) => format!("{}{}", line.accuracy.percent(), times(gain(line))),
            None => "–".into(),
        };
        let mut row: Vec<Text> = vec![method(strategy).into()];
        row.extend(summary.tasks.iter().map(|task| cell(task).into()));
        row.push(match average {
            Some((accuracy, gain)) => {
                Text { text: format!("{:.1}{}", 100.0 * accuracy, times(gain)), bold: accuracy == best }
            }
            None => "–".into(),
        });
        table.rows.push(row);
    }
    Ok(table)
}

/// Table 2: accuracy and time of each method per task, from runs without EOS filling.
pub fn eos_table(header: &RunHeader, samples: &[Sample]) -> Result<Table> {
    if header.eos != EosPolicy::None {
        let policy = serde_json::to_value(header.eos).ok().and_then(|v| v.as_str().map(str::to_owned));
        let problem = format!(
            "these records were made with the end-of-sequence policy {}; Table 2 needs a run with none",
            policy.unwrap_or_default()
        );
        return Err(Error::Choice { problem, remedy: Remedy::NoEosFilling });
    }
    let summary = Summary::new(samples, None)?;
    let mut columns = vec!["Benchmark".to_owned()];
    for strategy in &summary.strategies {
        let name = method(strategy);
        columns.extend([format!("{name} Acc (%)"), format!("{name} Time (s)"), format!("{name} NFE")]);
    }
    let caption = "Results without EOS filling: time of all problems, mean forward passes. Bold: best accuracy per benchmark.";
    let mut table = Table::new(caption, columns);
    for task in &summary.tasks {
        let lines: Vec<Option<&Line>> = summary.strategies.iter().map(|s| summary.cell(s, task)).collect();
        let best = lines.iter().flatten().map(|l| l.accuracy.value).fold(f64::NEG_INFINITY, f64::max);
        let mut row: Vec<Text> = vec![task.clone().into()];
        for line in lines {
            match line {
                Some(line) => row.extend([
                    Text { text: line.accuracy.percent(), bold: line.accuracy.value == best },
                    format!("{:.1}", line.seconds.wall).into(),
                    line.nfe().into(),
                ]),
                None => row.extend(["–".into(), "–".into(), "–".into()]),
            }
        }
        table.rows.push(row);
    }
    Ok(table)
}

/// A strategy as the paper's tables call it.
pub fn method(strategy: &StrategySpec) -> String {
    let given = |key: &str| strategy.given().iter().find(|(k, _)| *k == key).map(|(_, v)| v.as_str());
    let per_step = |name: &str| match given("k") {
        _ if given("steps").is_some() => strategy.to_string(),
        None => format!("{name} (1 tok)"),
        Some(k) => format!("{name} ({k} tok)"),
    };
    match strategy.name() {
        "entropy" => per_step("Entropy"),
        "top1" => per_step("Top-1"),
        "token-order" => per_step("Token Order"),
        "klass" if strategy.given().is_empty() => "KLASS".into(),
        "demask" if strategy.given().is_empty() => "DEMASK".into(),
        "klass" => strategy.to_string().replacen("klass:", "KLASS ", 1),
        "demask" => strategy.to_string().replacen("demask:", "DEMASK ", 1),
        _ => strategy.to_string(),
    }
}

#[cfg(test)]
pub(crate) mod tests;
