//! What the threshold rules share: the confidence they compare, the commit of everything that
//! passes, and what the model currently says at every position it was asked about.
//!
//! Invariant: [`passing`] never returns an empty selection, so each rule built on it ends.

use std::collections::HashMap;

use demask_kernels::{least_run, softmax_stats};
use rayon::prelude::*;

use crate::marginals::{LogitRows, Marginal};
use crate::strategy::registry::{Kind, Param};
use crate::strategy::spec::Values;
use crate::strategy::{Selection, Step, Stop, top_k};

/// The parameter that [`Confidence::of`] reads.
pub(super) const SCORE: Param = Param {
    key: "score",
    default: "raw",
    kind: Kind::Choice(&["raw", "filtered"]),
    help: "probability of the sampled token in the model's distribution, or after temperature and filters",
};

/// Which probability of the sampled token is the confidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Confidence {
    /// The model's own (the published LLaDA code).
    Raw,
    /// The sampler's, after temperature and filters (the published Dream code).
    Filtered,
}

impl Confidence {
    /// As `score` says.
    pub(super) fn of(values: &Values<'_>) -> Self {
        if values.text("score") == "filtered" { Self::Filtered } else { Self::Raw }
    }

    /// Of one position.
    pub(super) fn at(self, marginal: &Marginal) -> f32 {
        match self {
            Self::Raw => marginal.candidate.raw,
            Self::Filtered => marginal.candidate.probability,
        }
    }

    /// Of every masked position.
    pub(super) fn all(self, step: &Step<'_>) -> Vec<f32> {
        step.marginals.iter().map(|m| self.at(m)).collect()
    }
}

/// Everything eligible that passes, best score first; if nothing passes, the best eligible one.
pub(super) fn passing(
    scores: &[f32],
    eligible: impl Fn(usize) -> bool,
    passes: impl Fn(usize) -> bool,
) -> Selection {
    let order: Vec<usize> = top_k(scores, scores.len()).into_iter().filter(|&i| eligible(i)).collect();
    let mut chosen: Vec<usize> = order.iter().copied().filter(|&i| passes(i)).collect();
    let stop = match chosen.len() {
        0 => Stop::Fallback,
        n if n == scores.len() => Stop::AllTaken,
        _ => Stop::NoCandidate,
    };
    if chosen.is_empty() {
        chosen.extend(order.first());
    }
    Selection { chosen, stop: Some(stop), ..Selection::default() }
}

/// Top-1 probability at each position whose logits went by, decided ones included.
#[derive(Default)]
pub(super) struct Seen(HashMap<usize, f32>);

impl Seen {
    /// Notes a chunk.
    pub(super) fn push(&mut self, rows: &LogitRows<'_>) {
        let vocab = rows.vocab();
        let top = |(row, &position): (&[f32], &usize)| (position, softmax_stats(row).top1);
        let all = rows.logits.par_chunks_exact(vocab).zip(rows.positions).with_min_len(least_run());
        self.0.extend(all.map(top).collect::<Vec<(usize, f32)>>());
    }

    /// The latest opinion at every position ever noted, by position.
    pub(super) fn latest(&self) -> Vec<(usize, f32)> {
        let mut seen: Vec<(usize, f32)> = self.0.iter().map(|(&p, &top1)| (p, top1)).collect();
        seen.sort_by_key(|s| s.0);
        seen
    }

    /// What was noted in this pass, by position; the next pass begins afresh.
    pub(super) fn take(&mut self) -> Vec<(usize, f32)> {
        let mut seen: Vec<(usize, f32)> = self.0.drain().collect();
        seen.sort_by_key(|s| s.0);
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_passes_or_else_the_best_eligible() {
        let scores = [0.5, 0.9, 0.9, 0.2];
        let some = passing(&scores, |_| true, |i| scores[i] >= 0.5);
        assert_eq!((some.chosen.as_slice(), some.stop), (&[1, 2, 0][..], Some(Stop::NoCandidate)));
        let none = passing(&scores, |i| i != 1, |_| false);
        assert_eq!((none.chosen.as_slice(), none.stop), (&[2][..], Some(Stop::Fallback)));
        assert_eq!(passing(&scores, |_| true, |_| true).stop, Some(Stop::AllTaken));
    }
}
