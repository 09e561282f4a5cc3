//! Which hidden row a predictor was trained on, where its file does not say: both conventions are tried on a few
//! responses, and the predictions compared with the dependency that is measured there (section 4.3, phase 1).
//!
//! Of the squared error only the covariance of predicted and measured tells a predictor from noise: its other parts, how
//! far predictions scatter and where they lie on average, differ between rows that were never trained on as well.
//! Responses vote: under which convention is the covariance inside their masks larger? Wilcoxon's signed ranks say which
//! way the differences go; their mean would be decided by a few responses.
//!
//! Pairs of which one is an end of sequence do not count: canvases are filled up with ends, whose dependencies follow from the
//! length alone, and whatever tells an end from a word goes with them, under either convention.

use std::collections::BTreeMap;
use std::fmt;

use demask_decode::dependency::Predictor;
use demask_engine::counted;
use demask_model::{HiddenRow, Rows};

use crate::error::{Error, Result};
use crate::fit::rank_correlation;
use crate::tv_cache::Example;

/// How well a predictor does under one convention.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Convention {
    /// The hidden row that stands for a position.
    pub row: HiddenRow,
    /// Mean squared error of its predictions.
    pub mse: f64,
    /// Spearman's correlation of predicted and measured.
    pub rank_correlation: f64,
    /// Mean covariance of predicted and measured inside a mask.
    pub covariance: f64,
}

/// Both conventions measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibration {
    /// Row `i` and row `i-1`.
    pub conventions: [Convention; 2],
    /// Error of the best constant on the same pairs.
    pub constant_mse: f64,
    /// Masks measured.
    pub examples: usize,
    /// Pairs of masked positions.
    pub pairs: usize,
    /// Responses on which the two covariances differ, and on how many of those that of row `i-1` is larger.
    pub votes: (usize, usize),
    /// Wilcoxon's signed ranks of the differences, in standard deviations of chance; above 0 speaks for row `i-1`.
    pub evidence: f64,
}

/// How seldom chance may give as clear an answer for it to count as certain. Who measures more and more until it does
/// looks several times, so this is strict.
const CERTAIN: f64 = 0.002;

impl Calibration {
    /// Tries a predictor on examples that were measured with both hidden rows; `ends` are the ids that end a response.
    pub fn of(predictor: &Predictor, examples: &[Example], ends: &[u32]) -> Result<Self> {
        // Said now and not found out below: what cannot be compared would count as no evidence.
        if let Some(example) = examples.first() {
            let row = Rows::zeros(example.positions.len(), predictor.width());
            predictor.predict(&row, &example.opinions())?;
        }
        let convention = |row: HiddenRow| -> Convention {
            let compared = |example: &Example| compared(predictor, example, row, ends);
            let pairs: Vec<(f32, f32)> = examples.iter().flat_map(compared).collect();
            let error: f64 = pairs.iter().map(|(guess, true_)| f64::from(guess - true_).powi(2)).sum();
            let mse = error / pairs.len().max(1) as f64;
            let inside: f64 = examples.iter().map(|e| covariance(&compared(e))).sum();
            let covariance = inside / examples.len().max(1) as f64;
            Convention { row, mse, rank_correlation: rank_correlation(&pairs), covariance }
        };
        let measured: Vec<f64> = examples.iter().flat_map(|e| measured(e, ends)).collect();
        if measured.len() < 2 {
            let value = counted(measured.len(), "measured pair");
            return Err(Error::Setting { name: "the data", value, allowed: "responses of several tokens" });
        }
        let differences = differences(predictor, examples, ends);
        let count = measured.len() as f64;
        let mean = measured.iter().sum::<f64>() / count;
        Ok(Self {
            conventions: [convention(HiddenRow::I), convention(HiddenRow::IMinusOne)],
            constant_mse: measured.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / count,
            examples: examples.len(),
            pairs: measured.len(),
            votes: (differences.len(), differences.iter().filter(|&&d| d > 0.0).count()),
            evidence: signed_ranks(&differences),
        })
    }

