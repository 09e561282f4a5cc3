//! How good a predictor is, beside what is possible: the best constant, a table over distance, and the part of the
//! error that no predictor can explain because the revealed tokens are drawn at random.

use std::fmt;
use std::path::Path;

use demask_decode::dependency::{Measure, Predictor};
use demask_engine::counted;
use demask_model::checkpoint::write;
use demask_model::{HiddenRow, Rows};
use serde::{Deserialize, Serialize};

use super::curve::Curve;
use super::figure::FitFigure;
use super::split::Split;
use crate::error::{Error, Result};
use crate::tv_cache::{Cache, Columns, Distances, Example, Numbers, Repeats};

/// Pairs that ranks and calibration are computed on, at most.
const PAIRS: usize = 1 << 20;
/// Bins of the calibration curve, with equally many pairs each.
const BINS: usize = 20;

/// A bin of the calibration curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bin {
    /// Mean prediction.
    pub predicted: f64,
    /// Mean measured dependency.
    pub measured: f64,
    /// Pairs in it.
    pub pairs: usize,
}

/// Numbers of a trained predictor on the held-out responses.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Report {
    /// Which hidden row stands for a position.
    pub hidden_row: String,
    /// What is predicted: total variation, or divergence.
    #[serde(default)]
    pub measure: Measure,
    /// Error of the predictor.
    pub validation_mse: f64,
    /// Error of the training mean.
    pub constant_mse: f64,
    /// Error of the training mean at each distance.
    pub distance_mse: f64,
    /// Variance over draws of one mask, over the whole cache, where masks were drawn twice.
    pub irreducible_mse: Option<f64>,
    /// Share of the variance of the held-out pairs that is explained.
    pub r_squared: f64,
    /// Spearman's correlation of predicted and measured.
    pub rank_correlation: f64,
    /// Predicted against measured, by ascending prediction.
    pub calibration: Vec<Bin>,
    /// Training examples.
    pub training_examples: usize,
    /// Held-out examples.
    pub validation_examples: usize,
    /// Held-out pairs.
    pub validation_pairs: u64,
    /// Step of the kept weights.
    pub best_step: u64,
    /// Steps of the run.
    pub steps: u64,
}

/// Predictions that look at no hidden row.
pub(super) struct Baselines {
    distances: Distances,
    repeats: Repeats,
    measure: Measure,
}

impl Baselines {
    /// Reads every matrix of the cache once; means are over the training side.
    pub(super) fn of(cache: &Cache, split: &Split, measure: Measure) -> Result<Self> {
        let mut baselines = Self { distances: Distances::default(), repeats: Repeats::default(), measure };
        let mut training = split.training.iter().peekable();
        let columns = Columns::of(measure);
        for file in 0..cache.manifest().files.len() {
            let mut last: Option<(Example, Vec<f32>)> = None;
            for (row, example) in cache.read(file, columns)?.into_iter().enumerate() {
                let values = example.measured(measure);
                if training.next_if(|place| place.file == file && place.row == row).is_some() {
                    baselines.distances.add(&example.positions, &values);
                }
                if let Some((before, first)) =
                    last.filter(|(e, _)| e.id == example.id && e.mask == example.mask)
                {
                    baselines.repeats.add(&first, &values, before.positions.len());
                }
                last = Some((example, values));
            }
        }
        Ok(baselines)
    }
}

impl Report {
    /// Compares the predictions for held-out examples, one matrix after another, with what was measured.
    pub(super) fn new(baselines: &Baselines, held: &[Example], predicted: &[f32]) -> Self {
        let constant = baselines.distances.overall();
        let mut sums = Sums::default();
        let mut sample = Vec::new();
        let pairs: usize = held.iter().map(|e| e.positions.len() * (e.positions.len() - 1)).sum();
        let stride = pairs.div_ceil(PAIRS).max(1);
        let mut start = 0;
        for example in held {
            let (positions, measured) = (&example.positions, example.measured(baselines.measure));
            let size = positions.len();
            for index in (0..size * size).filter(|index| index / size != index % size) {
                let (target, guess) = (f64::from(measured[index]), f64::from(predicted[start + index]));
                let by_distance = baselines.distances.mean(positions[index / size], positions[index % size]);
                sums.add(target, guess, constant, by_distance);
                if sums.pairs % stride as u64 == 0 {
                    sample.push((predicted[start + index], measured[index]));
                }
            }
            start += size * size;
        }
        let count = sums.pairs.max(1) as f64;
        let variance = (sums.squares / count - (sums.sum / count).powi(2)).max(1e-30);
        Self {
            validation_mse: sums.error / count,
            constant_mse: sums.constant / count,
            distance_mse: sums.distance / count,
            irreducible_mse: baselines.repeats.variance(),
            r_squared: 1.0 - sums.error / count / variance,
            rank_correlation: rank_correlation(&sample),
            calibration: calibration(sample),
            measure: baselines.measure,
            validation_examples: held.len(),
            validation_pairs: sums.pairs,
            ..Self::default()
        }
    }

