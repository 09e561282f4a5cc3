//! Two strategies on the same problems: who answered what the other did not, an exact test of that, and the difference of
//! their means with its interval.
//!
//! Problems differ far more than decoders do, so unpaired standard errors hide most differences; here only problems on which
//! the two disagree count. Means are over suites, as in the [summary](super::summary): a suite in fresh wording is not counted
//! a second time.

use std::collections::{BTreeMap, HashMap};

use demask_decode::StrategySpec;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::report::summary::{Share, Summary, has_twin};
use crate::report::table::{Table, Text};
use crate::run::Sample;
use crate::run::pick::Picked;

/// Half the width of a 95 % interval in standard errors.
const Z95: f64 = 1.959_963_984_540_054;

/// A mean difference with its standard error.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Difference {
    /// Mean over suites of the mean over problems.
    pub value: f64,
    /// Its standard error, of the paired differences.
    pub error: f64,
}

impl Difference {
    /// The 95 % interval.
    pub fn interval(&self) -> (f64, f64) {
        (self.value - Z95 * self.error, self.value + Z95 * self.error)
    }

    fn of(by_task: &BTreeMap<&str, Vec<f64>>) -> Self {
        let (mut value, mut variance) = (0.0, 0.0);
        for differences in by_task.values() {
            let n = differences.len() as f64;
            let mean = differences.iter().sum::<f64>() / n;
            let squares: f64 = differences.iter().map(|d| (d - mean).powi(2)).sum();
            value += mean;
            variance += squares / (n - 1.0).max(1.0) / n;
        }
        let tasks = by_task.len().max(1) as f64;
        Self { value: value / tasks, error: variance.sqrt() / tasks }
    }
}

/// A strategy beside a reference.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Paired {
    /// The strategy.
    pub strategy: StrategySpec,
    /// What it is compared with.
    pub reference: StrategySpec,
    /// Problems both answered.
    pub n: usize,
    /// Problems that it got right and the reference did not.
    pub won: usize,
    /// Problems that the reference got right and it did not.
    pub lost: usize,
    /// Two-sided exact p-value of the sign test on those.
    pub p: f64,
    /// Accuracy of the strategy less that of the reference.
    pub accuracy: Difference,
    /// The same of forward passes.
    pub forwards: Difference,
}

impl Paired {
    /// Of records; both must have answered the same problems.
    pub fn of(samples: &[Sample], strategy: &StrategySpec, reference: &StrategySpec) -> Result<Self> {
        let mut tasks: Vec<String> = samples.iter().map(|s| s.task.clone()).collect();
        tasks.sort_unstable();
        tasks.dedup();
        let (ours, theirs) = (answers(samples, strategy, &tasks), answers(samples, reference, &tasks));
        if ours.is_empty() || ours.len() != theirs.len() || ours.keys().any(|key| !theirs.contains_key(key)) {
            return Err(Error::Nothing(format!(
                "{strategy} answered {} problems and {reference} {}, which are not the same ones, so that they cannot be \
                 compared problem by problem",
                ours.len(),
                theirs.len()
            )));
        }
        let (mut won, mut lost) = (0, 0);
        let mut accuracy: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        let mut forwards: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        let mut keys: Vec<_> = ours.keys().copied().collect();
        keys.sort_unstable();
        for key in keys {
            let (own, other) = (ours[&key], theirs[&key]);
            won += usize::from(own.correct && !other.correct);
            lost += usize::from(other.correct && !own.correct);
            let right = |s: &Sample| f64::from(u8::from(s.correct));
            accuracy.entry(key.0).or_default().push(right(own) - right(other));
            forwards.entry(key.0).or_default().push(own.forwards as f64 - other.forwards as f64);
        }
        Ok(Self {
            strategy: strategy.clone(),
            reference: reference.clone(),
            n: ours.len(),
            won,
            lost,
            p: sign_test(won, lost),
            accuracy: Difference::of(&accuracy),
            forwards: Difference::of(&forwards),
        })
    }
}

/// What a strategy answered, by problem; a suite in fresh wording is left out where its twin is there.
fn answers<'a>(
    samples: &'a [Sample],
    wanted: &StrategySpec,
    tasks: &[String],
) -> HashMap<(&'a str, usize, &'a str), &'a Sample> {
    let own = samples.iter().filter(|s| s.strategy == *wanted && !has_twin(Some(s.task.as_str()), tasks));
    own.map(|s| ((s.task.as_str(), s.index, s.id.as_str()), s)).collect()
}

