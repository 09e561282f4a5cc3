//! What records say: accuracy with its standard error, steps, tokens per forward pass and time, per strategy and suite.
//!
//! The numbers of a strategy over several suites are plain means over the suites, so a large suite weighs no more than
//! a small one; the standard error of such a mean is that of independent suites. A suite in fresh wording stands beside
//! its ordinary twin and is not counted a second time.

use std::path::Path;

use demask_decode::StrategySpec;
use demask_engine::counted;
use demask_model::checkpoint::write::replace;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::report::table::Table;
use crate::run::suite::Generated;
use crate::run::{Sample, Spent};

pub use crate::report::share::{ERRORS, Share};

/// One strategy on one suite, or on all.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// The strategy.
    pub strategy: StrategySpec,
    /// The suite; `None` is the mean over all.
    pub task: Option<String>,
    /// Items.
    pub n: usize,
    /// Share of right answers.
    pub accuracy: Share,
    /// Share of responses right throughout, where the suite tells; else that of right answers.
    pub strict: Share,
    /// Mean steps of Algorithm 1.
    pub steps: f64,
    /// Mean forward passes, extra ones included.
    pub forwards: f64,
    /// Mean passes that were waited for, where speculation ran several side by side; else 0.
    pub rounds: f64,
    /// Mean rows of a second model.
    pub assistant_rows: f64,
    /// Mean calls of a small trained part, besides whole passes.
    pub inner_calls: f64,
    /// Response tokens before the end of sequence, per forward pass.
    pub tokens_per_forward: f64,
    /// Seconds of all items together.
    pub seconds: Spent,
    /// Shares by kind of item, where there is more than one.
    pub kinds: Vec<(String, Share)>,
}

