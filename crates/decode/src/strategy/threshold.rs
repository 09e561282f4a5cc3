//! Fast-dLLM's confidence threshold: unmask every position whose confidence reaches it, and always
//! the most confident one.
//!
//! Strictness: `≥`. Quirk of the reference code, not kept: without blocks, its Dream variant looks at
//! the best `|M|/steps` positions of a step only and carries the rejected ones over, which caps the
//! parallelism by the number of steps; the rule here is the uncapped one of all later code. With a discount (ours), it is
//! the discounted confidence that must reach the threshold.

use crate::error::Result;
use crate::registry::{Cost, Entry, Kind, Param};
use crate::rule::{Confidence, DISCOUNT, DISCOUNT_BY, Discount, SCORE, passing};
use crate::strategy::{Needs, Selection, Step, Strategy};

pub(super) const ENTRY: Entry = Entry {
    name: "threshold",
    aliases: &["fast-dllm", "confidence-threshold", "confidence_threshold"],
    summary: "unmask every position whose confidence reaches a threshold, at least the best one",
    source: "Fast-dLLM (Wu et al. 2025)",
    cost: Cost::Logits,
    params: &[
        Param {
            key: "threshold",
            default: "0.9",
            kind: Kind::Number(0.0, 1.0),
            help: "least confidence (≥)",
        },
        SCORE,
        DISCOUNT,
        DISCOUNT_BY,
    ],
    build: |values| {
        Ok(Box::new(Threshold {
            threshold: values.number("threshold") as f32,
            confidence: Confidence::of(values),
            discount: Discount::of(values)?,
        }))
    },
};

struct Threshold {
    threshold: f32,
    confidence: Confidence,
    discount: Discount,
}

impl Strategy for Threshold {
    fn needs(&self) -> Needs {
        self.discount.needs(Needs::default())
    }

    fn reads_logits(&self) -> bool {
        false
    }

    fn select(&mut self, step: &Step<'_>) -> Result<Selection> {
        let mut scores = self.confidence.all(step);
        for (index, discounted) in self.discount.order(step, &scores)? {
            scores[index] = discounted;
        }
        Ok(passing(&scores, |_| true, |i| scores[i] >= self.threshold))
    }
}

#[cfg(test)]
mod tests {
    use crate::strategy::Stop;
    use crate::testing::chosen;

    #[test]
    fn exactly_the_threshold_passes_and_the_best_comes_first() {
        let got = chosen("threshold:threshold=0.75", &[0.75, 0.7499, 0.9, 0.1]);
        assert_eq!(got, (vec![2, 0], Stop::NoCandidate));
    }

    #[test]
    fn when_nothing_passes_the_leftmost_of_the_best_is_taken() {
        assert_eq!(chosen("threshold", &[0.3, 0.6, 0.6]), (vec![1], Stop::Fallback));
        assert_eq!(chosen("threshold:threshold=0", &[0.3, 0.6]), (vec![1, 0], Stop::AllTaken));
    }
}
