//! SlowFast sampling: explore slowly, then exploit. For `explore` steps the whole block is decoded by a
//! threshold while the last position with some confidence marks how far the model can see; then only
//! the masks before that end are decoded, until there are none; then the next cycle begins there.
//!
//! Strictness: `≥` for both thresholds. A step unmasks everything that passes `high`, else the best
//! (ties left). The end is the last mark if the last `window` marks have a (population) standard
//! deviation below 1, else their mean, rounded down. Quirks of the reference code: exploration never
//! stops early when the marks are stable (kept); in the fast phase it runs the model on the canvas cut
//! off at the end and keeps stale logits behind it (not kept: every pass sees the whole canvas).

use crate::error::Result;
use crate::registry::{Cost, Entry, Kind, Param};
use crate::rule::{Confidence, SCORE, passing};
use crate::strategy::{Selection, Step, Strategy};

pub(super) const ENTRY: Entry = Entry {
    name: "slowfast",
    aliases: &["slow-fast"],
    summary: "explore how far the model can see, then decode that stretch by a threshold, and again",
    source: "SlowFast Sampling (Wei et al. 2025)",
    cost: Cost::Logits,
    params: &[
        Param {
            key: "high",
            default: "0.9",
            kind: Kind::Number(0.0, 1.0),
            help: "confidence that is unmasked (≥)",
        },
        Param {
            key: "low",
            default: "0.3",
            kind: Kind::Number(0.0, 1.0),
            help: "confidence that marks how far the model can see (≥)",
        },
        Param { key: "explore", default: "6", kind: Kind::Count, help: "slow steps of a cycle" },
        Param { key: "window", default: "2", kind: Kind::Count, help: "how many last marks must agree" },
        SCORE,
    ],
    build: |values| {
        Ok(Box::new(SlowFast {
            high: values.number("high") as f32,
            low: values.number("low") as f32,
            explore: values.count("explore").unwrap_or(6),
            window: values.count("window").unwrap_or(2),
            confidence: Confidence::of(values),
            marks: Vec::new(),
            end: None,
        }))
    },
};

struct SlowFast {
    high: f32,
    low: f32,
    explore: usize,
    window: usize,
    confidence: Confidence,
    /// One past the last position seen with some confidence, per slow step.
    marks: Vec<usize>,
    /// One past the stretch to decode, in the fast phase.
    end: Option<usize>,
}

impl Strategy for SlowFast {
    fn reads_logits(&self) -> bool {
        false
    }

    fn select(&mut self, step: &Step<'_>) -> Result<Selection> {
        let first = step.masked[0];
        if step.block.step == 0 || self.end.is_some_and(|end| first >= end) {
            self.end = None;
            self.marks.clear();
        }
        let scores = self.confidence.all(step);
        if let Some(end) = self.end {
            return Ok(passing(&scores, |i| step.masked[i] < end, |i| scores[i] >= self.high));
        }
        let seen = (0..scores.len()).rev().find(|&i| scores[i] >= self.low);
        self.marks.push(seen.map_or(first, |i| step.masked[i]) + 1);
        if self.marks.len() >= self.explore {
            self.end = Some(settle(&self.marks[self.marks.len().saturating_sub(self.window)..]));
        }
        Ok(passing(&scores, |_| true, |i| scores[i] >= self.high))
    }
}

/// Where the marks agree, or else their mean.
fn settle(marks: &[usize]) -> usize {
    let count = marks.len() as f64;
    let mean = marks.iter().sum::<usize>() as f64 / count;
    let variance = marks.iter().map(|&m| (m as f64 - mean).powi(2)).sum::<f64>() / count;
    if variance.sqrt() < 1.0 { marks[marks.len() - 1] } else { mean as usize }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::Stop;
    use crate::testing::{Scene, build};

    #[test]
    fn marks_that_agree_give_the_last_and_others_their_mean() {
        assert_eq!(settle(&[9, 10]), 10);
        // Standard deviation exactly 1 is not below 1.
        assert_eq!(settle(&[9, 11]), 10);
        assert_eq!(settle(&[12, 3]), 7);
        assert_eq!(settle(&[4]), 4);
    }

    #[test]
    fn the_fast_phase_stays_before_the_end_and_a_new_cycle_begins_there() {
        let mut strategy = build("slowfast:explore=1,window=1,high=0.9,low=0.3");
        // Slow: sees up to index 2; nothing passes, so the best.
        let mut scene = Scene::new(&[0.5, 0.4, 0.3, 0.1, 0.1]);
        let first = scene.advance(&mut *strategy, &[0.4, 0.6, 0.95, 0.95]);
        assert_eq!((first.chosen.as_slice(), first.stop), (&[0][..], Some(Stop::Fallback)));
        // Fast: only positions 2 and 3, though 4 and 5 would pass.
        assert_eq!(scene.advance(&mut *strategy, &[0.9, 0.95, 0.95]).chosen, [1]);
        assert_eq!(scene.advance(&mut *strategy, &[0.9, 0.95]).chosen, [0]);
        // Slow again over the rest; exactly the threshold passes.
        let last = scene.advance(&mut *strategy, &[]);
        assert_eq!((last.chosen.as_slice(), last.stop), (&[1, 0][..], Some(Stop::AllTaken)));
    }

    #[test]
    fn a_blind_step_marks_the_first_mask() {
        let mut strategy = build("slowfast:explore=1,window=1");
        let mut scene = Scene::new(&[0.1, 0.2, 0.2]);
        assert_eq!(scene.advance(&mut *strategy, &[0.1, 0.99]).chosen, [1]);
        assert_eq!(scene.advance(&mut *strategy, &[0.99]).chosen, [0]);
    }
}