impl Line {
    fn of(strategy: &StrategySpec, task: &str, samples: &[&Sample]) -> Self {
        let n = samples.len();
        let count = |of: &dyn Fn(&Sample) -> bool| samples.iter().filter(|s| of(s)).count();
        let sum = |of: &dyn Fn(&Sample) -> f64| samples.iter().map(|s| of(s)).sum::<f64>();
        let (forwards, tokens) = (sum(&|s| s.forwards as f64), sum(&|s| s.tokens as f64));
        let mut kinds: Vec<&str> = samples.iter().filter_map(|s| s.kind.as_deref()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let of_kind = |kind: &&str| {
            let all = count(&|s| s.kind.as_deref() == Some(kind));
            ((*kind).to_owned(), Share::of(count(&|s| s.kind.as_deref() == Some(kind) && s.correct), all))
        };
        Self {
            strategy: strategy.clone(),
            task: Some(task.to_owned()),
            n,
            accuracy: Share::of(count(&|s| s.correct), n),
            strict: Share::of(count(&|s| s.correct && s.strict.unwrap_or(true)), n),
            steps: sum(&|s| s.steps as f64) / n.max(1) as f64,
            forwards: forwards / n.max(1) as f64,
            rounds: sum(&|s| s.rounds as f64) / n.max(1) as f64,
            assistant_rows: sum(&|s| s.assistant_rows as f64) / n.max(1) as f64,
            inner_calls: sum(&|s| s.inner_calls as f64) / n.max(1) as f64,
            tokens_per_forward: tokens / forwards.max(1.0),
            seconds: Spent {
                wall: sum(&|s| s.seconds.wall),
                forward: sum(&|s| s.seconds.forward),
                marginals: sum(&|s| s.seconds.marginals),
                select: sum(&|s| s.seconds.select),
                extra: sum(&|s| s.seconds.extra),
            },
            kinds: if kinds.len() > 1 { kinds.iter().map(of_kind).collect() } else { Vec::new() },
        }
    }

    fn mean(strategy: &StrategySpec, lines: &[&Self]) -> Self {
        let mean =
            |of: &dyn Fn(&Self) -> f64| lines.iter().map(|l| of(l)).sum::<f64>() / lines.len().max(1) as f64;
        let sum = |of: &dyn Fn(&Self) -> f64| lines.iter().map(|l| of(l)).sum::<f64>();
        Self {
            strategy: strategy.clone(),
            task: None,
            n: lines.iter().map(|l| l.n).sum(),
            accuracy: Share::mean(&lines.iter().map(|l| l.accuracy).collect::<Vec<_>>()),
            strict: Share::mean(&lines.iter().map(|l| l.strict).collect::<Vec<_>>()),
            steps: mean(&|l| l.steps),
            forwards: mean(&|l| l.forwards),
            rounds: mean(&|l| l.rounds),
            assistant_rows: mean(&|l| l.assistant_rows),
            inner_calls: mean(&|l| l.inner_calls),
            tokens_per_forward: mean(&|l| l.tokens_per_forward),
            seconds: Spent {
                wall: sum(&|l| l.seconds.wall),
                forward: sum(&|l| l.seconds.forward),
                marginals: sum(&|l| l.seconds.marginals),
                select: sum(&|l| l.seconds.select),
                extra: sum(&|l| l.seconds.extra),
            },
            kinds: Vec::new(),
        }
    }

    /// Mean forward passes, and what besides them an item took, where it did, with the milliseconds of that.
    pub fn nfe(&self) -> String {
        let mut text = format!("{:.1}", self.forwards);
        if self.rounds > 0.0 {
            text += &format!(" in {:.1} rounds", self.rounds);
        }
        for (count, what) in [(self.assistant_rows, "assistant rows"), (self.inner_calls, "inner calls")] {
            if count > 0.0 {
                text += &format!(" + {count:.1} {what}");
            }
        }
        if self.assistant_rows + self.inner_calls > 0.0 {
            text += &format!(" ({:.1} ms)", 1e3 * self.seconds.extra / self.n.max(1) as f64);
        }
        text
    }

    /// Seconds per item.
    pub fn seconds_per_item(&self) -> f64 {
        self.seconds.wall / self.n.max(1) as f64
    }
}

/// Every strategy on every suite, in the order they were first met.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// The suites.
    pub tasks: Vec<String>,
    /// The strategies.
    pub strategies: Vec<StrategySpec>,
    /// One line per strategy and suite that has records.
    pub cells: Vec<Line>,
    /// One line per strategy: the mean over the suites it was run on.
    pub means: Vec<Line>,
    /// What speed-ups are relative to.
    pub baseline: Option<StrategySpec>,
}

impl Summary {
    /// Summarises records; without a named baseline it is one-token entropy decoding if that was run, else the first.
    pub fn new(samples: &[Sample], baseline: Option<&StrategySpec>) -> Result<Self> {
        let (mut tasks, mut strategies): (Vec<String>, Vec<StrategySpec>) = Default::default();
        for sample in samples {
            if !tasks.contains(&sample.task) {
                tasks.push(sample.task.clone());
            }
            if !strategies.contains(&sample.strategy) {
                strategies.push(sample.strategy.clone());
            }
        }
        let mut groups: std::collections::HashMap<(String, &str), Vec<&Sample>> = Default::default();
        for sample in samples {
            groups.entry((sample.strategy.to_string(), &sample.task)).or_default().push(sample);
        }
        let (mut cells, mut means) = (Vec::new(), Vec::new());
        for strategy in &strategies {
            let of = |task: &String| {
                let samples = groups.get(&(strategy.to_string(), task.as_str()))?;
                Some(Line::of(strategy, task, samples))
            };
            let lines: Vec<Line> = tasks.iter().filter_map(of).collect();
            let counted = lines.iter().filter(|line| !has_twin(line.task.as_deref(), &tasks));
            means.push(Line::mean(strategy, &counted.collect::<Vec<_>>()));
            cells.extend(lines);
        }
        let baseline = match baseline {
            Some(named) if !strategies.contains(named) => {
                return Err(Error::Nothing(format!("the baseline {named} was not run")));
            }
            Some(named) => Some(named.clone()),
            None => strategies.iter().find(|s| is_one_token_entropy(s)).or(strategies.first()).cloned(),
        };
        Ok(Self { tasks, strategies, cells, means, baseline })
    }

