//! Algorithm 2 of the paper, pure: the largest set of positions, grown greedily, whose cumulative
//! pairwise dependency stays within τ.
//!
//! Running column sums make it `O(|M|·|S|)`: `cost[c] = Σ_{s∈S} D[c,s]` grows by one column when a
//! position joins `S`. Costs only grow, so the first candidate that does not fit ends the search.

use crate::dependency::Dependency;
use crate::strategy::{Budget, Stop};

/// Which position opens the set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Start {
    /// The left-most masked position, whatever its confidence (the paper).
    #[default]
    Leftmost,
    /// The most confident one.
    Confident,
    /// Of those above γ the one that depends least on all others together; the most confident if there is none.
    Independent,
    /// The most confident one; the left-most joins last, whatever its confidence, if its dependency on the set fits τ.
    /// So an open choice of words is made beside what is sure, while a guess waits for what would decide it.
    Anchored,
}

/// The thresholds of Algorithm 2.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Thresholds {
    /// Greatest cumulative dependency (τ).
    pub tau: f32,
    /// Confidence a position must exceed to join (γ).
    pub gamma: f32,
    /// How the set begins.
    pub start: Start,
}

/// What τ bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Limit {
    /// The cumulative dependency of the set (the paper, and its theorem).
    #[default]
    Sum,
    /// The dependency of each position on those before it; no bound on the whole step.
    Position,
}

impl Limit {
    fn allows(self, accumulated: f32, delta: f32, tau: f32) -> bool {
        match self {
            Self::Sum => accumulated + delta <= tau,
            Self::Position => delta <= tau,
        }
    }
}

/// What was selected, in the order of selection.
#[derive(Debug, Clone, PartialEq)]
pub struct Subset {
    /// Indices into the masked positions.
    pub chosen: Vec<usize>,
    /// τ and what was accumulated of it.
    pub budget: Budget,
    /// Why it is not larger.
    pub stop: Stop,
}

/// Selects from `|M| = confidence.len()` positions; `dependency` is `|M|×|M|`.
///
/// ```
/// use demask_decode::dependency::Dependency;
/// use demask_decode::rule::{Start, Thresholds, greedy_subset};
/// // Position 1 depends on position 0 by 0.5, position 2 on neither.
/// let dependency = Dependency::from_rows(vec![0.0, 0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0], 3);
/// let thresholds = Thresholds { tau: 0.1, gamma: 0.7, start: Start::Leftmost };
/// assert_eq!(greedy_subset(&dependency, &[0.9, 0.9, 0.9], thresholds).chosen, [0, 2]);
/// ```
///
/// # Panics
/// If the matrix does not match, or there is no position.
pub fn greedy_subset(dependency: &Dependency, confidence: &[f32], thresholds: Thresholds) -> Subset {
    limited_subset(dependency, confidence, thresholds, Limit::Sum)
}

/// [`greedy_subset`] with a choice of what τ bounds; what is reported as used stays the sum.
///
/// # Panics
/// As [`greedy_subset`].
pub fn limited_subset(
    dependency: &Dependency,
    confidence: &[f32],
    thresholds: Thresholds,
    limit: Limit,
) -> Subset {
    let size = confidence.len();
    assert!(size > 0 && dependency.len() == size, "dependency of {} for {size} positions", dependency.len());
    let first = match thresholds.start {
        Start::Leftmost => 0,
        Start::Confident | Start::Anchored => most_confident(confidence),
        Start::Independent => least_dependent(dependency, confidence, thresholds.gamma),
    };
    let mut subset = subset_from(first, dependency, confidence, thresholds, limit);
    if thresholds.start == Start::Anchored && confidence[first] > thresholds.gamma {
        join_leftmost(&mut subset, dependency, limit);
    }
    subset
}

