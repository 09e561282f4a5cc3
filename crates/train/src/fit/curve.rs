//! The record of a run: training and validation error by step, as CSV.
//!
//! It holds no times, so that a resumed run writes the same bytes.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use demask_model::checkpoint::write;

use crate::error::Result;

const FILE: &str = "curve.csv";

/// Numbers at a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Updates done.
    pub step: u64,
    /// Learning rate of the last one.
    pub rate: f64,
    /// Error over the training pairs since the point before.
    pub training: f64,
    /// Error over the validation pairs, at validations.
    pub validation: Option<f64>,
}

/// All points of a run, by ascending step.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Curve {
    /// The points.
    pub points: Vec<Point>,
}

impl Curve {
    /// Reads the record in `folder` up to `step`; lines that make no sense are left out.
    pub fn read(folder: &Path, step: u64) -> Self {
        let text = fs::read_to_string(folder.join(FILE)).unwrap_or_default();
        Self { points: text.lines().filter_map(parse).filter(|point| point.step <= step).collect() }
    }

    /// Writes `curve.csv`.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let mut text = String::from("step,rate,training_mse,validation_mse\n");
        for Point { step, rate, training, validation } in &self.points {
            let validation = validation.map(|mse| mse.to_string()).unwrap_or_default();
            let _ = writeln!(text, "{step},{rate},{training},{validation}");
        }
        write::replace(&folder.join(FILE), |out| out.write_all(text.as_bytes()))?;
        Ok(())
    }
}

/// Numbers are written so that they come back exactly.
fn parse(line: &str) -> Option<Point> {
    let mut fields = line.split(',');
    let point = Point {
        step: fields.next()?.parse().ok()?,
        rate: fields.next()?.parse().ok()?,
        training: fields.next()?.parse().ok()?,
        validation: match fields.next()? {
            "" => None,
            number => Some(number.parse().ok()?),
        },
    };
    fields.next().is_none().then_some(point)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_comes_back_exactly_without_the_steps_that_were_lost() {
        let folder = tempfile::tempdir().unwrap();
        let point = |step: u64| Point {
            step,
            rate: 1e-5 / step as f64,
            training: 0.1 / step as f64,
            validation: step.is_multiple_of(2).then_some(1.0 / 3.0),
        };
        let curve = Curve { points: (1..=6).map(point).collect() };
        curve.write(folder.path()).unwrap();
        assert_eq!(Curve::read(folder.path(), 6), curve);
        assert_eq!(Curve::read(folder.path(), 4).points, curve.points[..4]);
    }
}