    /// Of a predictor on examples that were measured with its hidden rows. Means of baselines are taken on every other
    /// response and compared on the rest.
    pub fn of(predictor: &Predictor, examples: &[Example]) -> Result<Self> {
        let row = predictor.metadata().hidden_row;
        let measure = predictor.metadata().measure;
        let mut baselines =
            Baselines { measure, distances: Distances::default(), repeats: Repeats::default() };
        let (mut held, mut predicted): (Vec<Example>, Vec<f32>) = (Vec::new(), Vec::new());
        let mut number = 0;
        for (index, example) in examples.iter().enumerate() {
            let values = example.measured(measure);
            let before = index.checked_sub(1).map(|index| &examples[index]);
            if let Some(first) = before.filter(|e| e.id == example.id && e.mask == example.mask) {
                baselines.repeats.add(&first.measured(measure), &values, example.positions.len());
            }
            number += usize::from(before.is_none_or(|e| e.id != example.id));
            if number % 2 == 1 {
                baselines.distances.add(&example.positions, &values);
                continue;
            }
            let stored = match row {
                HiddenRow::I => &example.hidden_i,
                HiddenRow::IMinusOne => &example.hidden_i_minus_1,
            };
            let rows = stored.as_ref().map(Numbers::to_f32).unwrap_or_default();
            let rows = Rows { data: rows, width: predictor.width() };
            predicted.extend(predictor.predict(&rows, &example.opinions())?.data());
            held.push(example.clone());
        }
        if held.is_empty() {
            let value = counted(number, "usable response");
            return Err(Error::Setting { name: "the data", value, allowed: "at least two" });
        }
        let report = Self::new(&baselines, &held, &predicted);
        Ok(Self { hidden_row: row.to_string(), training_examples: examples.len() - held.len(), ..report })
    }

    /// Whether a constant would do better.
    pub fn is_worse_than_a_constant(&self) -> bool {
        self.validation_mse >= self.constant_mse
    }

    /// Share of what can be explained over a constant that the predictor explains.
    pub fn explained(&self) -> Option<f64> {
        let room = self.constant_mse - self.irreducible_mse?;
        (room > 0.0).then(|| (self.constant_mse - self.validation_mse) / room)
    }

    /// Writes `report.json`, `report.svg` and `report.png`.
    pub(super) fn write(&self, folder: &Path, curve: &Curve) -> Result<()> {
        write::replace(&folder.join("report.json"), |out| {
            serde_json::to_writer_pretty(&mut *out, self)?;
            writeln!(out)
        })?;
        Ok(demask_plot::write(&folder.join("report"), &FitFigure { report: self, curve })?)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "hidden row {}: validation MSE {:.6}{} ({}, {} held out)",
            self.hidden_row,
            self.validation_mse,
            if self.steps > 0 {
                format!(" at step {} of {}", self.best_step, self.steps)
            } else {
                String::new()
            },
            counted(self.validation_examples, "example"),
            counted(self.validation_pairs as usize, "pair")
        )?;
        writeln!(f, "  best constant        {:.6}", self.constant_mse)?;
        writeln!(f, "  distance-only table  {:.6}", self.distance_mse)?;
        match self.irreducible_mse {
            Some(mse) => {
                writeln!(f, "  irreducible part     {mse:.6} (variance over draws of the revealed token)")?
            }
            None => writeln!(f, "  irreducible part     unknown: no mask of the cache was drawn twice")?,
        }
        write!(f, "  R² {:.4}, rank correlation {:.4}", self.r_squared, self.rank_correlation)?;
        match self.explained() {
            Some(share) => writeln!(f, ", {:.1} % of what can be explained", share * 100.0),
            None => writeln!(f),
        }
    }
}

