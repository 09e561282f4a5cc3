//! How good a head is on what was held out: log-loss beside the constant rate's, whether its probabilities mean what they
//! say, and what a gate at κ lets through.

use std::fmt;
use std::path::Path;

use demask_model::checkpoint::write;
use serde::Serialize;

use crate::error::Result;

/// Upper ends of the bins of predicted probabilities.
const BINS: [f32; 9] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0];
/// Values of κ that are looked at.
const GATES: [f32; 5] = [0.01, 0.02, 0.05, 0.1, 0.2];

/// Positions whose `q` lies in a bin.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Calibrated {
    /// Upper end of the bin.
    pub below: f32,
    /// How many there are.
    pub positions: usize,
    /// Mean of their `q`.
    pub predicted: f64,
    /// Share of them that changed.
    pub changed: f64,
}

/// What a threshold on `q` lets through.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Gate {
    /// The threshold.
    pub kappa: f32,
    /// Share of the positions with `q ≤ κ`.
    pub accepted: f64,
    /// Share of those that changed all the same.
    pub changed: f64,
}

/// A head judged.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StabilityReport {
    /// Positions trained on.
    pub training: usize,
    /// Positions held out.
    pub held_out: usize,
    /// Share of the held-out ones that change.
    pub rate: f64,
    /// Log-loss of the kept weights on them, in nats.
    pub log_loss: f64,
    /// Log-loss of the training's constant rate.
    pub constant: f64,
    /// Updates after which the kept weights were reached, and in all.
    pub steps: (u64, u64),
    /// What is sure.
    pub gamma: f32,
    /// By predicted probability.
    pub calibration: Vec<Calibrated>,
    /// By threshold.
    pub gates: Vec<Gate>,
}

impl StabilityReport {
    /// Of predictions and what became of them.
    pub(super) fn new(predictions: &[(f32, bool)], gamma: f32) -> Self {
        let share = |of: &mut dyn Iterator<Item = bool>| {
            let (mut yes, mut all) = (0_usize, 0_usize);
            of.for_each(|is| (yes, all) = (yes + usize::from(is), all + 1));
            yes as f64 / all.max(1) as f64
        };
        let mut calibration = Vec::new();
        let mut from = f32::NEG_INFINITY;
        for below in BINS {
            let inside: Vec<(f32, bool)> =
                predictions.iter().filter(|(q, _)| *q > from && *q <= below).copied().collect();
            let sum: f64 = inside.iter().map(|(q, _)| f64::from(*q)).sum();
            calibration.push(Calibrated {
                below,
                positions: inside.len(),
                predicted: sum / inside.len().max(1) as f64,
                changed: share(&mut inside.iter().map(|(_, changed)| *changed)),
            });
            from = below;
        }
        let gate = |kappa: f32| Gate {
            kappa,
            accepted: share(&mut predictions.iter().map(|(q, _)| *q <= kappa)),
            changed: share(&mut predictions.iter().filter(|(q, _)| *q <= kappa).map(|(_, changed)| *changed)),
        };
        Self {
            training: 0,
            held_out: predictions.len(),
            rate: share(&mut predictions.iter().map(|(_, changed)| *changed)),
            log_loss: f64::NAN,
            constant: f64::NAN,
            steps: (0, 0),
            gamma,
            calibration,
            gates: GATES.into_iter().map(gate).collect(),
        }
    }

    /// Whether it is no better than knowing nothing of the position.
    pub fn is_worse_than_a_constant(&self) -> bool {
        self.log_loss >= self.constant
    }

    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self).unwrap_or_default() + "\n";
        write::replace(&folder.join("stability.json"), |out| out.write_all(text.as_bytes()))?;
        Ok(())
    }
}

impl fmt::Display for StabilityReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "log-loss   {:.5} on {} held-out positions, the constant rate {:.5}; {:.2} % of them change once what is \
             above {} is known",
            self.log_loss,
            self.held_out,
            self.constant,
            100.0 * self.rate,
            self.gamma
        )?;
        writeln!(
            f,
            "trained    on {} positions, kept after {} of {} updates",
            self.training, self.steps.0, self.steps.1
        )?;
        writeln!(f, "calibrated q up to   positions  predicted  changed")?;
        for Calibrated { below, positions, predicted, changed } in &self.calibration {
            writeln!(f, "           {below:<9} {positions:>9}  {predicted:>9.4}  {changed:>7.4}")?;
        }
        writeln!(f, "gate       kappa      accepted   changed")?;
        for Gate { kappa, accepted, changed } in &self.gates {
            writeln!(f, "           {kappa:<9} {:>8.2} %  {changed:>8.4}", 100.0 * accepted)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_and_gates_by_hand() {
        let predictions = [(0.005, false), (0.01, true), (0.015, false), (0.3, true), (1.0, true)];
        let report = StabilityReport::new(&predictions, 0.9);
        assert_eq!((report.held_out, report.rate), (5, 0.6));
        let first = report.calibration[0];
        assert_eq!((first.positions, first.changed), (2, 0.5), "exactly the upper end belongs to the bin");
        assert!((first.predicted - 0.0075).abs() < 1e-6);
        assert_eq!(report.calibration.iter().map(|bin| bin.positions).sum::<usize>(), 5);
        let gate = report.gates[1];
        assert_eq!((gate.kappa, gate.accepted), (0.02, 0.6));
        assert!((gate.changed - 1.0 / 3.0).abs() < 1e-12);
    }
}