    /// A strategy on a suite.
    pub fn cell(&self, strategy: &StrategySpec, task: &str) -> Option<&Line> {
        self.cells.iter().find(|l| l.strategy == *strategy && l.task.as_deref() == Some(task))
    }

    /// A strategy over all suites.
    pub fn mean(&self, strategy: &StrategySpec) -> Option<&Line> {
        self.means.iter().find(|l| l.strategy == *strategy)
    }

    fn base(&self, line: &Line) -> Option<&Line> {
        let baseline = self.baseline.as_ref()?;
        match &line.task {
            Some(task) => self.cell(baseline, task),
            None => self.mean(baseline),
        }
    }

    /// How many times less wall-clock time per item than the baseline of this run.
    pub fn speed_up(&self, line: &Line) -> Option<f64> {
        let base = self.base(line)?;
        Some(base.seconds_per_item() / line.seconds_per_item()).filter(|x| x.is_finite())
    }

    /// How many times fewer forward passes than the baseline of this run.
    pub fn fewer_forwards(&self, line: &Line) -> Option<f64> {
        let base = self.base(line)?;
        Some(base.forwards / line.forwards).filter(|x| x.is_finite())
    }

    /// One row per strategy: accuracy on each suite, then the means.
    pub fn table(&self) -> Table {
        let n = self.cells.iter().map(|l| l.n).max().unwrap_or(0);
        let baseline = self.baseline.as_ref().map_or(String::new(), |b| format!("; × is relative to {b}"));
        let several = self.tasks.len() > 1;
        let mut columns = vec!["strategy".to_owned()];
        columns.extend(self.tasks.iter().cloned());
        columns.extend(several.then(|| "mean".to_owned()));
        for name in ["strict", "NFE", "tokens/NFE", "seconds", "NFE ×", "time ×"] {
            columns.push(name.into());
        }
        let caption =
            format!("Accuracy in % {ERRORS} over up to {} a task{baseline}.", counted(n, "problem"));
        let mut table = Table::new(&caption, columns);
        for line in &self.means {
            let mut row = vec![line.strategy.to_string()];
            row.extend(self.tasks.iter().map(|task| {
                self.cell(&line.strategy, task).map_or("–".into(), |cell| cell.accuracy.percent())
            }));
            row.extend(several.then(|| line.accuracy.percent()));
            let times = |x: Option<f64>| x.map_or("–".into(), |x| format!("{x:.2}"));
            row.extend([
                format!("{:.1}", 100.0 * line.strict.value),
                line.nfe(),
                format!("{:.2}", line.tokens_per_forward),
                format!("{:.1}", line.seconds.wall),
                times(self.fewer_forwards(line)),
                times(self.speed_up(line)),
            ]);
            table.rows.push(row.into_iter().map(Into::into).collect());
        }
        table
    }

    /// One row per strategy and task that was asked in both wordings; nothing where none was.
    pub fn fresh_table(&self) -> Option<Table> {
        let columns = ["strategy", "task", "test", "fresh wording", "difference"];
        let mut table = Table::new(
            &format!("Accuracy in % {ERRORS} on test problems in usual and in fresh wording."),
            columns,
        );
        for line in &self.cells {
            let fresh = line.task.as_deref().and_then(Generated::fresh_name);
            let Some(fresh) = fresh.and_then(|name| self.cell(&line.strategy, &name)) else { continue };
            let difference = 100.0 * (fresh.accuracy.value - line.accuracy.value);
            let task = line.task.clone().unwrap_or_default();
            let shares = [line.accuracy.percent(), fresh.accuracy.percent(), format!("{difference:+.1}")];
            let row = [line.strategy.to_string(), task].into_iter().chain(shares);
            table.rows.push(row.map(Into::into).collect());
        }
        (!table.rows.is_empty()).then_some(table)
    }

