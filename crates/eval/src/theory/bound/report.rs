//! The estimates by τ, as a table and as CSV.

use std::fmt;
use std::fmt::Write as _;
use std::path::Path;

use demask_engine::counted;
use demask_model::checkpoint::write::replace;

use super::{Estimate, Selected};
use crate::error::{Error, Result};

/// What decoding at one τ costs.
#[derive(Debug, Clone, PartialEq)]
pub struct TauReport {
    /// The bound.
    pub tau: f32,
    /// Prompts decoded.
    pub prompts: usize,
    /// Steps of all decodings.
    pub steps: usize,
    /// Tokens that steps wrote.
    pub tokens: usize,
    /// Sets of two or more.
    pub sets: usize,
    /// Mean accumulated dependency of those sets, as the strategy saw it.
    pub used: f64,
    /// Mean of the telescoping sum.
    pub telescoped: f64,
    /// Mean of TV(P, Q).
    pub distance: f64,
    /// Standard error of `distance` over the sets.
    pub error: f64,
    /// Share of sets whose telescoping sum is above τ (estimated, so chance takes some sets across).
    pub above: f64,
    /// Sum of TV(P, Q) over a response's steps, mean over responses: at most how often a response drawn in
    /// parallel differs anywhere from one drawn token by token, under the best coupling.
    pub per_response: f64,
    /// Each set: prompt, step, size, accumulated dependency and estimates.
    pub each: Vec<(usize, usize, usize, f32, Estimate)>,
}

impl TauReport {
    pub(super) fn new(
        tau: f32,
        prompts: usize,
        steps: Vec<usize>,
        selected: &[Selected],
        estimates: Vec<Estimate>,
    ) -> Self {
        let count = estimates.len().max(1) as f64;
        let mean = |value: &dyn Fn(&Estimate) -> f64| estimates.iter().map(value).sum::<f64>() / count;
        let distance = mean(&|e| e.distance);
        let variance =
            estimates.iter().map(|e| (e.distance - distance).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
        let each = selected.iter().zip(&estimates).map(|(s, e)| (s.prompt, s.step, s.set.len(), s.used, *e));
        Self {
            tau,
            prompts,
            steps: steps.len(),
            tokens: steps.iter().sum(),
            sets: estimates.len(),
            used: selected.iter().map(|s| f64::from(s.used)).sum::<f64>() / count,
            telescoped: mean(&|e| e.telescoped),
            distance,
            error: (variance / count).sqrt(),
            above: estimates.iter().filter(|e| e.telescoped > f64::from(tau)).count() as f64 / count,
            per_response: estimates.iter().map(|e| e.distance).sum::<f64>() / prompts as f64,
            each: each.collect(),
        }
    }
}

/// All values of τ.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The strategy, without its τ.
    pub strategy: String,
    /// Chains per set.
    pub chains: usize,
    /// In the order asked for.
    pub taus: Vec<TauReport>,
}

impl Report {
    /// Writes `bound.csv` and `sets.csv`.
    pub fn write(&self, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder).map_err(Error::write(folder))?;
        let mut table = String::from(
            "tau,prompts,steps,tokens,sets,accumulated,telescoped,distance,standard_error,share_above_tau,per_response\n",
        );
        let mut sets = String::from("tau,prompt,step,size,accumulated,telescoped,distance,standard_error\n");
        for t in &self.taus {
            let _ = writeln!(
                table,
                "{},{},{},{},{},{:.6},{:.6},{:.6},{:.6},{:.6},{:.6}",
                t.tau,
                t.prompts,
                t.steps,
                t.tokens,
                t.sets,
                t.used,
                t.telescoped,
                t.distance,
                t.error,
                t.above,
                t.per_response
            );
            for (prompt, step, size, used, e) in &t.each {
                let _ = writeln!(
                    sets,
                    "{},{prompt},{step},{size},{used:.6},{:.6},{:.6},{:.6}",
                    t.tau, e.telescoped, e.distance, e.error
                );
            }
        }
        for (name, text) in [("bound.csv", table), ("sets.csv", sets)] {
            replace(&folder.join(name), |out| out.write_all(text.as_bytes()))?;
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}, {} per set", self.strategy, counted(self.chains, "chain"))?;
        writeln!(
            f,
            "{:>7} {:>7} {:>8} {:>7} {:>12} {:>12} {:>19} {:>8} {:>13}",
            "tau",
            "steps",
            "tok/step",
            "sets",
            "accumulated",
            "telescoped",
            "TV(P,Q)",
            "above",
            "per response"
        )?;
        for t in &self.taus {
            writeln!(
                f,
                "{:>7} {:>7} {:>8.2} {:>7} {:>12.5} {:>12.5} {:>10.5} ± {:.4} {:>7.1}% {:>13.4}",
                t.tau,
                t.steps,
                t.tokens as f64 / t.steps.max(1) as f64,
                t.sets,
                t.used,
                t.telescoped,
                t.distance,
                t.error,
                100.0 * t.above,
                t.per_response
            )?;
        }
        Ok(())
    }
}
