//! DAPD: attention between masks as dependency. `s_ij` is the mean of both directions; masks are
//! visited by `confidence · Σ_j s_ij`, hubs first, and one joins if `s_ij ≤ τ` to all that joined:
//! a maximal independent set. τ moves evenly from `tau` to `tau_end` as the block's masks are decided. Once fewer than half of the block's masks remain, everything with
//! confidence above 0.9 is unmasked instead, at least the best.
//!
//! Strictness: an edge is `s > tau`, late confidence `>`, half `<`. Ties go left; the first visited
//! always joins. The published scripts take 0.001 to 0.004 for mathematics and 0.0005 to 0.001 (Dream) or 0.0012 (LLaDA)
//! for code, the attention of the last 4 of 28 layers (Dream) or the last quarter (LLaDA).

use demask_model::Rows;

use crate::error::Result;
use crate::registry::{Cost, Entry, Kind, Param};
use crate::rule::{Confidence, SCORE, attention, independent, passing, top_k};
use crate::strategy::{Needs, Selection, Step, Stop, Strategy};

pub(super) const ENTRY: Entry = Entry {
    name: "dapd",
    aliases: &[],
    summary: "unmask a maximal set of positions that do not attend to each other, later all confident ones",
    source: "DAPD (2026), as ported beside CLAD",
    cost: Cost::Attention,
    params: &[
        Param {
            key: "layers",
            default: "4",
            kind: Kind::Count,
            help: "last layers whose attention is averaged",
        },
        Param {
            key: "tau",
            default: "0.001",
            kind: Kind::Number(0.0, 1.0),
            help: "mean mutual attention above this is an edge (>) when a block begins",
        },
        Param {
            key: "tau_end",
            default: "0.004",
            kind: Kind::Number(0.0, 1.0),
            help: "the same when its last mask is decided",
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
            layers: values.count("layers").unwrap_or(4),
            tau: (values.number("tau") as f32, values.number("tau_end") as f32),
            threshold: values.number("threshold") as f32,
            confidence: Confidence::of(values),
        }))
    },
};

/// The share of a block's masks below which the threshold takes over.
const SWITCH: f64 = 0.5;

struct Dapd {
    layers: usize,
    /// When a block begins and when it ends.
    tau: (f32, f32),
    threshold: f32,
    confidence: Confidence,
}

impl Strategy for Dapd {
    fn reads_logits(&self) -> bool {
        false
    }

    fn needs(&self) -> Needs {
        Needs { attention_layers: self.layers, ..Needs::default() }
    }

    fn select(&mut self, step: &Step<'_>) -> Result<Selection> {
        let scores = self.confidence.all(step);
        if (scores.len() as f64) < SWITCH * step.block.entered_with as f64 {
            return Ok(passing(&scores, |_| true, |i| scores[i] > self.threshold));
        }
        let attention = attention(step, "dapd")?;
        let done = 1.0 - scores.len() as f32 / step.block.entered_with.max(scores.len()) as f32;
        let tau = self.tau.0 + (self.tau.1 - self.tau.0) * done;
        let mutual = |i: usize, j: usize| mutual(attention, step.masked[i], step.masked[j]);
        let others = |i: usize| (0..scores.len()).filter(move |&j| j != i);
        let weights: Vec<f32> =
            (0..scores.len()).map(|i| scores[i] * others(i).map(|j| mutual(i, j)).sum::<f32>()).collect();
        let chosen = independent(&top_k(&weights, weights.len()), |i, j| mutual(i, j) > tau);
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
    use crate::testing::{Scene, build, fixture, indices, rows};

    const PROMPT: &[f32] = &[0.0; 4];

    #[test]
    fn hubs_go_first_and_exclude_their_neighbours() {
        // s_12 = 0.25, s_13 = 0.25, s_23 = 0: position 1 is the hub.
        let rows = [PROMPT, &[0.9, 0.0, 0.25, 0.5], &[0.0, 0.25, 0.0, 0.0], &[0.0; 4]];
        let scene = Scene::new(&[0.6, 0.6, 0.6]).attending(&rows);
        let run = |text: &str| scene.select(&mut *build(text));
        assert_eq!(
            (run("dapd:tau=0.2,tau_end=0.2").chosen, run("dapd:tau=0.2,tau_end=0.2").stop),
            (vec![0], Some(Stop::NoCandidate))
        );
        // Exactly tau is no edge.
        assert_eq!(
            (run("dapd:tau=0.25,tau_end=0.25").chosen, run("dapd:tau=0.25,tau_end=0.25").stop),
            (vec![0, 1, 2], Some(Stop::AllTaken))
        );
        // Weights 0.1·0.5, 0.9·0.25, 0.6·0.25: confidence outweighs the hub.
        let scene = Scene::new(&[0.1, 0.9, 0.6]).attending(&rows);
        assert_eq!(scene.select(&mut *build("dapd:tau=0.2,tau_end=0.2")).chosen, [1, 2]);
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

    #[test]
    fn kept_positions_are_those_of_the_reference() {
        let all = fixture("rivals-toy/dapd.json");
        let number = |key: &str| all[key].as_f64().unwrap();
        assert_eq!(number("switch_ratio"), SWITCH);
        let text = format!(
            "dapd:tau={},tau_end={},threshold={}",
            number("tau_min"),
            number("tau_max"),
            number("fast_threshold")
        );
        for case in all["cases"].as_array().unwrap() {
            let (logits, masked) = (rows(&case["logits"]), indices(&case["masked"]));
            let confidence = |p: usize| {
                let weights: Vec<f32> = logits.row(p).iter().map(|z| z.exp()).collect();
                weights.iter().copied().fold(0.0, f32::max) / weights.iter().sum::<f32>()
            };
            let cells: Vec<Option<f32>> =
                (0..logits.len()).map(|p| masked.contains(&p).then(|| confidence(p))).collect();
            // The scene has a prompt token before the case's canvas, which nobody attends to.
            let map = rows(&case["attention"]);
            let padded: Vec<Vec<f32>> = std::iter::once(vec![0.0; map.width + 1])
                .chain(map.iter().map(|row| std::iter::once(0.0).chain(row.iter().copied()).collect()))
                .collect();
            let padded: Vec<&[f32]> = padded.iter().map(Vec::as_slice).collect();
            let mut scene = Scene::gaps(&cells).attending(&padded);
            scene.block.entered_with = case["masks_at_block_start"].as_u64().unwrap() as usize;
            let chosen = scene.select(&mut *build(&text)).chosen;
            let mut kept: Vec<usize> = chosen.iter().map(|&i| masked[i]).collect();
            kept.sort_unstable();
            assert_eq!(kept, indices(&case["kept"]));
        }
    }
}