#[derive(Default)]
struct Sums {
    sum: f64,
    squares: f64,
    error: f64,
    constant: f64,
    distance: f64,
    pairs: u64,
}

impl Sums {
    fn add(&mut self, target: f64, guess: f64, constant: f64, distance: f64) {
        self.sum += target;
        self.squares += target * target;
        self.error += (guess - target).powi(2);
        self.constant += (constant - target).powi(2);
        self.distance += (distance - target).powi(2);
        self.pairs += 1;
    }
}

/// Spearman's correlation: Pearson's over ranks, ties sharing their mean rank.
pub(crate) fn rank_correlation(pairs: &[(f32, f32)]) -> f64 {
    let a = ranks(pairs.iter().map(|pair| pair.0));
    let b = ranks(pairs.iter().map(|pair| pair.1));
    let mean = (pairs.len() as f64 - 1.0) / 2.0;
    let (mut product, mut left, mut right) = (0.0, 0.0, 0.0);
    for (x, y) in a.iter().zip(&b) {
        product += (x - mean) * (y - mean);
        left += (x - mean).powi(2);
        right += (y - mean).powi(2);
    }
    if left > 0.0 && right > 0.0 { product / (left * right).sqrt() } else { 0.0 }
}

fn ranks(values: impl Iterator<Item = f32>) -> Vec<f64> {
    let mut order: Vec<(f32, usize)> = values.enumerate().map(|(index, value)| (value, index)).collect();
    order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let mut ranks = vec![0.0; order.len()];
    let mut start = 0;
    for tied in order.chunk_by(|a, b| a.0 == b.0) {
        let rank = start as f64 + (tied.len() as f64 - 1.0) / 2.0;
        tied.iter().for_each(|(_, index)| ranks[*index] = rank);
        start += tied.len();
    }
    ranks
}

fn calibration(mut pairs: Vec<(f32, f32)>) -> Vec<Bin> {
    pairs.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let size = pairs.len().div_ceil(BINS).max(1);
    let bin = |pairs: &[(f32, f32)]| {
        let mean = |value: fn(&(f32, f32)) -> f32| {
            pairs.iter().map(|p| f64::from(value(p))).sum::<f64>() / pairs.len() as f64
        };
        Bin { predicted: mean(|p| p.0), measured: mean(|p| p.1), pairs: pairs.len() }
    };
    pairs.chunks(size).map(bin).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tv_cache::Stored;

    #[test]
    fn ranks_share_ties_and_correlate() {
        assert_eq!(ranks([0.3, 0.1, 0.3, 0.2].into_iter()), [2.5, 0.0, 2.5, 1.0]);
        let up: Vec<(f32, f32)> = (0..50).map(|i| (i as f32, (i * i) as f32)).collect();
        assert!((rank_correlation(&up) - 1.0).abs() < 1e-12);
        let down: Vec<(f32, f32)> = up.iter().map(|p| (p.0, -p.1)).collect();
        assert!((rank_correlation(&down) + 1.0).abs() < 1e-12);
        assert_eq!(rank_correlation(&[(1.0, 1.0), (1.0, 2.0)]), 0.0);
    }

    #[test]
    fn a_perfect_guess_explains_everything_and_baselines_are_worse() {
        let values = [0.0, 0.5, 0.25, 0.5, 0.0, 0.5, 0.125, 0.5, 0.0];
        let dependency = Numbers::new(Stored::F16, &values);
        let held = Example { id: "a".into(), positions: vec![4, 5, 6], dependency, ..Example::default() };
        let mut distances = Distances::default();
        distances.add(&held.positions, &values);
        let baselines =
            Baselines { distances, repeats: Repeats::default(), measure: Measure::TotalVariation };
        let report = Report::new(&baselines, std::slice::from_ref(&held), &values);
        assert_eq!((report.validation_mse, report.r_squared, report.validation_pairs), (0.0, 1.0, 6));
        assert!(report.distance_mse > 0.0 && report.distance_mse < report.constant_mse);
        assert!(report.calibration.iter().all(|bin| (bin.predicted - bin.measured).abs() < 1e-12));
        assert_eq!(report.explained(), None);
    }
}