/// An anchored set takes the left-most last, if its dependency on the set fits.
fn join_leftmost(subset: &mut Subset, dependency: &Dependency, limit: Limit) {
    if subset.chosen.contains(&0) {
        return;
    }
    let delta = subset.chosen.iter().map(|&s| dependency.on(0, s)).sum();
    if limit.allows(subset.budget.used, delta, subset.budget.limit) {
        subset.budget.used += delta;
        subset.chosen.push(0);
    }
}

/// Algorithm 2 from a position that somebody else chose, see [`stable_start`](crate::rule::stable_start);
/// `thresholds.start` means nothing here.
///
/// # Panics
/// As [`greedy_subset`], or if `first` is not one of the positions.
pub fn subset_from(
    first: usize,
    dependency: &Dependency,
    confidence: &[f32],
    thresholds: Thresholds,
    limit: Limit,
) -> Subset {
    let size = confidence.len();
    assert!(
        first < size && dependency.len() == size,
        "dependency of {} for {size} positions",
        dependency.len()
    );
    let mut candidates: Vec<usize> =
        (0..size).filter(|&c| c != first && confidence[c] > thresholds.gamma).collect();
    let mut cost = vec![0.0_f32; size];
    let mut chosen = vec![first];
    let mut accumulated = 0.0_f32;
    let mut newest = first;
    let mut columns = Vec::new();
    let stop = loop {
        if columns.is_empty() && chosen.len() == FEW {
            columns = transposed(dependency);
        }
        let column = columns.get(newest * size..(newest + 1) * size);
        let mut best: Option<(usize, f32)> = None;
        for (slot, &c) in candidates.iter().enumerate() {
            cost[c] += column.map_or_else(|| dependency.on(c, newest), |column| column[c]);
            if best.is_none_or(|(_, least)| cost[c] < least) {
                best = Some((slot, cost[c]));
            }
        }
        let Some((slot, delta)) = best else {
            break if chosen.len() == size { Stop::AllTaken } else { Stop::NoCandidate };
        };
        if !limit.allows(accumulated, delta, thresholds.tau) {
            break Stop::Budget;
        }
        accumulated += delta;
        // Keeps the candidates ascending, so that ties go to the lowest position.
        newest = candidates.remove(slot);
        chosen.push(newest);
    };
    Subset { chosen, budget: Budget { limit: thresholds.tau, used: accumulated }, stop }
}

/// Positions selected before it pays to lay the matrix out by columns, which are what the sums walk along.
const FEW: usize = 16;

fn transposed(dependency: &Dependency) -> Vec<f32> {
    const BLOCK: usize = 16;
    let size = dependency.len();
    let mut columns = vec![0.0; size * size];
    for band in (0..size).step_by(BLOCK) {
        for (j, column) in columns.chunks_exact_mut(size).enumerate() {
            for (i, value) in column.iter_mut().enumerate().skip(band).take(BLOCK) {
                *value = dependency.on(i, j);
            }
        }
    }
    columns
}

pub(super) fn most_confident(confidence: &[f32]) -> usize {
    let mut best = 0;
    for (i, &c) in confidence.iter().enumerate() {
        if c > confidence[best] {
            best = i;
        }
    }
    best
}

