//! PCG-like, ours: a stand-in for Position Contrastive Guidance (Patel et al. 2025), of which only
//! the abstract is public. It does what the abstract says, not what an unseen code does:
//!
//! - tokens that are about equally probable everywhere are played down,
//!   `ln p̃_i = (1 + w)·ln p_i − w·ln m`, with `m` the mean distribution over the masked positions;
//! - positions are ranked with a soft left-to-right bias, `score_i = p̃_i(token)·e^{−λ·r_i}`, with `r_i`
//!   the rank of the mask from the left.
//!
//! `m` is that of the previous pass, because logits are seen a few rows at a time; the first pass is
//! not contrasted. Ties go left.

use demask_kernels::softmax_stats;

use crate::error::Result;
use crate::marginals::LogitRows;
use crate::registry::{Cost, Entry, Kind, Param};
use crate::rule::{Confidence, EVEN_STEPS, Schedule, TOKENS_PER_STEP};
use crate::strategy::{Selection, Step, Strategy};

pub(super) const ENTRY: Entry = Entry {
    name: "pcg-like",
    aliases: &["pcg"],
    summary: "unmask left-biased confident positions after playing down tokens that are probable everywhere",
    source: "ours, after the abstract of Position Contrastive Guidance (Patel et al. 2025)",
    cost: Cost::Logits,
    params: &[
        TOKENS_PER_STEP,
        EVEN_STEPS,
        Param {
            key: "lambda",
            default: "0.05",
            kind: Kind::Number(0.0, f64::INFINITY),
            help: "left-to-right bias per masked position",
        },
        Param {
            key: "w",
            default: "0.5",
            kind: Kind::Number(0.0, f64::INFINITY),
            help: "strength of the contrast; 0 leaves the distributions alone",
        },
    ],
    build: |values| {
        Ok(Box::new(PcgLike {
            schedule: Schedule::of(values)?,
            lambda: values.number("lambda"),
            w: values.number("w") as f32,
            mean: Vec::new(),
            sum: Vec::new(),
            rows: 0,
        }))
    },
};

/// Least mean probability, so that its logarithm stays finite.
const FLOOR: f64 = 1e-9;

struct PcgLike {
    schedule: Schedule,
    lambda: f64,
    w: f32,
    /// Logarithm of the previous pass's mean distribution; empty before there is one.
    mean: Vec<f32>,
    sum: Vec<f64>,
    rows: usize,
}

impl Strategy for PcgLike {
    fn on_logits(&mut self, _step: usize, mut rows: LogitRows<'_>) {
        self.sum.resize(rows.vocab(), 0.0);
        self.rows += rows.positions.len();
        for (_, row) in rows.iter_mut() {
            let lse = softmax_stats(row).logsumexp;
            for (sum, z) in self.sum.iter_mut().zip(row.iter()) {
                *sum += f64::from((z - lse).exp());
            }
            for (z, mean) in row.iter_mut().zip(&self.mean) {
                *z = (1.0 + self.w) * (*z - lse) - self.w * mean;
            }
        }
    }

    fn select(&mut self, step: &Step<'_>) -> Result<Selection> {
        let rows = self.rows as f64;
        self.mean = self.sum.iter().map(|sum| (sum / rows).max(FLOOR).ln() as f32).collect();
        self.sum.clear();
        self.rows = 0;
        let biased = |(rank, c): (usize, f32)| (f64::from(c).ln() - self.lambda * rank as f64) as f32;
        let scores: Vec<f32> = Confidence::Raw.all(step).into_iter().enumerate().map(biased).collect();
        Ok(self.schedule.best(step, &scores))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scene, build, chosen, feed, logs};

    #[test]
    fn the_bias_counts_masks_from_the_left() {
        // e^{-0.5} ≈ 0.607: 0.5, 0.8·0.607 ≈ 0.485, 0.99·0.368 ≈ 0.364.
        assert_eq!(chosen("pcg:lambda=0.5,k=2", &[0.5, 0.8, 0.99]).0, [0, 1]);
        assert_eq!(chosen("pcg:lambda=0", &[0.5, 0.8, 0.8]).0, [1]);
        // Without bound it is left to right, however sure the others are.
        let far_right = [0.02, 0.3, 0.6, 0.9, 0.999];
        for k in 1..=5 {
            assert_eq!(chosen(&format!("pcg:lambda=1e6,k={k}"), &far_right).0, (0..k).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_token_probable_everywhere_loses_against_a_local_one() {
        let mut strategy = build("pcg:w=1");
        let (a, b) = (logs(&[0.5, 0.25, 0.25]), logs(&[0.5, 0.25, 0.25]));
        let rows: [(usize, &[f32]); 2] = [(1, &a), (2, &b)];
        // The first pass is left alone; its mean is (0.5, 0.25, 0.25).
        assert_eq!(feed(&mut *strategy, 0, &rows), [a.clone(), b.clone()]);
        Scene::new(&[0.5, 0.5]).select(&mut *strategy);
        // 0.45²/0.5 = 0.405 against 0.4²/0.25 = 0.64 and 0.15²/0.25 = 0.09.
        let c = logs(&[0.45, 0.4, 0.15]);
        let contrasted = feed(&mut *strategy, 1, &[(1, &c)]).remove(0);
        let odds: Vec<f32> = contrasted.iter().map(|z| z.exp()).collect();
        for (got, want) in odds.iter().zip([0.405, 0.64, 0.09]) {
            assert!((got - want).abs() < 1e-5, "{odds:?}");
        }
        assert_eq!(softmax_stats(&contrasted).argmax, 1);
    }

    #[test]
    fn impossible_tokens_stay_impossible() {
        let mut strategy = build("pcg");
        for step in 0..2 {
            let row = feed(&mut *strategy, step, &[(1, &[0.0, f32::NEG_INFINITY])]).remove(0);
            assert!(row[0].is_finite() && row[1] == f32::NEG_INFINITY);
            Scene::new(&[0.5]).select(&mut *strategy);
        }
    }
}
