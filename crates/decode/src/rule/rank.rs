//! Rankings of positions by a score, and selections made of them.
//!
//! Invariant: [`passing`] never returns an empty selection, so a rule built on it ends.

use demask_model::Rows;

use crate::error::{Error, Result};
use crate::strategy::{Selection, Step, Stop};

/// Indices of the `k` largest scores, best first; equal scores lowest index first.
pub fn top_k(scores: &[f32], k: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]).then(a.cmp(&b)));
    order.truncate(k);
    order
}

/// The logits a strategy asked to be kept.
pub fn kept_rows<'a>(step: &Step<'a>, strategy: &str) -> Result<&'a Rows> {
    step.rows.filter(|rows| rows.len() == step.masked.len()).ok_or_else(|| Error::Missing {
        strategy: strategy.into(),
        what: "the logits of its masks, which it must ask for".into(),
    })
}

/// The longest beginning of `order` whose members pass, told their rank (from 0); the first always does.
pub fn prefix(order: &[usize], mut passes: impl FnMut(usize, usize) -> bool) -> Vec<usize> {
    let ranked = order.iter().copied().enumerate();
    ranked.take_while(|&(rank, index)| passes(rank, index) || rank == 0).map(|(_, index)| index).collect()
}

/// Everything eligible that passes, best score first; if nothing passes, the best eligible one.
pub fn passing(
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_go_to_the_lowest_index() {
        assert_eq!(top_k(&[0.5, 0.9, 0.5, 0.9], 3), [1, 3, 0]);
    }

    #[test]
    fn a_beginning_ends_at_the_first_failure_and_is_never_empty() {
        assert_eq!(prefix(&[4, 2, 7, 1], |_, index| index != 7), [4, 2]);
        assert_eq!(prefix(&[4, 2], |rank, _| rank == 9), [4]);
        assert!(prefix(&[], |_, _| true).is_empty());
    }

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