    /// The convention under which predictions go with what is measured on most responses.
    pub fn answer(&self) -> Convention {
        let [i, before] = self.conventions;
        if self.evidence > 0.0 { before } else { i }
    }

    /// How often chance would give as clear an answer, one way or the other.
    pub fn chance(&self) -> f64 {
        two_sided(self.evidence)
    }

    /// Whether chance would seldom give this answer.
    pub fn is_certain(&self) -> bool {
        self.chance() < CERTAIN
    }

    /// Whether the predictor says more than a constant would.
    pub fn beats_a_constant(&self) -> bool {
        self.answer().mse < self.constant_mse
    }
}

impl fmt::Display for Calibration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Convention { row, mse, rank_correlation, covariance } in self.conventions {
            // Named in full, because what is displayed takes no width of its own.
            let row = row.to_string();
            writeln!(
                f,
                "hidden row {row:<4} covariance {covariance:+.2e}, MSE {mse:.6}, rank correlation {rank_correlation:.4}"
            )?;
        }
        writeln!(
            f,
            "best constant   MSE {:.6} ({} of {})",
            self.constant_mse,
            counted(self.pairs, "pair"),
            counted(self.examples, "mask")
        )?;
        let (all, before) = self.votes;
        writeln!(
            f,
            "the covariance of row i-1 is larger on {before} of {}; chance alone is as clear {}",
            counted(all, "response"),
            frequency(self.chance())
        )
    }
}

/// Predicted and measured dependency of every pair of an example.
fn compared(predictor: &Predictor, example: &Example, row: HiddenRow, ends: &[u32]) -> Vec<(f32, f32)> {
    let stored = match row {
        HiddenRow::I => &example.hidden_i,
        HiddenRow::IMinusOne => &example.hidden_i_minus_1,
    };
    let Some(stored) = stored else { return Vec::new() };
    let rows = Rows { data: stored.to_f32(), width: predictor.width() };
    let Ok(predicted) = predictor.predict(&rows, &example.opinions()) else { return Vec::new() };
    let measured = example.dependency.to_f32();
    pairs(example, ends).map(|index| (predicted.data()[index], measured[index])).collect()
}

/// Where pairs of two words lie in an example's matrix.
fn pairs<'a>(example: &'a Example, ends: &'a [u32]) -> impl Iterator<Item = usize> + 'a {
    let (size, is_word) = (example.positions.len(), |at: usize| {
        example.tokens.get(example.positions[at]).is_none_or(|token| !ends.contains(token))
    });
    (0..size * size).filter(move |index| {
        let (affected, revealed) = (index / size, index % size);
        affected != revealed && is_word(affected) && is_word(revealed)
    })
}

fn measured(example: &Example, ends: &[u32]) -> Vec<f64> {
    let all = example.dependency.to_f32();
    pairs(example, ends).map(|index| f64::from(all[index])).collect()
}

/// Covariance of predicted and measured.
fn covariance(pairs: &[(f32, f32)]) -> f64 {
    let count = pairs.len().max(1) as f64;
    let mean = pairs.iter().map(|(_, measured)| f64::from(*measured)).sum::<f64>() / count;
    let each = pairs.iter().map(|(guess, measured)| f64::from(*guess) * (f64::from(*measured) - mean));
    each.sum::<f64>() / count
}

/// By how much the covariance of row `i-1` exceeds that of row `i` on each response, its masks together.
fn differences(predictor: &Predictor, examples: &[Example], ends: &[u32]) -> Vec<f64> {
    let under = |example: &Example, row: HiddenRow| covariance(&compared(predictor, example, row, ends));
    let mut responses: BTreeMap<&str, f64> = BTreeMap::new();
    for example in examples {
        let apart = under(example, HiddenRow::IMinusOne) - under(example, HiddenRow::I);
        *responses.entry(&example.id).or_default() += apart;
    }
    responses.into_values().filter(|d| *d != 0.0).collect()
}