/// Two-sided exact p-value of `won` and `lost` where either is as likely: the sign test, McNemar's in its exact form.
///
/// ```
/// use demask_eval::report::paired::sign_test;
/// assert_eq!(sign_test(5, 5), 1.0);
/// // 2·(1 + 10)/2¹⁰
/// assert!((sign_test(9, 1) - 22.0 / 1024.0).abs() < 1e-12);
/// ```
pub fn sign_test(won: usize, lost: usize) -> f64 {
    let (n, few) = (won + lost, won.min(lost));
    // ln C(n, k), one factor after the other.
    let mut log_choose = 0.0_f64;
    let mut tail = 0.0_f64;
    for k in 0..=few {
        if k > 0 {
            log_choose += ((n - k + 1) as f64).ln() - (k as f64).ln();
        }
        tail += (log_choose - n as f64 * std::f64::consts::LN_2).exp();
    }
    (2.0 * tail).min(1.0)
}

/// The table of a comparison: what picked each row, its numbers, and the paired difference to the reference.
pub fn table(samples: &[Sample], picked: &Picked, reference: &StrategySpec) -> Result<Table> {
    let summary = Summary::new(samples, Some(reference))?;
    let fresh = fresh_means(&summary);
    let n = summary.cells.iter().map(|cell| cell.n).max().unwrap_or(0);
    let caption = format!(
        "Accuracy in % ± standard error, up to {n} problems a task. Picked by: {}. Difference: accuracy less that of {reference} on the \
         same problems, 95 % interval; won and lost: problems that one of the two got right and the other not; p: exact \
         two-sided sign test on those, not corrected for the number of rows. Passes: forward passes less those of {reference} on the \
         same problems, 95 % interval. Seconds are of whole batches where problems were decoded together.",
        picked.legend()
    );
    let mut columns = vec!["strategy", "picked by", "accuracy", "strict"];
    columns.extend(fresh.is_some().then_some("fresh wording"));
    columns.extend([
        "NFE",
        "tokens/NFE",
        "NFE ×",
        "s/problem",
        "difference",
        "won/lost",
        "p",
        "passes, difference",
    ]);
    let mut table = Table::new(&caption, columns);
    for line in &summary.means {
        let mut row: Vec<Text> = vec![
            line.strategy.to_string().into(),
            picked.by(&line.strategy).into(),
            line.accuracy.percent().into(),
            line.strict.percent().into(),
        ];
        if let Some(fresh) = &fresh {
            let share = fresh.iter().find(|(strategy, _)| *strategy == line.strategy);
            row.push(share.map_or("–".into(), |(_, share)| share.percent()).into());
        }
        row.push(line.nfe().into());
        row.push(format!("{:.2}", line.tokens_per_forward).into());
        row.push(summary.fewer_forwards(line).map_or("–".into(), |x| format!("{x:.2}")).into());
        row.push(format!("{:.3}", line.seconds_per_item()).into());
        if line.strategy == *reference {
            row.extend(["–", "–", "–", "–"].map(Into::into));
        } else {
            let paired = Paired::of(samples, &line.strategy, reference)?;
            let (low, high) = paired.accuracy.interval();
            let percent = |x: f64| format!("{:+.2}", 100.0 * x);
            row.push(
                format!("{} [{}, {}]", percent(paired.accuracy.value), percent(low), percent(high)).into(),
            );
            row.push(format!("+{}/−{}", paired.won, paired.lost).into());
            row.push(probability(paired.p).into());
            let (low, high) = paired.forwards.interval();
            row.push(format!("{:+.2} [{low:+.2}, {high:+.2}]", paired.forwards.value).into());
        }
        table.rows.push(row);
    }
    Ok(table)
}

/// Mean accuracy of each strategy on the suites in fresh wording; nothing where none was asked.
fn fresh_means(summary: &Summary) -> Option<Vec<(StrategySpec, Share)>> {
    let mean = |strategy: &StrategySpec| {
        let own = summary.cells.iter().filter(|cell| cell.strategy == *strategy);
        let fresh = own.filter(|cell| has_twin(cell.task.as_deref(), &summary.tasks));
        let fresh: Vec<Share> = fresh.map(|cell| cell.accuracy).collect();
        (!fresh.is_empty()).then(|| (strategy.clone(), Share::mean(&fresh)))
    };
    let means: Vec<_> = summary.strategies.iter().filter_map(mean).collect();
    (!means.is_empty()).then_some(means)
}

