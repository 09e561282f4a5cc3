//! Saber: an adaptive threshold and backtracking. A mask is unmasked if its confidence exceeds the mean
//! confidence that tokens had when they were committed (1 before there is any), at least `n` masks;
//! then, of the tokens committed so far in the block, those whose confidence fell most since the
//! last pass are masked again: `max(n/2, ⌈committed now/8⌉)`, but fewer than were just committed.
//!
//! So every step leaves fewer masks than it found, and a step that leaves none takes nothing back.
//! Strictness: `>`. Ties go left. Quirks of the reference code: the confidence of a committed position
//! is the current top-1 probability there, not that of the token it holds, and what was just committed
//! may be taken back at once (both kept); tokens of earlier blocks may be taken back (not kept). An end of
//! sequence stays, because what follows it is already filled (ours).

use std::collections::HashMap;

use crate::canvas::Cell;
use crate::error::Result;
use crate::marginals::LogitRows;
use crate::registry::{Cost, Entry, Kind, Param};
use crate::rule::{Confidence, SCORE, Seen, passing, top_k};
use crate::strategy::{Extent, Needs, Selection, Step, Stop, Strategy};

pub(super) const ENTRY: Entry = Entry {
    name: "saber",
    aliases: &[],
    summary: "unmask above the mean confidence so far and mask again tokens whose confidence fell most",
    source: "Saber (Dong et al. 2025)",
    cost: Cost::Logits,
    params: &[
        Param { key: "n", default: "2", kind: Kind::Count, help: "least tokens committed in a step" },
        SCORE,
    ],
    build: |values| {
        Ok(Box::new(Saber {
            least: values.count("n").unwrap_or(2),
            confidence: Confidence::of(values),
            committed: HashMap::new(),
            previous: HashMap::new(),
            seen: Seen::default(),
        }))
    },
};

struct Saber {
    least: usize,
    confidence: Confidence,
    /// Confidence of every position when it was last committed.
    committed: HashMap<usize, f32>,
    /// Latest confidence of every position of the block before this pass.
    previous: HashMap<usize, f32>,
    seen: Seen,
}

impl Strategy for Saber {
    fn revises(&self) -> bool {
        true
    }

    fn needs(&self) -> Needs {
        Needs { decided: Extent::Block, ..Needs::default() }
    }

    fn on_logits(&mut self, _step: usize, rows: LogitRows<'_>) {
        self.seen.push(&rows);
    }

    fn select(&mut self, step: &Step<'_>) -> Result<Selection> {
        let scores = self.confidence.all(step);
        let threshold = self.threshold();
        let mut selection = passing(&scores, |_| true, |i| scores[i] > threshold);
        if selection.chosen.len() < self.least {
            selection.chosen = top_k(&scores, self.least);
            let all = selection.chosen.len() == scores.len();
            selection.stop = Some(if all { Stop::AllTaken } else { Stop::Fallback });
        }
        let mut now: HashMap<usize, f32> = self.seen.take().into_iter().collect();
        now.extend(step.masked.iter().copied().zip(scores.iter().copied()));
        selection.remask = self.backtrack(step, &selection.chosen, &now);
        let committed = selection.chosen.iter().map(|&i| (step.masked[i], scores[i]));
        self.committed.extend(committed);
        // A row that a cache kept has no new opinion; its last one stands.
        self.previous.extend(now);
        Ok(selection)
    }
}

impl Saber {
    fn threshold(&self) -> f32 {
        if self.committed.is_empty() {
            return 1.0;
        }
        // In the order of positions, so that the sum does not depend on the map.
        let mut all: Vec<(usize, f32)> = self.committed.iter().map(|(&p, &c)| (p, c)).collect();
        all.sort_by_key(|c| c.0);
        all.iter().map(|c| c.1).sum::<f32>() / all.len() as f32
    }

    /// Positions to mask again.
    fn backtrack(&self, step: &Step<'_>, chosen: &[usize], now: &HashMap<usize, f32>) -> Vec<usize> {
        if chosen.len() == step.masked.len() {
            return Vec::new();
        }
        let count = (self.least / 2).max(chosen.len().div_ceil(8)).min(chosen.len() - 1);
        let canvas = step.canvas;
        let fresh = chosen.iter().filter(|&&i| !canvas.is_eos(step.marginals[i].candidate.token));
        let old = |&p: &usize| {
            matches!(canvas.cells()[p], Cell::Committed { .. }) && !canvas.is_eos(canvas.tokens()[p])
        };
        let mut positions: Vec<usize> =
            fresh.map(|&i| step.masked[i]).chain(now.keys().copied().filter(old)).collect();
        positions.sort_unstable();
        let fall = |p: &usize| self.previous.get(p).copied().unwrap_or(0.0) - now[p];
        let falls: Vec<f32> = positions.iter().map(fall).collect();
        top_k(&falls, count).into_iter().map(|i| positions[i]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{EOS, Scene, build, feed, logs};

    #[test]
    fn the_threshold_is_the_mean_so_far_and_what_fell_is_taken_back() {
        let mut strategy = build("saber:n=2");
        let mut scene = Scene::new(&[0.875, 0.2, 0.625, 0.1, 0.1]);
        // Nothing exceeds 1: the best two. Both rose from 0, position 3 the less: it goes back.
        let first = scene.advance(&mut *strategy, &[0.76, 0.85, 0.75, 0.3]);
        assert_eq!((first.chosen.as_slice(), first.remask.as_slice()), (&[0, 2][..], &[3][..]));
        // The mean of 0.875 and 0.625 is 0.75, which 0.75 itself does not exceed. Position 1 fell from
        // 0.875 to 0.5.
        feed(&mut *strategy, 1, &[(1, &logs(&[0.5, 0.5]))]);
        let second = scene.advance(&mut *strategy, &[0.9, 0.9, 0.9]);
        assert_eq!((second.chosen.as_slice(), second.remask.as_slice()), (&[1, 0][..], &[1][..]));
        // Everything exceeds the mean of 0.875, 0.85 and 0.76: nothing is left, nothing taken back.
        let last = scene.advance(&mut *strategy, &[]);
        assert_eq!((last.chosen.len(), last.stop, last.remask.len()), (3, Some(Stop::AllTaken), 0));
    }

    #[test]
    fn one_in_eight_goes_back_and_always_fewer_than_came() {
        let confidence: Vec<f32> =
            (0..40).map(|i| if i < 20 { 1.0 - i as f32 / 100.0 } else { 0.1 }).collect();
        let mut strategy = build("saber:n=17");
        let selection = Scene::new(&confidence).select(&mut *strategy);
        // n/2 = 8 outweighs ⌈17/8⌉ = 3; the least risen are the last of the seventeen.
        assert_eq!((selection.chosen.len(), selection.remask), (17, vec![17, 16, 15, 14, 13, 12, 11, 10]));
        assert!(Scene::new(&[0.5, 0.4]).select(&mut *build("saber:n=1")).remask.is_empty());
    }

    #[test]
    fn an_end_of_sequence_is_not_taken_back() {
        let mut scene = Scene::new(&[0.9, 0.2, 0.7]);
        scene.marginals[2].candidate.token = EOS;
        assert_eq!(scene.select(&mut *build("saber")).remask, [1]);
    }
}
