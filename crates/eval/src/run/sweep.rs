//! A grid of configurations on validation problems: every one of them, or by successive halving; then the chosen
//! configuration of each strategy by a stated rule.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::path::Path;

use demask_decode::StrategySpec;
use demask_engine::Model;
use demask_model::checkpoint::write::replace;

use crate::error::{Error, Result};
use crate::report::frontier::{Point, aups, frontier, methods, points, ranks};
use crate::report::summary::Summary;
use crate::report::table::{Table, Text};
use crate::report::tradeoff::Tradeoff;
use crate::run::grid::Grid;
use crate::run::pick::{Pick, Picked};
use crate::run::suite::Suite;
use crate::run::{self, Plan, Records, RunProgress, Sample};

/// How the configuration of a strategy is chosen.
pub const RULE: &str = "Of each strategy, the configuration with the fewest forward passes whose accuracy is at most one \
                        standard error below the best of that strategy, on these problems; of several, the more accurate.";

/// Fewest problems of a round of halving.
const SMALLEST_ROUND: usize = 16;

/// Runs a grid; returns the configurations that were run on all problems, the baseline first, or `Break` if `watch`
/// ended it. `suites` makes the suites with a given number of problems each.
pub fn run(
    model: &Model,
    suites: &dyn Fn(usize) -> Result<Vec<Box<dyn Suite>>>,
    grid: &Grid,
    problems: &Problems,
    plan: &Plan,
    records: &mut Records,
    watch: &mut dyn FnMut(RunProgress<'_>) -> ControlFlow<()>,
) -> Result<ControlFlow<(), Vec<StrategySpec>>> {
    let mut left: Vec<StrategySpec> = vec![grid.baseline.clone()];
    left.extend(grid.configurations.iter().filter(|c| **c != grid.baseline).cloned());
    let rounds = problems.rounds();
    for (number, &n) in rounds.iter().enumerate() {
        let suites = suites(n)?;
        if run::run(model, &suites, &left, plan, records, watch)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        if number + 1 < rounds.len() {
            let of_round: Vec<Sample> = records
                .samples()
                .iter()
                .filter(|s| s.index < n && left.contains(&s.strategy))
                .cloned()
                .collect();
            let points = grid.label(points(&Summary::new(&of_round, Some(&grid.baseline))?));
            left = better_half(&points, &grid.baseline);
        }
    }
    Ok(ControlFlow::Continue(left))
}

/// How many problems of each suite, and whether all configurations see all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Problems {
    /// Problems of each suite.
    pub limit: usize,
    /// Start with a quarter of them and drop half of the configurations twice.
    pub halving: bool,
}

impl Problems {
    fn rounds(self) -> Vec<usize> {
        let mut rounds = vec![self.limit];
        while self.halving && rounds.len() < 3 && rounds[0] / 2 >= SMALLEST_ROUND {
            rounds.insert(0, rounds[0] / 2);
        }
        rounds
    }
}

/// The baseline and, of each method, the half nearest to its frontier.
fn better_half(points: &[Point], baseline: &StrategySpec) -> Vec<StrategySpec> {
    let mut kept = vec![baseline.clone()];
    for method in methods(points) {
        let own: Vec<Point> =
            points.iter().filter(|p| p.method == method && p.strategy != *baseline).cloned().collect();
        let ranks = ranks(&own);
        let mut order: Vec<usize> = (0..own.len()).collect();
        order.sort_by(|&a, &b| {
            let accuracy = own[b].accuracy.value.total_cmp(&own[a].accuracy.value);
            ranks[a].cmp(&ranks[b]).then(accuracy).then(a.cmp(&b))
        });
        order.truncate(own.len().div_ceil(2));
        order.sort_unstable();
        kept.extend(order.into_iter().map(|i| own[i].strategy.clone()));
    }
    kept
}

