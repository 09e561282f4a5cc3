//! Fast-dLLM's factor rule: with confidences sorted, `c₍₁₎ ≥ c₍₂₎ ≥ …`, rank n passes if
//! `(n + 1)·(1 − c₍ₙ₎) ≤ factor`; the longest passing prefix is unmasked, rank 1 always.
//!
//! Strictness: `≤`. Quirk of the reference code, not kept: when the last rank is the first to fail,
//! its loop index makes it commit that rank too.

use crate::error::Result;
use crate::registry::{Cost, Entry, Kind, Param};
use crate::rule::{Confidence, DISCOUNT, DISCOUNT_BY, Discount, SCORE, prefix};
use crate::strategy::{Needs, Selection, Step, Stop, Strategy};

pub(super) const ENTRY: Entry = Entry {
    name: "factor",
    aliases: &["fast-dllm-factor"],
    summary: "unmask the n best positions as long as (n + 1)(1 - confidence) stays within a factor",
    source: "Fast-dLLM (Wu et al. 2025), factor-based parallel decoding",
    cost: Cost::Logits,
    params: &[
        Param {
            key: "factor",
            default: "1",
            kind: Kind::Number(0.0, f64::INFINITY),
            help: "greatest (n + 1)(1 - confidence) of rank n (≤)",
        },
        SCORE,
        DISCOUNT,
        DISCOUNT_BY,
    ],
    build: |values| {
        Ok(Box::new(Factor {
            factor: values.number("factor"),
            confidence: Confidence::of(values),
            discount: Discount::of(values)?,
        }))
    },
};

struct Factor {
    factor: f64,
    confidence: Confidence,
    discount: Discount,
}

impl Strategy for Factor {
    fn needs(&self) -> Needs {
        self.discount.needs(Needs::default())
    }

    fn reads_logits(&self) -> bool {
        false
    }

    fn select(&mut self, step: &Step<'_>) -> Result<Selection> {
        let scores = self.confidence.all(step);
        // Rank n is at index n - 1.
        let passes =
            |index: usize, i: usize| (index + 2) as f64 * (1.0 - f64::from(scores[i])) <= self.factor;
        let order: Vec<usize> = self.discount.order(step, &scores)?.into_iter().map(|(i, _)| i).collect();
        let chosen = prefix(&order, passes);
        let stop = if chosen.len() == scores.len() { Stop::AllTaken } else { Stop::NoCandidate };
        Ok(Selection { chosen, stop: Some(stop), ..Selection::default() })
    }
}

#[cfg(test)]
mod tests {
    use crate::strategy::Stop;
    use crate::testing::chosen;

    #[test]
    fn a_rank_passes_at_exactly_the_factor() {
        // Ranks: 0.75 (free), 0.75 → 3·0.25 = 0.75, 0.5 → 4·0.5 = 2.
        let confidence = [0.75, 0.5, 0.75];
        assert_eq!(chosen("factor:factor=0.75", &confidence), (vec![0, 2], Stop::NoCandidate));
        assert_eq!(chosen("factor:factor=0.74", &confidence), (vec![0], Stop::NoCandidate));
        assert_eq!(chosen("factor:factor=2", &confidence), (vec![0, 2, 1], Stop::AllTaken));
    }

    #[test]
    fn the_prefix_ends_at_the_first_failure_even_at_the_last_rank() {
        // Rank 2: 3·0.5 = 1.5 fails; rank 3 would not be looked at.
        assert_eq!(chosen("factor", &[0.5, 0.5, 0.5]).0, [0]);
        assert_eq!(chosen("factor", &[0.99, 0.2]).0, [0]);
        assert_eq!(chosen("factor", &[0.01]), (vec![0], Stop::AllTaken));
    }
}
