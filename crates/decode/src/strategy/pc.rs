//! PC-Sampler: confidence calibrated by how common the token is, decaying with the position:
//! `score_i = e^{−λ·i} · min(−p_i·ln(f + 1e-9), α)`, with `i` the offset in the block and `f` the
//! corpus frequency of the most probable token. The best few are unmasked, evenly many a step.
//!
//! The frequency is uniform here (`1/V`), the reference's value for unseen tokens with an empty
//! table: calibration then only caps the confidence at α, and the position prior is what remains.
//! Quirk of the reference: its function defaults are α = λ = 1; its evaluation uses α = 10 and λ = 0
//! to 0.5, which is the default here. Ties go left.

use crate::error::Result;
use crate::marginals::Marginal;
use crate::registry::{Cost, Entry, Kind, Param};
use crate::rule::{EVEN_STEPS, Schedule, TOKENS_PER_STEP};
use crate::strategy::{Selection, Step, Strategy};

pub(super) const ENTRY: Entry = Entry {
    name: "pc",
    aliases: &["pc-sampler"],
    summary: "unmask the best positions by capped confidence with an exponential left-to-right prior",
    source: "PC-Sampler (Huang et al. 2025); token frequencies uniform",
    cost: Cost::Logits,
    params: &[
        TOKENS_PER_STEP,
        EVEN_STEPS,
        Param {
            key: "lambda",
            default: "0.25",
            kind: Kind::Number(0.0, f64::INFINITY),
            help: "decay of the score per position",
        },
        Param {
            key: "alpha",
            default: "10",
            kind: Kind::Number(0.0, f64::INFINITY),
            help: "cap of the calibrated confidence",
        },
    ],
    build: |values| {
        Ok(Box::new(PcSampler {
            schedule: Schedule::of(values)?,
            lambda: values.number("lambda"),
            alpha: values.number("alpha"),
            start: 0,
        }))
    },
};

/// The reference's guard of the logarithm.
const EPS: f64 = 1e-9;

struct PcSampler {
    schedule: Schedule,
    lambda: f64,
    alpha: f64,
    /// First mask of the block when it was entered.
    start: usize,
}

impl Strategy for PcSampler {
    fn reads_logits(&self) -> bool {
        false
    }

    fn select(&mut self, step: &Step<'_>) -> Result<Selection> {
        if step.block.step == 0 {
            self.start = step.masked[0];
        }
        let surprise = -(1.0 / step.probe.vocab() as f64 + EPS).ln();
        // In logarithms, so that a long block does not underflow to ties.
        let score = |(&position, m): (&usize, &Marginal)| {
            let calibrated = (f64::from(m.raw.top1) * surprise).min(self.alpha);
            (calibrated.ln() - self.lambda * (position - self.start) as f64) as f32
        };
        let scores: Vec<f32> = step.masked.iter().zip(step.marginals).map(score).collect();
        Ok(self.schedule.best(step, &scores))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Scene, build, chosen};

    #[test]
    fn the_prior_prefers_the_left() {
        // e^{-0.5} ≈ 0.607: 0.5 at offset 0 against 0.8·0.607 ≈ 0.485 and 0.99·0.368 ≈ 0.364.
        assert_eq!(chosen("pc:lambda=0.5,k=2", &[0.5, 0.8, 0.99]).0, [0, 1]);
        assert_eq!(chosen("pc:lambda=0,k=2", &[0.5, 0.8, 0.99]).0, [2, 1]);
    }

    #[test]
    fn the_cap_makes_ties_and_ties_go_left() {
        // With V = 100, −ln f ≈ 4.605: 0.5 → 2.30, 0.8 → 3.68, both capped at 2.
        assert_eq!(chosen("pc:lambda=0,alpha=2", &[0.1, 0.5, 0.8]).0, [1]);
    }

    #[test]
    fn offsets_count_from_the_start_of_the_block() {
        let mut strategy = build("pc:lambda=0.5");
        let mut scene = Scene::new(&[0.9, 0.1, 0.1]);
        assert_eq!(scene.advance(&mut *strategy, &[0.5, 0.8]).chosen, [0]);
        // Offsets 1 and 2 now; the same ratio as before: 0.5 against 0.485.
        assert_eq!(scene.advance(&mut *strategy, &[0.8]).chosen, [0]);
    }
}
