//! WINO: draft generously, verify what stands, take back what no longer convinces, all in one pass a step. The pass
//! carries a shadow of the block: cells that hold masks and see everything but the real cell of their own position, so
//! they tell what the model would say there if the committed token were not.
//!
//! Draft: every mask with confidence above `threshold`, but at most `clamp(0.7·masks, 5, 20)` and at least the best.
//! Verify: of the tokens committed in earlier steps of the block, those whose shadow probability is below `back` are
//! masked again, the least probable first, fewer than the previous step accepted (30 before the first), and only if
//! this step accepted more than one.
//!
//! Strictness: draft `>`, verify `<`. Ties go left. Quirks of the reference code: it takes back with no regard to what
//! this step accepts, so it may swing for ever between two states (not kept: fewer are taken back than are accepted
//! now, so every step leaves fewer masks); its model predicts in place, a shifted model's shadow stands at the row that
//! predicts the position (ours). An end of sequence stays, because what follows it is already filled (ours).

use std::collections::BTreeMap;

use demask_kernels::softmax_stats;

use crate::canvas::{Canvas, Cell};
use crate::error::Result;
use crate::marginals::LogitRows;
use crate::registry::{Cost, Entry, Kind, Param};
use crate::rule::{Confidence, SCORE, passing, top_k};
use crate::strategy::{Needs, Selection, Step, Stop, Strategy};

pub(super) const ENTRY: Entry = Entry {
    name: "wino",
    aliases: &[],
    summary: "unmask above a low threshold and mask again what the model would not write a second time",
    source: "WINO (Hong et al. 2025)",
    cost: Cost::Shadow,
    params: &[
        Param {
            key: "threshold",
            default: "0.6",
            kind: Kind::Number(0.0, 1.0),
            help: "confidence to exceed (>)",
        },
        Param {
            key: "back",
            default: "0.9",
            kind: Kind::Number(0.0, 1.0),
            help: "a committed token goes back if its probability without itself is below this (<)",
        },
        SCORE,
    ],
    build: |values| {
        Ok(Box::new(Wino {
            threshold: values.number("threshold") as f32,
            back: values.number("back") as f32,
            confidence: Confidence::of(values),
            shadow: BTreeMap::new(),
            accepted: FIRST,
        }))
    },
};

/// What the step before the first is taken to have accepted.
const FIRST: usize = 30;
/// Part of the masks a draft may take, and its bounds.
const SHARE: f64 = 0.7;
const LEAST: usize = 5;
const MOST: usize = 20;

struct Wino {
    threshold: f32,
    back: f32,
    confidence: Confidence,
    /// Probability of each committed token of the block without itself.
    shadow: BTreeMap<usize, f32>,
    /// How many positions the previous step of the block accepted.
    accepted: usize,
}

impl Strategy for Wino {
    fn reads_logits(&self) -> bool {
        false
    }

    fn needs(&self) -> Needs {
        Needs { verify: true, ..Needs::default() }
    }

    fn revises(&self) -> bool {
        true
    }

    fn on_verify(&mut self, canvas: &Canvas, mut rows: LogitRows<'_>) {
        for (position, row) in rows.iter_mut() {
            let token = canvas.tokens()[position] as usize;
            self.shadow.insert(position, (row[token] - softmax_stats(row).logsumexp).exp());
        }
    }

    fn select(&mut self, step: &Step<'_>) -> Result<Selection> {
        if step.block.step == 0 {
            self.accepted = FIRST;
        }
        let shadow = std::mem::take(&mut self.shadow);
        let scores = self.confidence.all(step);
        let mut selection = passing(&scores, |_| true, |i| scores[i] > self.threshold);
        let most = ((scores.len() as f64 * SHARE) as usize).clamp(LEAST, MOST);
        if selection.chosen.len() > most {
            selection.chosen.truncate(most);
            selection.stop = Some(Stop::Count);
        }
        let accepted = selection.chosen.len();
        if accepted > 1 && accepted < step.masked.len() {
            selection.remask = self.doubted(step.canvas, &shadow, self.accepted.min(accepted) - 1);
        }
        self.accepted = accepted;
        Ok(selection)
    }
}

