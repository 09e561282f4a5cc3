//! LocalLeap: a position that passes the threshold is an anchor; masks near an anchor pass a relaxed
//! threshold. Without an anchor, the best position alone.
//!
//! Strictness: `≥` for both thresholds, `≤` for the distance. Distance is counted in positions of the
//! canvas, whether masked or not.

use crate::error::Result;
use crate::registry::{Cost, Entry, Kind, Param};
use crate::rule::{Confidence, SCORE, passing};
use crate::strategy::{Selection, Step, Strategy};

pub(super) const ENTRY: Entry = Entry {
    name: "localleap",
    aliases: &["local-leap"],
    summary: "unmask confident positions, and with a relaxed threshold those near them",
    source: "LocalLeap, as in the code of DAWN (2026)",
    cost: Cost::Logits,
    params: &[
        Param {
            key: "threshold",
            default: "0.9",
            kind: Kind::Number(0.0, 1.0),
            help: "confidence of an anchor (≥)",
        },
        Param {
            key: "relaxed",
            default: "0.75",
            kind: Kind::Number(0.0, 1.0),
            help: "confidence of a mask near an anchor (≥)",
        },
        Param { key: "radius", default: "4", kind: Kind::Count, help: "greatest distance to an anchor" },
        SCORE,
    ],
    build: |values| {
        Ok(Box::new(LocalLeap {
            threshold: values.number("threshold") as f32,
            relaxed: values.number("relaxed") as f32,
            radius: values.count("radius").unwrap_or(4),
            confidence: Confidence::of(values),
        }))
    },
};

struct LocalLeap {
    threshold: f32,
    relaxed: f32,
    radius: usize,
    confidence: Confidence,
}

impl Strategy for LocalLeap {
    fn reads_logits(&self) -> bool {
        false
    }

    fn select(&mut self, step: &Step<'_>) -> Result<Selection> {
        let scores = self.confidence.all(step);
        let anchors: Vec<usize> =
            (0..scores.len()).filter(|&i| scores[i] >= self.threshold).map(|i| step.masked[i]).collect();
        let near = |i: usize| anchors.iter().any(|a| a.abs_diff(step.masked[i]) <= self.radius);
        let passes = |i: usize| scores[i] >= self.threshold || (scores[i] >= self.relaxed && near(i));
        Ok(passing(&scores, |_| true, passes))
    }
}

#[cfg(test)]
mod tests {
    use crate::strategy::Stop;
    use crate::testing::{Scene, build, chosen};

    #[test]
    fn the_relaxed_threshold_holds_near_an_anchor_only() {
        let text = "localleap:threshold=0.9,relaxed=0.75,radius=2";
        // Anchor at index 0; index 2 is within 2, index 3 is not.
        assert_eq!(chosen(text, &[0.9, 0.7499, 0.75, 0.8]), (vec![0, 2], Stop::NoCandidate));
        assert_eq!(chosen(text, &[0.8, 0.85, 0.85]), (vec![1], Stop::Fallback));
    }

    #[test]
    fn distance_counts_positions_not_masks() {
        let scene = Scene::gaps(&[Some(0.95), None, None, Some(0.8)]);
        assert_eq!(scene.select(&mut *build("localleap:radius=2")).chosen, [0]);
        assert_eq!(scene.select(&mut *build("localleap:radius=3")).chosen, [0, 1]);
    }
}
