//! The learned start of DEMASK: the left-most position whose token is not settled yet by confidence, but is expected to
//! stay what it is once everything sure is revealed; and what such an expectation remembers of the step before.
//!
//! *Sure* is a position above γ. An unsure one that waits for the sure ones loses a pass; one that does not wait and
//! would have changed its mind is an error. `q` is the probability of the latter, κ what is accepted of it.

use std::collections::HashMap;

use crate::marginals::Marginal;
use crate::rule::greedy::most_confident;

/// Opens the set of Algorithm 2: the left-most unsure position with `q ≤ κ`, else (also if nothing is sure) the surest.
///
/// `change[i]` is `q` of position `i`; it is not looked at where the position is sure.
///
/// ```
/// use demask_decode::rule::stable_start;
/// // Positions 0 and 1 are unsure; the first is expected to change once position 2 is known.
/// assert_eq!(stable_start(&[0.4, 0.5, 0.99], &[0.3, 0.01, 0.0], 0.9, 0.02), 1);
/// assert_eq!(stable_start(&[0.4, 0.5, 0.99], &[0.3, 0.3, 0.0], 0.9, 0.02), 2);
/// ```
///
/// # Panics
/// If the lengths differ, or there is no position.
pub fn stable_start(confidence: &[f32], change: &[f32], gamma: f32, kappa: f32) -> usize {
    assert!(!confidence.is_empty() && confidence.len() == change.len(), "an expectation for each position");
    let surest = most_confident(confidence);
    if confidence[surest] <= gamma {
        return surest;
    }
    let mut unsure = (0..confidence.len()).filter(|&f| confidence[f] <= gamma);
    unsure.find(|&f| change[f] <= kappa).unwrap_or(surest)
}

/// What was so at a position in the step before this one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Before {
    /// Its most probable token is still the same.
    pub kept: bool,
    /// The probability of that token then.
    pub top1: f32,
}

/// The most probable tokens of the last step, at positions that were masked in it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Last {
    tokens: HashMap<usize, (usize, f32)>,
}

impl Last {
    /// What was so before at the masks of this step, which becomes the last one; `None` where a position was not looked at.
    pub fn advance(&mut self, masked: &[usize], marginals: &[Marginal]) -> Vec<Option<Before>> {
        let before = |(position, now): (&usize, &Marginal)| {
            let &(argmax, top1) = self.tokens.get(position)?;
            Some(Before { kept: argmax == now.raw.argmax, top1 })
        };
        let known = masked.iter().zip(marginals).map(before).collect();
        let now = masked.iter().zip(marginals).map(|(&at, m)| (at, (m.raw.argmax, m.raw.top1)));
        self.tokens = now.collect();
        known
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::dependency::Dependency;
    use crate::rng::{Purpose, Rng};
    use crate::rule::{Limit, Start, Thresholds, subset_from};
    use crate::testing::marginal;

    #[test]
    fn thresholds_are_as_they_are_written() {
        // Exactly gamma is unsure, exactly kappa is accepted.
        assert_eq!(stable_start(&[0.9, 0.95], &[0.02, 0.0], 0.9, 0.02), 0);
        assert_eq!(stable_start(&[0.9, 0.95], &[0.020_001, 0.0], 0.9, 0.02), 1);
        // Nothing is sure: the surest, though others are stable. Everything is: the surest, too.
        assert_eq!(stable_start(&[0.1, 0.3, 0.3], &[0.0; 3], 0.9, 0.5), 1);
        assert_eq!(stable_start(&[0.95, 0.99, 0.99], &[0.0; 3], 0.9, 0.5), 1);
    }

    /// The rule as it is described, in plain loops: sure, start, then Algorithm 2 with every sum taken afresh.
    fn plain(
        d: &Dependency,
        p: &[f32],
        q: &[f32],
        (tau, gamma, kappa): (f32, f32, f32),
    ) -> (Vec<usize>, f32) {
        let mut sure = Vec::new();
        let mut surest = 0;
        for i in 0..p.len() {
            if p[i] > gamma {
                sure.push(i);
            }
            if p[i] > p[surest] {
                surest = i;
            }
        }
        let mut start = surest;
        for f in (0..p.len()).rev() {
            if !sure.is_empty() && !sure.contains(&f) && q[f] <= kappa {
                start = f;
            }
        }
        let (mut s, mut accum) = (vec![start], 0.0_f32);
        loop {
            let mut best: Option<(usize, f32)> = None;
            for &c in sure.iter().filter(|c| !s.contains(c)) {
                let mut sum = 0.0;
                for &j in &s {
                    sum += d.on(c, j);
                }
                if best.is_none() || best.is_some_and(|(_, least)| sum < least) {
                    best = Some((c, sum));
                }
            }
            match best {
                Some((c, delta)) if accum + delta <= tau => {
                    s.push(c);
                    accum += delta;
                }
                _ => return (s, accum),
            }
        }
    }

    proptest! {
        #[test]
        fn equals_the_rule_in_plain_loops(
            size in 1_usize..30, seed in any::<u64>(), tau in 0.0_f32..3.0, gamma in 0.0_f32..1.0, kappa in 0.0_f32..1.0
        ) {
            let rng = Rng::new(seed, 0);
            let draw = |of: u64, i: usize| (rng.uniform(Purpose::Mask, of, i as u64) * 16.0).floor() as f32 / 16.0;
            let data = (0..size * size).map(|i| if i % (size + 1) == 0 { 0.0 } else { draw(0, i) }).collect();
            let d = Dependency::from_rows(data, size);
            let p: Vec<f32> = (0..size).map(|i| draw(1, i)).collect();
            let q: Vec<f32> = (0..size).map(|i| draw(2, i)).collect();
            let thresholds = Thresholds { tau, gamma, start: Start::Leftmost };
            let ours = subset_from(stable_start(&p, &q, gamma, kappa), &d, &p, thresholds, Limit::Sum);
            let (chosen, used) = plain(&d, &p, &q, (tau, gamma, kappa));
            prop_assert_eq!(ours.chosen, chosen);
            prop_assert_eq!(ours.budget.used, used);
        }
    }

    #[test]
    fn the_last_step_alone_is_remembered() {
        let with = |argmax: usize, top1| {
            let mut m = marginal(top1, 0.0);
            m.raw.argmax = argmax;
            m
        };
        let mut last = Last::default();
        assert_eq!(last.advance(&[4, 6], &[with(1, 0.25), with(2, 0.5)]), [None, None]);
        let second = last.advance(&[4, 5, 6], &[with(1, 0.75), with(3, 0.5), with(9, 0.5)]);
        assert_eq!(second[0], Some(Before { kept: true, top1: 0.25 }));
        assert_eq!((second[1], second[2]), (None, Some(Before { kept: false, top1: 0.5 })));
        assert_eq!(last.advance(&[5], &[with(3, 0.9)]), [Some(Before { kept: true, top1: 0.5 })]);
        assert_eq!(last.advance(&[4], &[with(1, 0.9)]), [None], "it was not a mask of the last step");
    }
}