/// The chosen configuration of every method, by [`RULE`].
pub fn choose(points: &[Point]) -> Vec<&Point> {
    let choice = |method| {
        let own: Vec<&Point> = points.iter().filter(|p| p.method == method).collect();
        let best = own.iter().max_by(|a, b| a.accuracy.value.total_cmp(&b.accuracy.value));
        let floor = best.map_or(0.0, |b| b.accuracy.value - b.accuracy.error);
        let good = own.into_iter().filter(|p| p.accuracy.value >= floor);
        good.min_by(|a, b| {
            a.forwards.total_cmp(&b.forwards).then(b.accuracy.value.total_cmp(&a.accuracy.value))
        })
    };
    methods(points).into_iter().filter_map(choice).collect()
}

/// What a sweep found.
pub struct Report {
    /// Every configuration that saw all problems.
    pub points: Vec<Point>,
    /// The sums behind them.
    pub summary: Summary,
    /// How many configurations of each method were tried, those among them that halving dropped.
    pub tried: BTreeMap<String, usize>,
}

impl Report {
    /// Of the configurations that saw all problems.
    pub fn new(samples: &[Sample], complete: &[StrategySpec], grid: &Grid) -> Result<Self> {
        let whole: Vec<Sample> = samples.iter().filter(|s| complete.contains(&s.strategy)).cloned().collect();
        let summary = Summary::new(&whole, Some(&grid.baseline).filter(|b| complete.contains(b)))?;
        let mut tried = BTreeMap::new();
        let configurations: BTreeMap<String, &StrategySpec> =
            samples.iter().map(|s| (s.strategy.to_string(), &s.strategy)).collect();
        for configuration in configurations.values() {
            *tried.entry(grid.method(configuration).to_owned()).or_insert(0) += 1;
        }
        Ok(Self { points: grid.label(points(&summary)), summary, tried })
    }

    /// Of points that all saw all problems.
    pub fn whole(points: Vec<Point>, summary: Summary) -> Self {
        let mut tried = BTreeMap::new();
        points.iter().for_each(|point| *tried.entry(point.method.clone()).or_insert(0) += 1);
        Self { points, summary, tried }
    }

    /// The chosen configuration and the AUP of every method.
    pub fn table(&self) -> Table {
        let mut table =
            Table::new(RULE, ["strategy", "chosen", "accuracy %", "NFE", "NFE ×", "on frontier", "AUP"]);
        let front: Vec<&Point> = frontier(&self.points.iter().collect::<Vec<_>>());
        let chosen = choose(&self.points);
        for (name, aup) in aups(&self.points) {
            let Some(point) = chosen.iter().find(|p| p.method == name) else { continue };
            let line = self.summary.mean(&point.strategy);
            let fewer = line.and_then(|l| self.summary.fewer_forwards(l));
            let own = front.iter().filter(|p| p.method == name).count();
            let row: [Text; 7] = [
                name.into(),
                point.strategy.to_string().into(),
                point.accuracy.percent().into(),
                line.map_or_else(|| format!("{:.1}", point.forwards), |l| l.nfe()).into(),
                fewer.map_or("–".into(), |x| format!("{x:.2}")).into(),
                own.to_string().into(),
                format!("{aup:.1}").into(),
            ];
            table.rows.push(row.into());
        }
        table
    }

    /// What the rule picks, with what it was picked from. Refuses configurations that saw different problems.
    pub fn picked(&self, split: &str) -> Result<Picked> {
        for task in &self.summary.tasks {
            let cells =
                self.summary.strategies.iter().map(|s| self.summary.cell(s, task).map_or(0, |cell| cell.n));
            let counts: Vec<usize> = cells.collect();
            if let Some(other) = counts.iter().find(|&&n| n != counts[0]) {
                return Err(Error::Data(format!(
                    "of {task}, some configurations saw {} problems and some {other}, so that no rule can choose among them \
                     fairly; finish the run first",
                    counts[0]
                )));
            }
        }
        let pick = |point: &Point| Pick {
            method: point.method.clone(),
            strategy: point.strategy.clone(),
            tried: self.tried.get(&point.method).copied().unwrap_or(1),
        };
        Ok(Picked {
            rule: RULE.into(),
            split: split.into(),
            tasks: self.summary.tasks.clone(),
            problems: self.summary.cells.iter().map(|cell| cell.n).max().unwrap_or(0),
            picks: choose(&self.points).into_iter().map(pick).collect(),
        })
    }

