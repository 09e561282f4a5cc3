//! DEMASK, the paper's strategy: dependency from a predictor (or the true one from the oracle),
//! then Algorithm 2.

use std::sync::Arc;

use crate::dependency::{Dependency, DependencySource, Draws, Oracle};
use crate::error::{Error, Result};
use crate::strategy::greedy::{Limit, Start, Thresholds, limited_subset};
use crate::strategy::registry::{Cost, Entry, Kind, Param};
use crate::strategy::spec::Values;
use crate::strategy::{Needs, Selection, Step, Strategy};

pub(super) const ENTRY: Entry = Entry {
    name: "demask",
    aliases: &[],
    summary: "unmask the largest set whose predicted cumulative dependency stays within tau",
    source: "DEMASK (Ringel, Ali, Romano 2026), Algorithm 2",
    cost: Cost::Predictor,
    params: &[
        Param {
            key: "tau",
            default: "0.04",
            kind: Kind::Number(0.0, f64::INFINITY),
            help: "greatest cumulative dependency of a step",
        },
        Param {
            key: "gamma",
            default: "0.9",
            kind: Kind::Number(0.0, 1.0),
            help: "a position joins only if its top-1 probability exceeds this",
        },
        Param {
            key: "start",
            default: "leftmost",
            kind: Kind::Choice(&["leftmost", "confident"]),
            help: "the position that opens the set",
        },
        Param {
            key: "confidence",
            default: "raw",
            kind: Kind::Choice(&["raw", "filtered"]),
            help: "top-1 probability of the model, or after temperature and top-p",
        },
        Param {
            key: "dependency",
            default: "predictor",
            kind: Kind::Choice(&["predictor", "oracle"]),
            help: "learned dependency, or the true one at |M| extra forward passes a step",
        },
        Param {
            key: "draws",
            default: "1",
            kind: Kind::Count,
            help: "tokens the oracle reveals per position and averages over",
        },
        Param {
            key: "charge",
            default: "one",
            kind: Kind::Choice(&["one", "both"]),
            help: "a pair costs what the later position depends on the earlier, or the larger of both directions",
        },
        Param {
            key: "budget",
            default: "sum",
            kind: Kind::Choice(&["sum", "position"]),
            help: "tau bounds the dependency of the whole step, or that of each position in it",
        },
    ],
    build,
};

struct Demask {
    thresholds: Thresholds,
    filtered: bool,
    both: bool,
    limit: Limit,
    source: Arc<dyn DependencySource>,
}

fn build(values: &Values<'_>) -> Result<Box<dyn Strategy>> {
    let source: Arc<dyn DependencySource> = match values.text("dependency") {
        "oracle" => Arc::new(Oracle::new(Draws::Sampled(values.count("draws").unwrap_or(1)))),
        _ => values.context.predictor.clone().ok_or_else(|| Error::Missing {
            strategy: "demask".into(),
            what: "a dependency predictor: give --predictor FILE, put predictor.safetensors into the checkpoint's \
                   folder, train one (demask train predictor), or use demask:dependency=oracle"
                .into(),
        })?,
    };
    let start = if values.text("start") == "confident" { Start::Confident } else { Start::Leftmost };
    Ok(Box::new(Demask {
        thresholds: Thresholds {
            tau: values.number("tau") as f32,
            gamma: values.number("gamma") as f32,
            start,
        },
        filtered: values.text("confidence") == "filtered",
        both: values.text("charge") == "both",
        limit: if values.text("budget") == "position" { Limit::Position } else { Limit::Sum },
        source,
    }))
}

impl Strategy for Demask {
    fn needs(&self) -> Needs {
        Needs { hidden: self.source.hidden_row(), ..Needs::default() }
    }

    fn select(&mut self, step: &Step<'_>) -> Result<Selection> {
        let confidence: Vec<f32> = step
            .marginals
            .iter()
            .map(|m| if self.filtered { m.candidate.top1 } else { m.raw.top1 })
            .collect();
        let dependency = self.source.dependency(step)?;
        let charged = self.both.then(|| larger_direction(&dependency));
        let subset =
            limited_subset(charged.as_ref().unwrap_or(&dependency), &confidence, self.thresholds, self.limit);
        Ok(Selection {
            chosen: subset.chosen,
            stop: Some(subset.stop),
            budget: Some(subset.budget),
            dependency: Some(dependency),
            ..Selection::default()
        })
    }
}

/// `max(D_ij, D_ji)`.
fn larger_direction(dependency: &Dependency) -> Dependency {
    let size = dependency.len();
    let pair = |at: usize| dependency.on(at / size, at % size).max(dependency.on(at % size, at / size));
    Dependency::from_rows((0..size * size).map(pair).collect(), size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_directions_are_charged_at_the_larger() {
        let d = Dependency::from_rows(vec![0.0, 0.5, 0.1, 0.0], 2);
        assert_eq!(larger_direction(&d).data(), [0.0, 0.5, 0.5, 0.0]);
    }
}