/// Wilcoxon's signed-rank statistic over its standard deviation where signs are tossed.
fn signed_ranks(differences: &[f64]) -> f64 {
    let mut order: Vec<f64> = differences.to_vec();
    order.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    let (mut sum, mut variance, mut first) = (0.0, 0.0, 0);
    for tied in order.chunk_by(|a, b| a.abs() == b.abs()) {
        // Tied ones share the mean of their ranks.
        let rank = first as f64 + (tied.len() + 1) as f64 / 2.0;
        sum += rank * tied.iter().map(|d| d.signum()).sum::<f64>();
        variance += rank * rank * tied.len() as f64;
        first += tied.len();
    }
    if variance > 0.0 { sum / variance.sqrt() } else { 0.0 }
}

/// The share of a normal distribution at least so many standard deviations from its middle: erfc(|z|/√2), by the
/// rational approximation 7.1.26 of Abramowitz and Stegun, whose error is below 2e-7.
fn two_sided(z: f64) -> f64 {
    let x = z.abs() / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let polynomial = [1.061_405_429, -1.453_152_027, 1.421_413_741, -0.284_496_736, 0.254_829_592];
    let value = polynomial.iter().fold(0.0, |sum, coefficient| (sum + coefficient) * t);
    (value * (-x * x).exp()).clamp(0.0, 1.0)
}

/// How often something happens, in words.
fn frequency(share: f64) -> String {
    if share > 0.5 {
        return "more often than not".into();
    }
    let once_in = 1.0 / share.max(1e-6);
    let digits = 10_f64.powf((once_in.log10() - 1.0).max(0.0).floor());
    let more = if share < 1e-6 { "over " } else { "" };
    format!("once in {more}{:.0} times", (once_in / digits).round() * digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every assignment of signs to the ranks, as the definition has it.
    #[test]
    fn signed_ranks_are_those_of_all_tosses() {
        let differences = [0.3, -0.1, 0.7, 0.2, -0.5, 0.9, 1.1];
        let statistic = |signs: usize| -> f64 {
            let mut order: Vec<f64> = differences.to_vec();
            order.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
            (0..order.len()).map(|i| (i + 1) as f64 * if signs >> i & 1 == 1 { 1.0 } else { -1.0 }).sum()
        };
        let all: Vec<f64> = (0..1 << differences.len()).map(statistic).collect();
        let spread = (all.iter().map(|s| s * s).sum::<f64>() / all.len() as f64).sqrt();
        // Ranks 1, 2, 3, 4, 5, 6 and 7 of 0.1, 0.2, 0.3, 0.5, 0.7, 0.9 and 1.1.
        let ours = -1.0 + 2.0 + 3.0 - 4.0 + 5.0 + 6.0 + 7.0;
        assert!((signed_ranks(&differences) - ours / spread).abs() < 1e-12);
        assert_eq!(signed_ranks(&[1.0, -1.0]), 0.0);
        assert_eq!(signed_ranks(&[]), 0.0);
    }

    #[test]
    fn pairs_with_an_end_do_not_count() {
        let example =
            Example { tokens: vec![9, 5, 2, 6, 2], positions: vec![1, 2, 3, 4], ..Example::default() };
        // Words are the first and the third of the four masked positions.
        assert_eq!(pairs(&example, &[2]).collect::<Vec<_>>(), [2, 8]);
        assert_eq!(pairs(&example, &[]).count(), 12);
    }

    #[test]
    fn chances_are_the_table_s() {
        for (z, share) in [(0.0, 1.0), (1.0, 0.317_310_5), (-1.959_964, 0.05), (3.290_527, 0.001)] {
            assert!((two_sided(z) - share).abs() < 1e-6, "{z}: {}", two_sided(z));
        }
        assert_eq!(frequency(0.8), "more often than not");
        assert_eq!(frequency(0.05), "once in 20 times");
        assert_eq!(frequency(0.001_03), "once in 970 times");
        assert_eq!(frequency(0.0), "once in over 1000000 times");
    }
}
