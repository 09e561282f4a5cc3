//! Dependence as a discount on the order (ADAS, Sahin et al. 2026): greedily take the position with the largest
//! `score_i − α·Σ_{s∈S} A_is·(1 − c_s)`, where `S` is what was taken before it, `c` confidence, and `A_is` how much `i`
//! attends to `s` in the last layer. So a position that leans on an unsure one taken beside it is taken later. The rule
//! it serves says when to stop.
//!
//! `D̂_is` may stand in for attention (`discount_by=predictor`, ours): DEMASK as a soft penalty instead of a hard budget.
//! With α = 0 the order is that of the scores. `O(|S|·|M|)`. Ties go left.

use std::sync::Arc;

use crate::dependency::DependencySource;
use crate::error::{Error, Result};
use crate::registry::{Kind, Param, Values};
use crate::rule::{attention, top_k};
use crate::strategy::{Needs, Step};

/// Strength α of the discount.
pub const DISCOUNT: Param = Param {
    key: "discount",
    default: "0",
    kind: Kind::Number(0.0, f64::INFINITY),
    help: "ADAS: rank a position lower the more it leans on unsure ones taken beside it (the paper: 40; 0 is off)",
};

/// What tells how much one position leans on another.
pub const DISCOUNT_BY: Param = Param {
    key: "discount_by",
    default: "attention",
    kind: Kind::Choice(&["attention", "predictor"]),
    help: "the discount's measure: attention of the last layer, or the dependency predictor",
};

/// An order of positions that counts dependence.
#[derive(Clone, Default)]
pub struct Discount {
    alpha: f32,
    predictor: Option<Arc<dyn DependencySource>>,
}

impl Discount {
    /// As [`DISCOUNT`] and [`DISCOUNT_BY`] say; off where a strategy has neither.
    pub fn of(values: &Values<'_>) -> Result<Self> {
        let alpha = values.text("discount").parse().unwrap_or(0.0);
        if alpha == 0.0 || values.text("discount_by") != "predictor" {
            return Ok(Self { alpha, predictor: None });
        }
        let predictor = values.context.predictor.clone();
        let predictor = predictor.ok_or_else(|| Error::NoPredictor { strategy: values.name().into() })?;
        Ok(Self { alpha, predictor: Some(predictor) })
    }

    /// What it wants of the forward pass, besides what the strategy wants.
    pub fn needs(&self, own: Needs) -> Needs {
        match &self.predictor {
            _ if self.alpha == 0.0 => own,
            None => Needs { attention_layers: own.attention_layers.max(1), ..own },
            Some(predictor) => Needs { hidden: predictor.hidden_row(), ..own },
        }
    }

    /// All positions in the order they are taken; each comes with its score less the discount.
    pub fn order(&self, step: &Step<'_>, scores: &[f32]) -> Result<Vec<(usize, f32)>> {
        if self.alpha == 0.0 {
            return Ok(top_k(scores, scores.len()).into_iter().map(|i| (i, scores[i])).collect());
        }
        let confidence: Vec<f32> = step.marginals.iter().map(|m| m.raw.top1).collect();
        let weight = |leans: &dyn Fn(usize, usize) -> f32| discounted(scores, &confidence, self.alpha, leans);
        Ok(match &self.predictor {
            None => {
                let map = attention(step, "with a discount")?;
                weight(&|i, s| map.row(step.masked[i])[step.masked[s]])
            }
            Some(predictor) => {
                let dependency = predictor.dependency(step)?;
                weight(&|i, s| dependency.on(i, s))
            }
        })
    }
}

/// The greedy order by `score_i − α·Σ A_is·(1 − c_s)` over those taken before.
fn discounted(
    scores: &[f32],
    confidence: &[f32],
    alpha: f32,
    leans: &dyn Fn(usize, usize) -> f32,
) -> Vec<(usize, f32)> {
    let mut left: Vec<usize> = (0..scores.len()).collect();
    let mut now = scores.to_vec();
    let mut order = Vec::with_capacity(scores.len());
    while !left.is_empty() {
        // The first of the largest, and what is left stays ascending: ties go left.
        let mut best = 0;
        for slot in 1..left.len() {
            if now[left[slot]] > now[left[best]] {
                best = slot;
            }
        }
        let taken = left.remove(best);
        order.push((taken, now[taken]));
        for &i in &left {
            now[i] -= alpha * leans(i, taken) * (1.0 - confidence[taken]);
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fixture;

    #[test]
    fn orders_are_those_of_the_formula() {
        let cases = fixture("rivals-toy/formulas.json");
        for case in cases["adas"].as_array().unwrap() {
            let numbers = |v: &serde_json::Value| -> Vec<f32> {
                v.as_array().unwrap().iter().map(|x| x.as_f64().unwrap() as f32).collect()
            };
            let confidence = numbers(&case["confidence"]);
            let attention: Vec<Vec<f32>> =
                case["attention"].as_array().unwrap().iter().map(numbers).collect();
            let alpha = case["alpha"].as_f64().unwrap() as f32;
            let order = discounted(&confidence, &confidence, alpha, &|i, s| attention[i][s]);
            let order: Vec<u64> = order.into_iter().map(|(i, _)| i as u64).collect();
            let want: Vec<u64> =
                case["order"].as_array().unwrap().iter().map(|x| x.as_u64().unwrap()).collect();
            assert_eq!(order, want);
        }
    }

    #[test]
    fn what_leans_on_an_unsure_one_comes_later() {
        // 1 leans on 0 by 0.1, and 0 is unsure by 0.4: 0.55 − 10·0.1·0.4 = 0.15.
        let leans = |i: usize, s: usize| if (i, s) == (1, 0) { 0.1 } else { 0.0 };
        let order = discounted(&[0.6, 0.55, 0.3], &[0.6, 0.55, 0.3], 10.0, &leans);
        assert_eq!(order.iter().map(|o| o.0).collect::<Vec<_>>(), [0, 2, 1]);
        assert!((order[2].1 - 0.15).abs() < 1e-6);
    }
}