    /// Writes `summary.json`, `summary.csv`, `chosen.{md,csv,tex}`, `chosen.json` (what was picked by which rule) and
    /// `chosen.txt` (one spelling per line) and `NAME.{svg,png}`.
    pub fn write(&self, folder: &Path, name: &str, title: &str, split: &str) -> Result<()> {
        self.summary.write(folder)?;
        self.picked(split)?.write(folder)?;
        self.table().write(&folder.join("chosen"))?;
        let mut lines = String::new();
        choose(&self.points).iter().for_each(|p| _ = writeln!(lines, "{}", p.strategy));
        replace(&folder.join("chosen.txt"), |out| out.write_all(lines.as_bytes()))?;
        let several = |p: &&Point| self.points.iter().filter(|other| other.method == p.method).count() > 1;
        let chosen = choose(&self.points).into_iter().filter(several).collect();
        Ok(demask_plot::write(
            &folder.join(name),
            &Tradeoff { title: title.into(), points: &self.points, chosen },
        )?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::paper::tests::sample;
    use crate::report::summary::Share;

    fn point(spelling: &str, forwards: f64, accuracy: f64) -> Point {
        let strategy: StrategySpec = spelling.parse().unwrap();
        Point {
            method: strategy.name().into(),
            strategy,
            forwards,
            accuracy: Share::known(accuracy, 0.02),
            tokens_per_forward: 1.0,
        }
    }

    #[test]
    fn the_rule_takes_the_fastest_within_one_standard_error_of_the_best() {
        let points = [
            point("demask:tau=0.01", 20.0, 0.90),
            point("demask:tau=0.1", 10.0, 0.885),
            point("demask:tau=0.5", 5.0, 0.87),
            point("threshold", 12.0, 0.5),
        ];
        let chosen = choose(&points);
        assert_eq!(chosen.iter().map(|p| p.forwards).collect::<Vec<_>>(), [10.0, 12.0]);
    }

    /// A choice of three out of which halving dropped two is a choice of three.
    #[test]
    fn what_halving_dropped_was_tried_too() {
        let grid = "baseline = \"entropy\"\n[[grid]]\nlabel = \"ours\"\nstrategy = \"demask\"\ntau = [0.01, 0.1, 0.5]";
        let grid = Grid::parse("g.toml", grid).unwrap();
        let seen = [("entropy", 2), ("demask:tau=0.01", 2), ("demask:tau=0.1", 1), ("demask:tau=0.5", 1)];
        let samples: Vec<Sample> = seen
            .iter()
            .flat_map(|&(name, n)| (0..n).map(move |i| sample(name, "arith", i, true, 1.0)))
            .collect();
        let complete: Vec<StrategySpec> =
            ["entropy", "demask:tau=0.01"].map(|name| name.parse().unwrap()).into();
        let picked = Report::new(&samples, &complete, &grid).unwrap().picked("validation").unwrap();
        let ours = picked.picks.iter().find(|pick| pick.method == "ours").unwrap();
        assert_eq!((ours.tried, picked.problems), (3, 2));
    }

    #[test]
    fn halving_keeps_the_baseline_and_the_better_half_of_each_strategy() {
        let points = [
            point("entropy", 30.0, 0.9),
            point("demask:tau=0.01", 20.0, 0.9),
            point("demask:tau=0.02", 21.0, 0.8),
            point("demask:tau=0.1", 10.0, 0.85),
            point("klass:conf=0.9", 12.0, 0.5),
        ];
        let kept = better_half(&points, &"entropy".parse().unwrap());
        let kept: Vec<String> = kept.iter().map(ToString::to_string).collect();
        assert_eq!(kept, ["entropy", "demask:tau=0.01", "demask:tau=0.1", "klass:conf=0.9"]);
        assert_eq!(Problems { limit: 100, halving: true }.rounds(), [25, 50, 100]);
        assert_eq!(Problems { limit: 40, halving: true }.rounds(), [20, 40]);
        assert_eq!(Problems { limit: 100, halving: false }.rounds(), [100]);
    }
}
