//! dInfer's credit decoding: a token that keeps winning at a position earns credit, which is added to
//! its logit; then a threshold on the fused distribution.
//!
//! Every pass, for each mask: credits fade by β, the best token's credit grows by `p_max^γ`, and
//! `z' = z + α·ln(1 + C)`. Everything above `min(threshold, best − 1e-5)` is unmasked (`>`), so the
//! best always is, with whatever is within 1e-5 of it; tokens come from the fused distribution. Only
//! winners have credit, so the reference's matrix `[L, V]` is a short list per position here. Quirk
//! of the reference, not kept: if every mask predicts the mask token nothing commits and it hangs;
//! here that token is suppressed.

use std::collections::HashMap;

use demask_kernels::softmax_stats;

use crate::error::Result;
use crate::marginals::LogitRows;
use crate::registry::{Cost, Entry, Kind, Param};
use crate::rule::{Confidence, SCORE, passing};
use crate::strategy::{Selection, Step, Strategy};

pub(super) const ENTRY: Entry = Entry {
    name: "credit",
    aliases: &[],
    summary: "unmask above a threshold after crediting tokens that keep winning at their position",
    source: "dInfer (Ma et al. 2025), credit decoding",
    cost: Cost::Logits,
    params: &[
        Param {
            key: "threshold",
            default: "0.9",
            kind: Kind::Number(0.0, 1.0),
            help: "least confidence (>)",
        },
        Param {
            key: "alpha",
            default: "0.7",
            kind: Kind::Number(0.0, f64::INFINITY),
            help: "weight of the credit in the logit",
        },
        Param {
            key: "gamma",
            default: "0.2",
            kind: Kind::Number(0.0, f64::INFINITY),
            help: "exponent of the probability that is credited",
        },
        Param {
            key: "beta",
            default: "0.8",
            kind: Kind::Number(0.0, 1.0),
            help: "what credit keeps from pass to pass",
        },
        SCORE,
    ],
    build: |values| {
        Ok(Box::new(Credit {
            threshold: values.number("threshold") as f32,
            alpha: values.number("alpha") as f32,
            gamma: values.number("gamma") as f32,
            beta: values.number("beta") as f32,
            confidence: Confidence::of(values),
            credits: HashMap::new(),
        }))
    },
};

/// How near to the best confidence counts as equal.
const NEAR: f32 = 1e-5;

struct Credit {
    threshold: f32,
    alpha: f32,
    gamma: f32,
    beta: f32,
    confidence: Confidence,
    /// Per position: tokens that won there, with their credit.
    credits: HashMap<usize, Vec<(usize, f32)>>,
}

impl Strategy for Credit {
    fn on_logits(&mut self, _step: usize, mut rows: LogitRows<'_>) {
        let (alpha, beta, gamma) = (self.alpha, self.beta, self.gamma);
        for (position, row) in rows.iter_mut() {
            let stats = softmax_stats(row);
            if !stats.logsumexp.is_finite() {
                continue;
            }
            let credits = self.credits.entry(position).or_default();
            credits.iter_mut().for_each(|c| c.1 *= beta);
            let earned = stats.top1.powf(gamma);
            match credits.iter_mut().find(|c| c.0 == stats.argmax) {
                Some(credit) => credit.1 += earned,
                None => credits.push((stats.argmax, earned)),
            }
            credits.iter().for_each(|&(token, credit)| row[token] += alpha * credit.ln_1p());
        }
    }

    fn select(&mut self, step: &Step<'_>) -> Result<Selection> {
        self.credits.retain(|p, _| step.masked.binary_search(p).is_ok());
        let scores = self.confidence.all(step);
        let best = scores.iter().copied().fold(0.0_f32, f32::max);
        let threshold = self.threshold.min(best - NEAR);
        Ok(passing(&scores, |_| true, |i| scores[i] > threshold))
    }
}

#[cfg(test)]
mod tests {
    use crate::strategy::Stop;
    use crate::testing::{Scene, build, chosen, feed, logs};

    #[test]
    fn winners_gain_and_fade() {
        let mut strategy = build("credit:alpha=1,gamma=1,beta=0.5");
        let (a, b) = (logs(&[0.75, 0.25]), logs(&[0.25, 0.75]));
        // Credit of token 0 becomes 0.75: its odds grow by 1.75.
        let first = feed(&mut *strategy, 0, &[(1, &a)]).remove(0);
        assert!((first[0].exp() - 0.75 * 1.75).abs() < 1e-5 && first[1] == a[1], "{first:?}");
        // It fades to 0.375 while token 1 earns 0.75.
        let second = feed(&mut *strategy, 1, &[(1, &b)]).remove(0);
        assert!((second[0].exp() - 0.25 * 1.375).abs() < 1e-5, "{second:?}");
        assert!((second[1].exp() - 0.75 * 1.75).abs() < 1e-5, "{second:?}");
    }

    #[test]
    fn credit_of_decided_positions_is_forgotten() {
        let mut strategy = build("credit:alpha=1,gamma=1,beta=1");
        let a = logs(&[0.75, 0.25]);
        feed(&mut *strategy, 0, &[(1, &a), (9, &a)]);
        Scene::new(&[0.5]).select(&mut *strategy);
        let again = feed(&mut *strategy, 1, &[(1, &a), (9, &a)]);
        assert!((again[0][0].exp() - 0.75 * 2.5).abs() < 1e-5);
        assert!((again[1][0].exp() - 0.75 * 1.75).abs() < 1e-5);
    }

    #[test]
    fn the_threshold_is_strict_and_near_ties_of_the_best_come_along() {
        assert_eq!(chosen("credit:threshold=0.75", &[0.75, 0.76, 0.2]), (vec![1], Stop::NoCandidate));
        assert_eq!(chosen("credit", &[0.5, 0.499_995, 0.4999]), (vec![0, 1], Stop::NoCandidate));
        assert_eq!(chosen("credit", &[0.2, 0.5, 0.5]).0, [1, 2]);
    }
}
