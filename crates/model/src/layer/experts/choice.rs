//! Which experts a row runs and what their outputs are multiplied by.
//!
//! All in f32 whatever the weights' format. Ties go to the lowest number.

use std::cmp::Ordering;

use crate::config::{Experts, Scoring};

/// Added to the sum of weights before dividing by it, as the published code does.
const TINY: f32 = 1e-20;

/// The experts of some rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// Experts per row.
    pub chosen: usize,
    /// Numbers of the experts, `[rows, chosen]`, best first.
    pub experts: Vec<u32>,
    /// What each one's output is multiplied by, in the same order.
    pub weights: Vec<f32>,
}

impl Choice {
    /// From the router's logits `[rows, count]`.
    pub fn new(rule: &Experts, bias: Option<&[f32]>, logits: &[f32]) -> Self {
        let (mut experts, mut weights) = (Vec::new(), Vec::new());
        let mut scores = vec![0.0; rule.count];
        let mut choosing = vec![0.0; rule.count];
        for logits in logits.chunks_exact(rule.count) {
            score(rule.scoring, logits, &mut scores);
            choosing.copy_from_slice(&scores);
            if let Some(bias) = bias {
                choosing.iter_mut().zip(bias).for_each(|(score, bias)| *score += bias);
            }
            if rule.groups_chosen < rule.groups {
                keep_best_groups(rule, &mut choosing);
            }
            let best = largest(&choosing, rule.chosen);
            let start = weights.len();
            weights.extend(best.iter().map(|&expert| scores[expert]));
            let own = &mut weights[start..];
            // LLaDA2 leaves the weight of a single expert as it is; Qwen3's line makes it 1.
            if rule.normalise && (own.len() > 1 || matches!(rule.scoring, Scoring::Softmax)) {
                let sum = own.iter().sum::<f32>() + TINY;
                own.iter_mut().for_each(|weight| *weight /= sum);
            }
            own.iter_mut().for_each(|weight| *weight *= rule.scale);
            experts.extend(best.into_iter().map(|expert| expert as u32));
        }
        Self { chosen: rule.chosen, experts, weights }
    }

    /// The chosen experts in ascending order, each with its rows (ascending) and their weights.
    pub fn by_expert(&self) -> Vec<(usize, Vec<(usize, f32)>)> {
        let most = self.experts.iter().max().map_or(0, |&e| e as usize + 1);
        let mut groups = vec![Vec::new(); most];
        for (place, (&expert, &weight)) in self.experts.iter().zip(&self.weights).enumerate() {
            groups[expert as usize].push((place / self.chosen, weight));
        }
        groups.into_iter().enumerate().filter(|(_, members)| !members.is_empty()).collect()
    }
}

fn score(scoring: Scoring, logits: &[f32], scores: &mut [f32]) {
    match scoring {
        Scoring::Sigmoid => {
            scores.iter_mut().zip(logits).for_each(|(score, &logit)| *score = 1.0 / (1.0 + (-logit).exp()));
        }
        Scoring::Softmax => {
            let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            scores.iter_mut().zip(logits).for_each(|(score, &logit)| *score = (logit - most).exp());
            let sum: f32 = scores.iter().sum();
            scores.iter_mut().for_each(|score| *score /= sum);
        }
    }
}

/// Leaves only the experts of the best groups; a group is as good as the sum of its two best.
fn keep_best_groups(rule: &Experts, choosing: &mut [f32]) {
    let size = rule.count / rule.groups;
    let of = |group: &[f32]| largest(group, 2).into_iter().map(|i| group[i]).sum::<f32>();
    let groups: Vec<f32> = choosing.chunks_exact(size).map(of).collect();
    let kept = largest(&groups, rule.groups_chosen);
    for (group, scores) in choosing.chunks_exact_mut(size).enumerate() {
        if !kept.contains(&group) {
            scores.fill(f32::NEG_INFINITY);
        }
    }
}

/// Indices of the `count` largest values, largest first.
fn largest(values: &[f32], count: usize) -> Vec<usize> {
    let order =
        |&a: &usize, &b: &usize| values[b].partial_cmp(&values[a]).unwrap_or(Ordering::Equal).then(a.cmp(&b));
    let mut indices: Vec<usize> = (0..values.len()).collect();
    if count < indices.len() {
        indices.select_nth_unstable_by(count, order);
        indices.truncate(count);
    }
    indices.sort_unstable_by(order);
    indices
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule() -> Experts {
        Experts {
            layers: vec![true],
            count: 8,
            chosen: 2,
            width: 1,
            shared: 0,
            scoring: Scoring::Sigmoid,
            groups: 4,
            groups_chosen: 2,
            bias: true,
            normalise: true,
            scale: 2.5,
        }
    }

    #[test]
    fn the_bias_chooses_and_does_not_weigh() {
        // Groups of two: sums of sigmoids 1, 1, 1, 1 without the bias; it lifts the last two groups.
        let bias = [0.0, 0.0, 0.0, 0.0, 0.1, 0.2, 0.0, 0.9];
        let choice = Choice::new(&rule(), Some(&bias), &[0.0; 8]);
        assert_eq!(choice.experts, [7, 5]);
        assert_eq!(choice.weights, [1.25, 1.25], "sigmoid(0) each, normalised, times 2.5");
    }

    #[test]
    fn a_group_needs_two_good_experts_to_be_kept() {
        // Expert 0 is the best of all, but its neighbour is so bad that the group loses.
        let logits = [3.0, -9.0, 1.0, 1.0, 1.1, 1.1, -9.0, -9.0];
        let choice = Choice::new(&rule(), None, &logits);
        assert_eq!(choice.experts, [4, 5]);
        let all = Choice::new(&Experts { groups: 1, groups_chosen: 1, ..rule() }, None, &logits);
        assert_eq!(all.experts, [0, 4]);
    }

    #[test]
    fn softmax_weights_may_stay_as_they_are_and_ties_go_low() {
        let rule = Experts {
            scoring: Scoring::Softmax,
            groups: 1,
            groups_chosen: 1,
            normalise: false,
            scale: 1.0,
            ..rule()
        };
        let choice = Choice::new(&rule, None, &[0.0; 8]);
        assert_eq!((choice.experts, choice.weights), (vec![0, 1], vec![0.125, 0.125]));
        let one = Choice::new(&Experts { chosen: 1, normalise: true, ..rule.clone() }, None, &[0.0; 8]);
        assert_eq!(one.weights, [1.0]);
        let one = Choice::new(
            &Experts { chosen: 1, normalise: true, scoring: Scoring::Sigmoid, ..rule },
            None,
            &[0.0; 8],
        );
        assert_eq!(one.weights, [0.5]);
    }

    #[test]
    fn rows_are_grouped_by_expert() {
        let choice = Choice { chosen: 2, experts: vec![3, 1, 1, 0], weights: vec![0.3, 0.1, 0.2, 0.4] };
        let expected = vec![(0, vec![(1, 0.4)]), (1, vec![(0, 0.1), (1, 0.2)]), (3, vec![(0, 0.3)])];
        assert_eq!(choice.by_expert(), expected);
    }
}
