//! Which hidden row a predictor was trained on, where its file does not say: both conventions are tried on a few
//! responses, and the predictions compared with the dependency that is measured there (section 4.3, phase 1).

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
    /// How many standard errors over masks the two errors lie apart.
    pub apart: f64,
}

impl Calibration {
    /// Tries a predictor on examples that were measured with both hidden rows.
    pub fn of(predictor: &Predictor, examples: &[Example]) -> Result<Self> {
        let convention = |row: HiddenRow| -> Convention {
            let pairs: Vec<(f32, f32)> = examples.iter().flat_map(|e| compared(predictor, e, row)).collect();
            let error: f64 = pairs.iter().map(|(guess, true_)| f64::from(guess - true_).powi(2)).sum();
            let mse = error / pairs.len().max(1) as f64;
            Convention { row, mse, rank_correlation: rank_correlation(&pairs) }
        };
        let measured: Vec<f64> =
            examples.iter().flat_map(|e| off_diagonal(e.positions.len(), &e.dependency.to_f32())).collect();
        if measured.len() < 2 {
            let value = counted(measured.len(), "measured pair");
            return Err(Error::Setting { name: "the data", value, allowed: "responses of several tokens" });
        }
        let count = measured.len() as f64;
        let mean = measured.iter().sum::<f64>() / count;
        Ok(Self {
            conventions: [convention(HiddenRow::I), convention(HiddenRow::IMinusOne)],
            constant_mse: measured.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / count,
            examples: examples.len(),
            pairs: measured.len(),
            apart: apart(predictor, examples),
        })
    }

    /// The convention with the smaller error, which is what training makes small. On rows it never saw a predictor is far
    /// off, while the ranks of a weak one say little under either.
    pub fn answer(&self) -> Convention {
        let [i, before] = self.conventions;
        if before.mse < i.mse { before } else { i }
    }

    /// Whether chance would seldom give this answer.
    pub fn is_certain(&self) -> bool {
        self.apart > 2.0
    }

    /// Whether the predictor says more than a constant would.
    pub fn beats_a_constant(&self) -> bool {
        self.answer().mse < self.constant_mse
    }
}

impl fmt::Display for Calibration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Convention { row, mse, rank_correlation } in self.conventions {
            writeln!(f, "hidden row {row:<4} MSE {mse:.6}, rank correlation {rank_correlation:.4}")?;
        }
        writeln!(
            f,
            "best constant   MSE {:.6} ({} of {}); the two lie {:.1} standard errors apart",
            self.constant_mse,
            counted(self.pairs, "pair"),
            counted(self.examples, "mask"),
            self.apart
        )
    }
}

/// Predicted and measured dependency of every pair of an example.
fn compared(predictor: &Predictor, example: &Example, row: HiddenRow) -> Vec<(f32, f32)> {
    let stored = match row {
        HiddenRow::I => &example.hidden_i,
        HiddenRow::IMinusOne => &example.hidden_i_minus_1,
    };
    let Some(stored) = stored else { return Vec::new() };
    let predicted = predictor.predict(&Rows { data: stored.to_f32(), width: predictor.width() });
    let (size, measured) = (example.positions.len(), example.dependency.to_f32());
    let pairs = (0..size * size).filter(|index| index / size != index % size);
    pairs.map(|index| (predicted.data()[index], measured[index])).collect()
}

/// The mean difference of the two conventions' errors over masks, in its standard errors.
fn apart(predictor: &Predictor, examples: &[Example]) -> f64 {
    let error = |example: &Example, row: HiddenRow| -> f64 {
        compared(predictor, example, row).iter().map(|(guess, true_)| f64::from(guess - true_).powi(2)).sum()
    };
    let differences: Vec<f64> =
        examples.iter().map(|e| error(e, HiddenRow::I) - error(e, HiddenRow::IMinusOne)).collect();
    let count = differences.len() as f64;
    let mean = differences.iter().sum::<f64>() / count;
    let spread = differences.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
    if spread > 0.0 { mean.abs() / (spread / count).sqrt() } else { 0.0 }
}

fn off_diagonal(size: usize, values: &[f32]) -> Vec<f64> {
    let pairs = (0..size * size).filter(|index| index / size != index % size);
    pairs.map(|index| f64::from(values[index])).collect()
}
