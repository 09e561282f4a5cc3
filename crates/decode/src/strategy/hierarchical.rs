//! dInfer's hierarchical decoding: divide and conquer. Each maximal run of neighbouring masks gives
//! its most confident position if that exceeds a low threshold; all above the high threshold come
//! too, and the best position of all in any case.
//!
//! Strictness: `>` for both thresholds. Quirk of the reference code, not kept: two equal maxima of a
//! run both commit there; here the left one does.

use crate::error::Result;
use crate::registry::{Cost, Entry, Kind, Param};
use crate::rule::{Confidence, SCORE, passing};
use crate::strategy::{Selection, Step, Strategy};

pub(super) const ENTRY: Entry = Entry {
    name: "hierarchical",
    aliases: &[],
    summary: "unmask the best position of every run of masks, and all confident ones",
    source: "dInfer (Ma et al. 2025), hierarchical decoding",
    cost: Cost::Logits,
    params: &[
        Param { key: "threshold", default: "0.9", kind: Kind::Number(0.0, 1.0), help: "confident (>)" },
        Param {
            key: "low",
            default: "0.4",
            kind: Kind::Number(0.0, 1.0),
            help: "what the best of a run must exceed (>)",
        },
        SCORE,
    ],
    build: |values| {
        Ok(Box::new(Hierarchical {
            threshold: values.number("threshold") as f32,
            low: values.number("low") as f32,
            confidence: Confidence::of(values),
        }))
    },
};

struct Hierarchical {
    threshold: f32,
    low: f32,
    confidence: Confidence,
}

impl Strategy for Hierarchical {
    fn reads_logits(&self) -> bool {
        false
    }

    fn select(&mut self, step: &Step<'_>) -> Result<Selection> {
        let scores = self.confidence.all(step);
        let best = bests(step.masked, &scores);
        let passes = |i: usize| scores[i] > self.threshold || (scores[i] > self.low && best.contains(&i));
        Ok(passing(&scores, |_| true, passes))
    }
}

/// The most confident index of every run of neighbouring positions.
fn bests(masked: &[usize], scores: &[f32]) -> Vec<usize> {
    let mut bests: Vec<usize> = Vec::new();
    for i in 0..masked.len() {
        let same_run = i > 0 && masked[i] == masked[i - 1] + 1;
        match bests.last_mut() {
            Some(best) if same_run => {
                if scores[i] > scores[*best] {
                    *best = i;
                }
            }
            _ => bests.push(i),
        }
    }
    bests
}

#[cfg(test)]
mod tests {
    use crate::strategy::Stop;
    use crate::testing::{Scene, build, chosen};

    #[test]
    fn each_run_gives_its_best_and_the_confident_come_too() {
        // Runs: {0.5, 0.6, 0.95} and {0.3, 0.45}.
        let scene = Scene::gaps(&[Some(0.5), Some(0.6), Some(0.95), None, Some(0.3), Some(0.45)]);
        let selection = scene.select(&mut *build("hierarchical:threshold=0.9,low=0.4"));
        assert_eq!(selection.chosen, [2, 4]);
        let selection = scene.select(&mut *build("hierarchical:threshold=0.55,low=0.4"));
        assert_eq!(selection.chosen, [2, 1, 4]);
    }

    #[test]
    fn thresholds_are_strict_and_ties_go_left() {
        assert_eq!(chosen("hierarchical:threshold=0.75,low=0.25", &[0.75, 0.5, 0.75]).0, [0]);
        assert_eq!(chosen("hierarchical:low=0.5", &[0.25, 0.5, 0.5]), (vec![1], Stop::Fallback));
    }
}
