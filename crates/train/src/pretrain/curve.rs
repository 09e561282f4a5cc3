//! The record of a run: loss and validation scores by step, as CSV and as a picture.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use demask_model::checkpoint::write;

use super::config::Objective;
use crate::error::{Error, Result};

/// Mean numbers of the steps up to `step`, since the point before.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Updates done.
    pub step: u64,
    /// What was trained.
    pub objective: Objective,
    /// Loss of eq. 1 (or next-token loss) per token.
    pub loss: f64,
    /// Share of predictions whose most probable token was right.
    pub right: f64,
    /// Learning rate.
    pub rate: f64,
    /// Norm of the gradient before clipping.
    pub norm: f64,
    /// Tokens trained on so far.
    pub tokens: u64,
    /// Seconds of training so far.
    pub seconds: f64,
}

/// A validation score.
#[derive(Debug, Clone, PartialEq)]
pub struct Score {
    /// What was measured.
    pub name: String,
    /// Between 0 and 1, larger is better.
    pub value: f64,
}

/// All points and scores of a run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Curve {
    /// By ascending step.
    pub points: Vec<Point>,
    /// By ascending step.
    pub scores: Vec<(u64, Vec<Score>)>,
}

const POINTS: &str = "curve.csv";
const SCORES: &str = "validation.csv";

impl Curve {
    /// Reads the record in `folder` up to `step`; lines that make no sense are left out.
    pub fn read(folder: &Path, step: u64) -> Self {
        let lines = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
        let points = lines(POINTS).lines().filter_map(point).filter(|point| point.step <= step).collect();
        let mut scores: Vec<(u64, Vec<Score>)> = Vec::new();
        for (at, score) in lines(SCORES).lines().filter_map(score).filter(|(at, _)| *at <= step) {
            match scores.last_mut().filter(|(last, _)| *last == at) {
                Some((_, same)) => same.push(score),
                None => scores.push((at, vec![score])),
            }
        }
        Self { points, scores }
    }

    /// Writes `curve.csv` and `validation.csv`.
    pub fn write(&self, folder: &Path) -> Result<()> {
        fs::create_dir_all(folder).map_err(Error::write(folder))?;
        let mut points = String::from("step,objective,loss,right,rate,norm,tokens,seconds\n");
        for p in &self.points {
            let _ = writeln!(
                points,
                "{},{},{:.6},{:.6},{:.8},{:.6},{},{:.2}",
                p.step,
                p.objective.name(),
                p.loss,
                p.right,
                p.rate,
                p.norm,
                p.tokens,
                p.seconds
            );
        }
        let mut scores = String::from("step,name,score\n");
        for (step, all) in &self.scores {
            for score in all {
                let _ = writeln!(scores, "{step},{},{:.6}", score.name, score.value);
            }
        }
        for (file, text) in [(POINTS, points), (SCORES, scores)] {
            write::replace(&folder.join(file), |out| out.write_all(text.as_bytes()))?;
        }
        Ok(())
    }

    /// Draws `curve.svg` and `curve.png`.
    pub fn picture(&self, folder: &Path) -> Result<()> {
        let path = folder.join("curve");
        Ok(demask_plot::write(&path, self)?)
    }
}

fn point(line: &str) -> Option<Point> {
    let mut fields = line.split(',');
    let point = Point {
        step: fields.next()?.parse().ok()?,
        objective: Objective::named(fields.next()?)?,
        loss: fields.next()?.parse().ok()?,
        right: fields.next()?.parse().ok()?,
        rate: fields.next()?.parse().ok()?,
        norm: fields.next()?.parse().ok()?,
        tokens: fields.next()?.parse().ok()?,
        seconds: fields.next()?.parse().ok()?,
    };
    fields.next().is_none().then_some(point)
}

fn score(line: &str) -> Option<(u64, Score)> {
    let (step, rest) = line.split_once(',')?;
    let (name, value) = rest.rsplit_once(',')?;
    Some((step.parse().ok()?, Score { name: name.to_owned(), value: value.parse().ok()? }))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn curve() -> Curve {
        let point = |step: u64| Point {
            step,
            objective: if step < 3 { Objective::Autoregressive } else { Objective::Diffusion },
            loss: 4.0 / step as f64,
            right: 0.5,
            rate: 0.001,
            norm: 1.25,
            tokens: step * 10,
            seconds: step as f64,
        };
        let score = |name: &str| Score { name: name.into(), value: 0.75 };
        Curve {
            points: (1..=5).map(point).collect(),
            scores: vec![(2, vec![score("a"), score("b")]), (5, vec![score("a")])],
        }
    }

    #[test]
    fn a_record_comes_back_without_the_steps_that_were_lost() {
        let folder = tempfile::tempdir().unwrap();
        curve().write(folder.path()).unwrap();
        let whole = Curve::read(folder.path(), 5);
        assert_eq!(whole.scores, curve().scores);
        assert_eq!(whole.points.len(), 5);
        assert!((whole.points[2].loss - 4.0 / 3.0).abs() < 1e-5);
        let earlier = Curve::read(folder.path(), 3);
        assert_eq!((earlier.points.len(), earlier.scores.len()), (3, 1));
        assert_eq!(Curve::read(&folder.path().join("nowhere"), 5), Curve::default());
    }
}