impl Wino {
    /// At most `most` committed positions that the model would not write again, least probable first.
    fn doubted(&self, canvas: &Canvas, shadow: &BTreeMap<usize, f32>, most: usize) -> Vec<usize> {
        let may = |p: usize| {
            matches!(canvas.cells()[p], Cell::Committed { .. }) && !canvas.is_eos(canvas.tokens()[p])
        };
        let (positions, doubts): (Vec<usize>, Vec<f32>) =
            shadow.iter().filter(|&(&p, &s)| s < self.back && may(p)).map(|(&p, &s)| (p, -s)).unzip();
        top_k(&doubts, most).into_iter().map(|i| positions[i]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{EOS, Scene, build, logs, verify};

    #[test]
    fn a_draft_exceeds_its_threshold_or_is_the_leftmost_best() {
        let run = |confidence: &[f32]| Scene::new(confidence).select(&mut *build("wino:threshold=0.5"));
        let some = run(&[0.5, 0.75, 0.625, 0.25]);
        assert_eq!((some.chosen.as_slice(), some.stop), (&[1, 2][..], Some(Stop::NoCandidate)));
        let none = run(&[0.25, 0.5, 0.5]);
        assert_eq!((none.chosen.as_slice(), none.stop), (&[1][..], Some(Stop::Fallback)));
    }

    #[test]
    fn a_draft_takes_at_most_its_share() {
        let count = |masks: usize| Scene::new(&vec![0.9; masks]).select(&mut *build("wino")).chosen.len();
        // 0.7·6 = 4.2, raised to 5; 0.7·20 = 14; 0.7·40 = 28, lowered to 20.
        assert_eq!((count(4), count(6), count(20), count(40)), (4, 5, 14, 20));
    }

    /// Positions 1, 2 and 3 hold token 0 (or what is given), 4 to 8 are masks.
    fn standing(tokens: [u32; 3]) -> Scene {
        let mut scene = Scene::new(&[0.9; 8]);
        for (position, token) in (1..).zip(tokens) {
            scene.commit(position, token, 0.9);
        }
        scene.block.step = 1;
        scene
    }

    #[test]
    fn what_the_shadow_doubts_goes_back_least_probable_first() {
        let scene = standing([0; 3]);
        let run = |masks: &[f32], probabilities: [f32; 3]| {
            let mut strategy = build("wino:back=0.5");
            for (position, p) in (1..).zip(probabilities) {
                verify(&mut *strategy, &scene.canvas, position, &logs(&[p, 1.0 - p]));
            }
            let mut scene = Scene { marginals: scene.marginals.clone(), ..standing([0; 3]) };
            for (marginal, &c) in scene.marginals.iter_mut().zip(masks) {
                marginal.candidate.raw = c;
            }
            scene.select(&mut *strategy).remask
        };
        // Three are accepted, so two may go.
        assert_eq!(run(&[0.9, 0.9, 0.9, 0.1, 0.1], [0.25, 0.75, 0.125]), [3, 1]);
        assert_eq!(run(&[0.9, 0.9, 0.9, 0.1, 0.1], [0.25, 0.25, 0.25]), [1, 2]);
        // Two are accepted: one may go. One is accepted: none.
        assert_eq!(run(&[0.9, 0.9, 0.1, 0.1, 0.1], [0.25, 0.75, 0.125]), [3]);
        assert!(run(&[0.9, 0.1, 0.1, 0.1, 0.1], [0.25, 0.75, 0.125]).is_empty());
        // All masks are accepted: the block is done and nothing goes back.
        assert!(run(&[0.9; 5], [0.25, 0.75, 0.125]).is_empty());
    }

    #[test]
    fn exactly_the_bar_stays() {
        let mut strategy = build("wino:back=1");
        let mut scene = standing([0; 3]);
        scene.marginals[4].candidate.raw = 0.1;
        verify(&mut *strategy, &scene.canvas, 1, &[0.0, f32::NEG_INFINITY]);
        verify(&mut *strategy, &scene.canvas, 2, &[0.0, -9.0]);
        assert_eq!(scene.select(&mut *strategy).remask, [2]);
    }

    #[test]
    fn fewer_go_back_than_the_last_step_accepted() {
        let mut strategy = build("wino:back=0.5");
        let mut scene = Scene::new(&[0.9, 0.9, 0.1, 0.1, 0.1, 0.1, 0.1]);
        assert_eq!(scene.advance(&mut *strategy, &[0.9, 0.9, 0.9, 0.1, 0.1]).chosen, [0, 1]);
        for position in [1, 2] {
            let mut row = logs(&[0.1; 8]);
            row[7] = 0.01_f32.ln();
            verify(&mut *strategy, &scene.canvas, position, &row);
        }
        // Three are accepted now, but two were before: one may go, the left of equals.
        assert_eq!(scene.select(&mut *strategy).remask, [1]);
    }

    #[test]
    fn an_end_of_sequence_stays() {
        let scene = standing([0, EOS, 0]);
        let mut strategy = build("wino");
        let mut row = vec![0.0; EOS as usize + 1];
        row[EOS as usize] = -9.0;
        verify(&mut *strategy, &scene.canvas, 2, &row);
        let mut scene = scene;
        scene.marginals[4].candidate.raw = 0.1;
        assert!(scene.select(&mut *strategy).remask.is_empty());
    }
}