    /// Every cell with every number.
    pub fn long_table(&self) -> Table {
        let mut table = Table::new(
            "",
            [
                "strategy",
                "task",
                "n",
                "accuracy",
                "accuracy_se",
                "accuracy_low",
                "accuracy_high",
                "strict",
                "strict_se",
                "strict_low",
                "strict_high",
                "steps",
                "forwards",
                "tokens_per_forward",
                "seconds",
                "forward_seconds",
                "marginals_seconds",
                "select_seconds",
                "forwards_speed_up",
                "time_speed_up",
                "assistant_rows",
                "inner_calls",
                "extra_seconds",
                "rounds",
            ],
        );
        for line in self.cells.iter().chain(&self.means) {
            let number = |x: f64| format!("{x:.6}");
            let row = [
                line.strategy.to_string(),
                line.task.clone().unwrap_or_else(|| "mean".into()),
                line.n.to_string(),
                number(line.accuracy.value),
                number(line.accuracy.error),
                number(line.accuracy.low),
                number(line.accuracy.high),
                number(line.strict.value),
                number(line.strict.error),
                number(line.strict.low),
                number(line.strict.high),
                number(line.steps),
                number(line.forwards),
                number(line.tokens_per_forward),
                number(line.seconds.wall),
                number(line.seconds.forward),
                number(line.seconds.marginals),
                number(line.seconds.select),
                self.fewer_forwards(line).map_or(String::new(), number),
                self.speed_up(line).map_or(String::new(), number),
                number(line.assistant_rows),
                number(line.inner_calls),
                number(line.seconds.extra),
                number(line.rounds),
            ];
            table.rows.push(row.into_iter().map(Into::into).collect());
        }
        table
    }

    /// Accuracy by kind of item, one row per kind.
    pub fn kinds_table(&self) -> Table {
        let mut columns = vec!["kind".to_owned()];
        columns.extend(self.strategies.iter().map(ToString::to_string));
        let mut table = Table::new("Accuracy in % ± standard error by kind of problem.", columns);
        let mut kinds: Vec<&str> = self.cells.iter().flat_map(|l| &l.kinds).map(|k| k.0.as_str()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        for kind in kinds {
            let share = |strategy: &StrategySpec| {
                let cells = self.cells.iter().filter(|l| l.strategy == *strategy);
                let found = cells.flat_map(|l| &l.kinds).find(|k| k.0 == kind);
                found.map_or("–".into(), |k| k.1.percent())
            };
            let mut row = vec![kind.to_owned()];
            row.extend(self.strategies.iter().map(share));
            table.rows.push(row.into_iter().map(Into::into).collect());
        }
        table
    }

    /// Writes `summary.json`, `summary.csv` (every cell) and `table.md`, `table.csv`, `table.tex` into a folder, and the
    /// same three of `fresh` where tasks were asked in both wordings.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let path = folder.join("summary.json");
        let json = serde_json::to_string_pretty(self).map_err(|e| Error::write(&path)(e.into()))?;
        replace(&path, |out| writeln!(out, "{json}"))?;
        let csv = self.long_table().csv();
        replace(&folder.join("summary.csv"), |out| out.write_all(csv.as_bytes()))?;
        if let Some(table) = self.fresh_table() {
            table.write(&folder.join("fresh"))?;
        }
        self.table().write(&folder.join("table"))
    }
}

/// Whether a suite is the fresh wording of another one of these.
pub(super) fn has_twin(task: Option<&str>, tasks: &[String]) -> bool {
    tasks.iter().any(|other| Generated::fresh_name(other).as_deref() == task)
}

/// The paper's baseline: entropy, one token a step.
pub fn is_one_token_entropy(strategy: &StrategySpec) -> bool {
    strategy.name() == "entropy"
        && strategy
            .given()
            .iter()
            .all(|(key, value)| key == "k" && value == "1" || !["k", "steps"].contains(&key.as_str()))
}

#[cfg(test)]
mod tests;
