//! Mutual information as a budget (Sharma, Wang, Li 2026): with masks by ascending entropy, one joins if
//! `h_i + λ·Σ_{j∈S} Î_ij` fits what is left of γ, and takes that much of it. So each token is charged its own uncertainty
//! and what it shares with those taken beside it; a later one may still fit where an earlier one did not.
//!
//! `Î` comes from the bilinear predictor of the paper fitted to `KL(after ‖ before)` instead of total variation, whose
//! expectation over the revealed token is the mutual information, or is measured by reveals (`information=oracle`). It is
//! the mean of both directions. With λ = 0 it is an entropy budget that, unlike EB, charges the largest entropy too.
//!
//! Strictness: `≤`. The surest position is always taken (ours). Ties go left.

use std::sync::Arc;

use crate::dependency::{DependencySource, Draws, Measure, Oracle};
use crate::error::{Error, Result};
use crate::registry::{Cost, Entry, Kind, Param, Values};
use crate::rule::top_k;
use crate::strategy::{Budget, Needs, Selection, Step, Stop, Strategy};

pub(super) const ENTRY: Entry = Entry {
    name: "mi",
    aliases: &["mutual-information"],
    summary: "unmask the surest positions as long as their entropies and shared information fit a budget",
    source: "MI head (Sharma, Wang, Li 2026), with the paper's predictor",
    cost: Cost::Predictor,
    params: &[
        Param {
            key: "gamma",
            default: "0.3",
            kind: Kind::Number(0.0, f64::INFINITY),
            help: "budget of entropy and shared information, in nats (≤)",
        },
        Param {
            key: "lambda",
            default: "1",
            kind: Kind::Number(0.0, f64::INFINITY),
            help: "weight of shared information; 0 counts entropy alone",
        },
        Param {
            key: "information",
            default: "predictor",
            kind: Kind::Open(&["predictor", "oracle"]),
            help: "learned information, the true one at |M| extra forward passes a step, or a source that the program added",
        },
        Param {
            key: "draws",
            default: "1",
            kind: Kind::Count,
            help: "tokens the oracle reveals per position and averages over",
        },
    ],
    build: |values| {
        let lambda = values.number("lambda") as f32;
        let source = if lambda == 0.0 { None } else { Some(source(values)?) };
        Ok(Box::new(MutualInformation { gamma: values.number("gamma") as f32, lambda, source }))
    },
};

fn source(values: &Values<'_>) -> Result<Arc<dyn DependencySource>> {
    let (name, context) = (values.text("information"), values.context);
    Ok(match name {
        "oracle" => {
            let draws = Draws::Sampled(values.count("draws").unwrap_or(1));
            Arc::new(Oracle::new(draws).measuring(Measure::Divergence))
        }
        "predictor" => context.information.clone().ok_or_else(|| Error::Missing {
            strategy: "mi".into(),
            what: "a predictor of information: train one on the divergences of a cache, or use information=oracle"
                .into(),
        })?,
        added => context.registry.dependency(added).cloned().ok_or_else(|| Error::BadValue {
            what: "mi:information".into(),
            value: added.into(),
            why: "must be one of predictor, oracle and the sources that the program added".into(),
        })?,
    })
}

struct MutualInformation {
    gamma: f32,
    lambda: f32,
    source: Option<Arc<dyn DependencySource>>,
}

impl Strategy for MutualInformation {
    fn needs(&self) -> Needs {
        Needs { hidden: self.source.as_ref().and_then(|s| s.hidden_row()), ..Needs::default() }
    }

    fn select(&mut self, step: &Step<'_>) -> Result<Selection> {
        let information = self.source.as_ref().map(|source| source.dependency(step)).transpose()?;
        let shared = |i: usize, j: usize| {
            information.as_ref().map_or(0.0, |d| self.lambda * (d.on(i, j) + d.on(j, i)) / 2.0)
        };
        let entropies: Vec<f32> = step.marginals.iter().map(|m| m.raw.entropy).collect();
        let (chosen, used) = within(&entropies, shared, self.gamma);
        let stop = if chosen.len() == entropies.len() { Stop::AllTaken } else { Stop::Budget };
        let budget = Some(Budget { limit: self.gamma, used });
        Ok(Selection { chosen, stop: Some(stop), budget, dependency: information, ..Selection::default() })
    }
}

/// What fits the budget, in the order of joining, and how much of it was used.
fn within(entropies: &[f32], shared: impl Fn(usize, usize) -> f32, budget: f32) -> (Vec<usize>, f32) {
    let surest: Vec<f32> = entropies.iter().map(|h| -h).collect();
    let (mut chosen, mut used): (Vec<usize>, f32) = (Vec::new(), 0.0);
    for i in top_k(&surest, surest.len()) {
        let cost = entropies[i] + chosen.iter().map(|&j| shared(i, j)).sum::<f32>();
        if chosen.is_empty() || used + cost <= budget {
            used += cost;
            chosen.push(i);
        }
    }
    (chosen, used)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scene, build, fixture, indices, numbers, rows};

    #[test]
    fn choices_are_those_of_the_formula() {
        let cases = fixture("rivals-toy/formulas.json");
        for case in cases["mi_budget"].as_array().unwrap() {
            let (entropy, information) = (numbers(&case["entropy"]), rows(&case["mutual_information"]));
            let lambda = case["lambda_"].as_f64().unwrap() as f32;
            let gamma = case["gamma"].as_f64().unwrap() as f32;
            let (chosen, _) = within(&entropy, |i, j| lambda * information.row(i)[j], gamma);
            assert_eq!(chosen, indices(&case["selected"]));
        }
    }

    #[test]
    fn the_surest_is_free_to_exceed_the_budget_and_a_later_one_may_fit() {
        // 0.5 is over 0.25, and then nothing is left.
        assert_eq!(within(&[0.5, 0.75], |_, _| 0.0, 0.25).0, [0]);
        // 1 shares 1.0 with 0; 2 costs more by itself but shares nothing: 0.125 + 0.25 is exactly the budget.
        let shared = |i: usize, j: usize| if i + j == 1 { 1.0 } else { 0.0 };
        assert_eq!(within(&[0.125, 0.2, 0.25], shared, 0.375), (vec![0, 2], 0.375));
    }

    #[test]
    fn without_information_entropy_alone_counts() {
        let scene = Scene::new(&[0.5; 3]).entropies(&[0.2, 0.1, 0.3]);
        let got = scene.select(&mut *build("mi:lambda=0,gamma=0.31"));
        assert_eq!((got.chosen.as_slice(), got.stop), (&[1, 0][..], Some(Stop::Budget)));
        let missing = "mi".parse::<crate::StrategySpec>().unwrap().build(&crate::Context::default());
        assert!(missing.err().unwrap().to_string().contains("predictor of information"));
    }
}
