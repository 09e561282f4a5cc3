//! DAPD: attention between masks as dependency. `s_ij` is the mean of both directions; masks are
//! visited by `confidence · Σ_j s_ij`, hubs first, and one joins if `s_ij ≤ tau` to all that joined:
//! a maximal independent set. Once fewer than half of the block's masks remain, everything with
//! confidence above 0.9 is unmasked instead, at least the best.
//!
//! Strictness: an edge is `s > tau`, late confidence `>`, half `<`. Ties go left; the first visited
//! always joins. The public note gives no schedule for the edge threshold, so it is constant here.

use demask_model::Rows;

use crate::error::Result;
use crate::registry::{Cost, Entry, Kind, Param};
use crate::rule::{Confidence, SCORE, attention, independent, passing, top_k};
use crate::strategy::{Needs, Selection, Step, Stop, Strategy};

pub(super) const ENTRY: Entry = Entry {
    name: "dapd",
    aliases: &[],
    summary: "unmask a maximal set of positions that do not attend to each other, later all confident ones",
    source: "DAPD (2026); constant edge threshold",
    cost: Cost::Attention,
    params: &[
        Param {
            key: "layers",
            default: "8",
            kind: Kind::Count,
            help: "last layers whose attention is averaged",
        },
        Param {
            key: "tau",
            default: "0.02",
            kind: Kind::Number(0.0, 1.0),
            help: "mean mutual attention above this is an edge (>)",
        },
        Param {
            key: "threshold",
            default: "0.9",
            kind: Kind::Number(0.0, 1.0),
            help: "confidence to exceed once fewer than half the masks remain (>)",
        },
        SCORE,
    ],
    build: |values| {
        Ok(Box::new(Dapd {
            layers: values.count("layers").unwrap_or(8),
            tau: values.number("tau") as f32,
            threshold: values.number("threshold") as f32,
            confidence: Confidence::of(values),
        }))
    },
};

struct Dapd {
    layers: usize,
    tau: f32,
    threshold: f32,
    confidence: Confidence,
}

impl Strategy for Dapd {
    fn needs(&self) -> Needs {
        Needs { attention_layers: self.layers, ..Needs::default() }
    }

    fn select(&mut self, step: &Step<'_>) -> Result<Selection> {
        let scores = self.confidence.all(step);
        if 2 * scores.len() < step.block.entered_with {
            return Ok(passing(&scores, |_| true, |i| scores[i] > self.threshold));
        }
        let attention = attention(step, "dapd")?;
        let mutual = |i: usize, j: usize| mutual(attention, step.masked[i], step.masked[j]);
        let others = |i: usize| (0..scores.len()).filter(move |&j| j != i);
        let weights: Vec<f32> =
            (0..scores.len()).map(|i| scores[i] * others(i).map(|j| mutual(i, j)).sum::<f32>()).collect();
        let chosen = independent(&top_k(&weights, weights.len()), |i, j| mutual(i, j) > self.tau);
        let stop = if chosen.len() == scores.len() { Stop::AllTaken } else { Stop::NoCandidate };
        Ok(Selection { chosen, stop: Some(stop), ..Selection::default() })
    }
}

fn mutual(attention: &Rows, a: usize, b: usize) -> f32 {
    (attention.row(a)[b] + attention.row(b)[a]) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scene, build};

    const PROMPT: &[f32] = &[0.0; 4];

    #[test]
    fn hubs_go_first_and_exclude_their_neighbours() {
        // s_12 = 0.25, s_13 = 0.25, s_23 = 0: position 1 is the hub.
        let rows = [PROMPT, &[0.9, 0.0, 0.25, 0.5], &[0.0, 0.25, 0.0, 0.0], &[0.0; 4]];
        let scene = Scene::new(&[0.6, 0.6, 0.6]).attending(&rows);
        let run = |text: &str| scene.select(&mut *build(text));
        assert_eq!(
            (run("dapd:tau=0.2").chosen, run("dapd:tau=0.2").stop),
            (vec![0], Some(Stop::NoCandidate))
        );
        // Exactly tau is no edge.
        assert_eq!(
            (run("dapd:tau=0.25").chosen, run("dapd:tau=0.25").stop),
            (vec![0, 1, 2], Some(Stop::AllTaken))
        );
        // Weights 0.1·0.5, 0.9·0.25, 0.6·0.25: confidence outweighs the hub.
        let scene = Scene::new(&[0.1, 0.9, 0.6]).attending(&rows);
        assert_eq!(scene.select(&mut *build("dapd:tau=0.2")).chosen, [1, 2]);
    }

    #[test]
    fn fewer_than_half_the_masks_switch_to_the_threshold() {
        let mut scene = Scene::new(&[0.95, 0.9, 0.91]);
        scene.block.entered_with = 7;
        assert_eq!(scene.select(&mut *build("dapd")).chosen, [0, 2]);
        scene.block.entered_with = 6;
        let rows = [PROMPT, &[0.0, 0.0, 1.0, 1.0], &[0.0; 4], &[0.0; 4]];
        let scene = scene.attending(&rows);
        assert_eq!(scene.select(&mut *build("dapd")).chosen, [0]);
    }

    #[test]
    fn late_and_unsure_takes_the_leftmost_best() {
        let mut scene = Scene::new(&[0.3, 0.5, 0.5]);
        scene.block.entered_with = 7;
        let selection = scene.select(&mut *build("dapd"));
        assert_eq!((selection.chosen.as_slice(), selection.stop), (&[1][..], Some(Stop::Fallback)));
    }
}