fn probability(p: f64) -> String {
    if p < 0.001 { format!("{p:.0e}") } else { format!("{p:.3}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::paper::tests::sample;
    use crate::run::pick::Pick;

    /// Two tasks of four problems; problem by problem who was right.
    fn samples() -> Vec<Sample> {
        let mut all = Vec::new();
        for (strategy, first, second) in
            [("entropy", [1, 1, 0, 0], [1, 1, 1, 0]), ("demask", [1, 0, 1, 1], [1, 1, 1, 0])]
        {
            for (task, right) in [("a", first), ("b", second)] {
                all.extend(right.iter().enumerate().map(|(i, &r)| Sample {
                    forwards: if strategy == "demask" { 2 + i } else { 10 },
                    ..sample(strategy, task, i, r == 1, 1.0)
                }));
            }
        }
        all
    }

    fn spec(text: &str) -> StrategySpec {
        text.parse().unwrap()
    }

    #[test]
    fn the_exact_test_by_hand_and_against_the_sum() {
        assert_eq!((sign_test(0, 0), sign_test(3, 3)), (1.0, 1.0));
        assert!((sign_test(0, 5) - 0.0625).abs() < 1e-12 && (sign_test(5, 0) - 0.0625).abs() < 1e-12);
        for (won, lost) in [(3, 17), (8, 12), (1, 29)] {
            let n: u64 = won + lost;
            let choose = |k: u64| (1..=k).fold(1.0, |c, i| c * (n - k + i) as f64 / i as f64);
            let sum: f64 = (0..=won.min(lost)).map(choose).sum::<f64>() / 2.0_f64.powi(n as i32);
            assert!((sign_test(won as usize, lost as usize) - 2.0 * sum).abs() < 1e-9);
        }
        assert!(sign_test(1200, 1300) > 0.04 && sign_test(1200, 1300) < 0.05, "{}", sign_test(1200, 1300));
        assert!(sign_test(0, 2500) < 1e-300 || sign_test(0, 2500) == 0.0);
    }

    #[test]
    fn pairs_are_counted_problem_by_problem() {
        let paired = Paired::of(&samples(), &spec("demask"), &spec("entropy")).unwrap();
        assert_eq!((paired.n, paired.won, paired.lost, paired.p), (8, 2, 1, 1.0));
        // Task a: differences 0, −1, +1, +1, mean 0.25, variance 11/12; task b: all 0.
        assert!((paired.accuracy.value - 0.125).abs() < 1e-12);
        assert!((paired.accuracy.error - (11.0_f64 / 12.0 / 4.0).sqrt() / 2.0).abs() < 1e-12);
        let (low, high) = paired.accuracy.interval();
        assert!(low < 0.0 && high > 0.25 && (low + high - 0.25).abs() < 1e-12);
        assert!((paired.forwards.value - (3.5 - 10.0)).abs() < 1e-12);
        let fewer: Vec<Sample> = samples().into_iter().skip(1).collect();
        let error = Paired::of(&fewer, &spec("demask"), &spec("entropy")).unwrap_err().to_string();
        assert!(error.contains("not the same ones"), "{error}");
    }

    #[test]
    fn fresh_wording_has_a_column_and_is_not_counted_twice() {
        let mut all = samples();
        let fresh: Vec<Sample> = all
            .iter()
            .filter(|s| s.task == "a")
            .map(|s| Sample { task: "a:fresh".into(), correct: false, ..s.clone() })
            .collect();
        all.extend(fresh);
        let paired = Paired::of(&all, &spec("demask"), &spec("entropy")).unwrap();
        assert_eq!(paired.n, 8);
        let picked = Picked {
            rule: "the fastest that is good".into(),
            split: "validation".into(),
            tasks: vec!["a".into()],
            problems: 50,
            picks: vec![Pick { method: "demask".into(), strategy: spec("demask"), tried: 60 }],
        };
        let table = table(&all, &picked, &spec("entropy")).unwrap();
        assert!(table.columns.contains(&"fresh wording".to_owned()));
        let cell = |row: usize, column: &str| {
            let at = table.columns.iter().position(|c| c == column).unwrap();
            table.rows[row][at].text.clone()
        };
        assert_eq!((cell(0, "picked by"), cell(1, "picked by")), ("nobody".into(), "the rule, of 60".into()));
        assert_eq!(
            (cell(0, "p"), cell(1, "p"), cell(1, "won/lost")),
            ("–".into(), "1.000".into(), "+2/−1".into())
        );
        assert_eq!(cell(1, "fresh wording"), "0.0 [0.0, 49.0]");
        // Four problems of two tasks, 2 to 5 passes instead of 10.
        let passes = cell(1, "passes, difference");
        assert!(passes.starts_with("-6.50 [-7.") && passes.ends_with("-5.61]"), "{passes}");
        assert!(
            table.caption.contains("the fastest that is good") && table.caption.contains("50"),
            "{}",
            table.caption
        );
    }
}
