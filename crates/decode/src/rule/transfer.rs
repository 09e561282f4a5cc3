//! The plan of a block (LLaDA2.0, SDAR): how many tokens a pass takes at least, and all above a threshold if they are at
//! least that many.

use crate::rule::top_k;
use crate::strategy::{Selection, Stop};

/// Tokens that pass `step` of `steps` takes at least in a block of `length` positions, masked or not; the remainder goes
/// to the first passes, and what earlier passes took beyond it is not made up for.
pub fn planned(length: usize, steps: usize, step: usize) -> usize {
    let steps = steps.max(1);
    length / steps + usize::from(step < length % steps)
}

/// All scores above the threshold if they are at least `count`, else the `count` best.
pub fn above_or_best(scores: &[f32], threshold: f32, count: usize) -> Selection {
    let order = top_k(scores, scores.len());
    let above = order.iter().take_while(|&&i| scores[i] > threshold).count();
    let (taken, stop) = if above >= count { (above, Stop::NoCandidate) } else { (count, Stop::Count) };
    let chosen: Vec<usize> = order.into_iter().take(taken).collect();
    let stop = if chosen.len() == scores.len() { Stop::AllTaken } else { stop };
    Selection { chosen, stop: Some(stop), ..Selection::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remainder_goes_to_the_first_passes() {
        let plan: Vec<usize> = (0..4).map(|step| planned(10, 4, step)).collect();
        assert_eq!(plan, [3, 3, 2, 2]);
        assert_eq!((planned(4, 8, 3), planned(4, 8, 4)), (1, 0));
    }

    #[test]
    fn all_above_or_the_planned_number() {
        let scores = [0.5, 0.97, 0.95, 0.99];
        assert_eq!(above_or_best(&scores, 0.95, 1).chosen, [3, 1], "0.95 itself is not above");
        assert_eq!(above_or_best(&scores, 0.95, 3).chosen, [3, 1, 2]);
        assert_eq!(above_or_best(&scores, 1.0, 9).stop, Some(Stop::AllTaken));
        assert!(above_or_best(&scores, 1.0, 0).chosen.is_empty());
    }
}