fn least_dependent(dependency: &Dependency, confidence: &[f32], gamma: f32) -> usize {
    let size = confidence.len();
    let mut best: Option<(usize, f32)> = None;
    for i in (0..size).filter(|&i| confidence[i] > gamma) {
        let sum = (0..size).map(|j| dependency.on(i, j)).sum();
        if best.is_none_or(|(_, least)| sum < least) {
            best = Some((i, sum));
        }
    }
    best.map_or_else(|| most_confident(confidence), |(i, _)| i)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn thresholds(tau: f32, gamma: f32) -> Thresholds {
        Thresholds { tau, gamma, start: Start::Leftmost }
    }

    fn matrix(rows: &[&[f32]]) -> Dependency {
        Dependency::from_rows(rows.concat(), rows.len())
    }

    #[test]
    fn a_hand_computed_case() {
        // Costs after {0}: 1 → 0.1, 2 → 0.03, 3 → 0.02. Takes 3; then 1 → 0.1 + 0.0, 2 → 0.03 + 0.5.
        let d = matrix(&[
            &[0.0, 0.9, 0.9, 0.9],
            &[0.1, 0.0, 0.9, 0.0],
            &[0.03, 0.9, 0.0, 0.5],
            &[0.02, 0.9, 0.9, 0.0],
        ]);
        let subset = greedy_subset(&d, &[0.2, 0.95, 0.95, 0.95], thresholds(0.125, 0.9));
        assert_eq!(subset.chosen, [0, 3, 1]);
        assert_eq!(subset.stop, Stop::Budget);
        assert!((subset.budget.used - 0.12).abs() < 1e-6);
    }

    #[test]
    fn exactly_tau_is_admitted_and_exactly_gamma_is_not() {
        let d = matrix(&[&[0.0, 0.0, 0.0], &[0.25, 0.0, 0.0], &[0.25, 0.0, 0.0]]);
        let subset = greedy_subset(&d, &[0.1, 0.5, 0.75], thresholds(0.25, 0.5));
        assert_eq!((subset.chosen.as_slice(), subset.stop), (&[0, 2][..], Stop::NoCandidate));
        let less = greedy_subset(&d, &[0.1, 0.5, 0.75], thresholds(0.2499, 0.5));
        assert_eq!((less.chosen.as_slice(), less.stop), (&[0][..], Stop::Budget));
    }

    #[test]
    fn ties_go_to_the_lowest_position() {
        let d = matrix(&[&[0.0; 3], &[0.1, 0.0, 0.0], &[0.1, 0.0, 0.0]]);
        let subset = greedy_subset(&d, &[1.0, 0.95, 0.99], thresholds(0.1, 0.9));
        assert_eq!(subset.chosen, [0, 1]);
    }

    #[test]
    fn extremes_of_the_thresholds() {
        let d = matrix(&[&[0.0, 0.4, 0.4], &[0.4, 0.0, 0.4], &[0.4, 0.4, 0.0]]);
        let all = greedy_subset(&d, &[0.1, 0.99, 0.99], thresholds(f32::INFINITY, 0.9));
        assert_eq!((all.chosen.len(), all.stop), (3, Stop::AllTaken));
        assert_eq!(greedy_subset(&d, &[0.1, 0.99, 0.99], thresholds(0.5, 1.0)).chosen, [0]);
        assert_eq!(greedy_subset(&d, &[0.1, 0.99, 0.99], thresholds(0.0, 0.0)).chosen, [0]);
        let anchored = Thresholds { tau: 0.0, gamma: 0.9, start: Start::Confident };
        assert_eq!(greedy_subset(&d, &[0.1, 0.98, 0.99], anchored).chosen, [2]);
    }

    #[test]
    fn the_start_may_be_the_least_dependent_above_gamma() {
        // Rows sum to 0.2, 0.5, 0.3, 0.1; the last is not confident enough.
        let d = matrix(&[
            &[0.0, 0.1, 0.1, 0.0],
            &[0.5, 0.0, 0.0, 0.0],
            &[0.0, 0.3, 0.0, 0.0],
            &[0.1, 0.0, 0.0, 0.0],
        ]);
        let start = |confidence: &[f32]| {
            let thresholds = Thresholds { tau: -1.0, gamma: 0.5, start: Start::Independent };
            greedy_subset(&d, confidence, thresholds).chosen
        };
        assert_eq!(start(&[0.9, 0.9, 0.9, 0.5]), [0]);
        assert_eq!(start(&[0.5, 0.9, 0.9, 0.5]), [2]);
        assert_eq!(start(&[0.1, 0.2, 0.3, 0.3]), [2], "nobody is above gamma");
        // Equal sums go left.
        let even = Dependency::from_rows(vec![0.0; 9], 3);
        let thresholds = Thresholds { tau: -1.0, gamma: 0.5, start: Start::Independent };
        assert_eq!(greedy_subset(&even, &[0.4, 0.6, 0.9], thresholds).chosen, [1]);
    }

    #[test]
    fn a_limit_per_position_ignores_the_sum() {
        // Costs: 1 → 0.1, then 2 → 0.1 + 0.02; together 0.22.
        let d = matrix(&[&[0.0; 3], &[0.1, 0.0, 0.0], &[0.1, 0.02, 0.0]]);
        let run = |tau, limit| limited_subset(&d, &[1.0; 3], thresholds(tau, 0.9), limit).chosen;
        assert_eq!(run(0.125, Limit::Sum), [0, 1]);
        assert_eq!(run(0.125, Limit::Position), [0, 1, 2]);
        assert_eq!(run(0.115, Limit::Position), [0, 1]);
    }

    /// Algorithm 2 as it is printed, with every sum taken afresh.
    fn printed(d: &Dependency, confidence: &[f32], t: Thresholds) -> (Vec<usize>, f32) {
        let (mut s, mut accum) = (vec![0], 0.0_f32);
        loop {
            let sum = |c: usize| s.iter().map(|&j| d.on(c, j)).fold(0.0_f32, |a, b| a + b);
            let c = (0..confidence.len()).filter(|c| !s.contains(c) && confidence[*c] > t.gamma);
            let Some(best) = c.min_by(|&a, &b| sum(a).total_cmp(&sum(b)).then(a.cmp(&b))) else { break };
            let delta = sum(best);
            if accum + delta > t.tau {
                break;
            }
            s.push(best);
            accum += delta;
        }
        (s, accum)
    }

    proptest! {
        #[test]
        fn equals_the_printed_algorithm(
            size in 1_usize..40, seed in any::<u64>(), tau in prop_oneof![0.0_f32..2.0, 0.0_f32..200.0], gamma in 0.0_f32..1.0
        ) {
            let rng = crate::rng::Rng::new(seed, 0);
            let draw = |i: u64| (rng.uniform(crate::rng::Purpose::Mask, 0, i) * 16.0).floor() as f32 / 16.0;
            let data = (0..size * size).map(|i| if i % (size + 1) == 0 { 0.0 } else { draw(i as u64) }).collect();
            let d = Dependency::from_rows(data, size);
            let confidence: Vec<f32> = (0..size).map(|i| draw(1_000_000 + i as u64)).collect();
            let fast = greedy_subset(&d, &confidence, thresholds(tau, gamma));
            let (slow, accum) = printed(&d, &confidence, thresholds(tau, gamma));
            prop_assert_eq!(fast.chosen, slow);
            prop_assert_eq!(fast.budget.used, accum);
        }
    }

    #[test]
    fn an_anchored_set_takes_the_leftmost_last_and_only_if_it_fits() {
        // Position 0 is unsure; it depends on position 2 by 0.3 and on nothing else.
        let rows = vec![0.0, 0.0, 0.3, 0.8, 0.0, 0.1, 0.0, 0.0, 0.0];
        let dependency = Dependency::from_rows(rows, 3);
        let select = |confidence: [f32; 3], tau| {
            let thresholds = Thresholds { tau, gamma: 0.9, start: Start::Anchored };
            greedy_subset(&dependency, &confidence, thresholds).chosen
        };
        // What the sure ones depend on the left-most (0.8) is not charged: they are taken first.
        assert_eq!(select([0.4, 0.95, 0.99], 0.5), [2, 1, 0]);
        assert_eq!(select([0.4, 0.95, 0.99], 0.35), [2, 1]);
        // Nobody is sure: the surest alone.
        assert_eq!(select([0.4, 0.5, 0.6], 9.0), [2]);
    }
}
