//! DEMASK, the paper's strategy: dependency from a predictor (or the true one from the oracle),
//! then Algorithm 2.
//!
//! Everything with a default other than the paper's is off unless asked for: another start, both directions, a budget
//! per position, thresholds that change with the progress of the block, and remasking guided by dependency.

use std::sync::Arc;

use crate::dependency::{Dependency, DependencySource, Draws, Opinion, Oracle, Predictor, Stability};
use crate::error::{Error, Result};
use crate::registry::{Cost, Entry, Kind, Param, Values};
use crate::rule::{Last, Limit, Revision, Start, Thresholds, limited_subset, stable_start, subset_from};
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
            kind: Kind::Choice(&["leftmost", "confident", "independent", "anchored", "stable"]),
            help: "what opens the set: the left-most mask, the surest, of the sure ones the least dependent, (anchored) \
                   the surest, and the left-most joins last if it depends little on the set, or (stable) the left-most \
                   unsure one that the stability head expects to stay what it is, else the surest",
        },
        Param {
            key: "kappa",
            default: "0.02",
            kind: Kind::Number(0.0, 1.0),
            help: "for start=stable: greatest probability that the token would change once all sure ones are known",
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
            kind: Kind::Open(&["predictor", "oracle"]),
            help: "learned dependency (predictor), the true one at |M| extra forward passes a step (oracle), or a source \
                   that the program added",
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
        Param {
            key: "tau_end",
            default: "",
            kind: Kind::Number(0.0, f64::INFINITY),
            help: "tau moves evenly to this as the block fills (tau itself if not given)",
        },
        Param {
            key: "gamma_end",
            default: "",
            kind: Kind::Number(0.0, 1.0),
            help: "gamma moves evenly to this as the block fills (gamma itself if not given)",
        },
        Param {
            key: "revise",
            default: "",
            kind: Kind::Number(0.0, f64::INFINITY),
            help: "mask a token again, once, if what it depended on was revealed to more than this (off if not given)",
        },
    ],
    build,
};

struct Demask {
    /// At the start of a block.
    thresholds: Thresholds,
    /// τ and γ when its last mask is decided.
    end: (f32, f32),
    revision: Option<Revision>,
    filtered: bool,
    both: bool,
    limit: Limit,
    source: Arc<dyn DependencySource>,
    stable: Option<Stable>,
}

/// The learned start.
struct Stable {
    kappa: f32,
    head: Arc<Stability>,
    /// What the head's features of dependency are made of, if it has any.
    predictor: Option<Arc<Predictor>>,
    /// Whether that is also the source of the selection.
    shared: bool,
    last: Last,
}

fn build(values: &Values<'_>) -> Result<Box<dyn Strategy>> {
    let source = source(values)?;
    let start = match values.text("start") {
        "confident" => Start::Confident,
        "independent" => Start::Independent,
        "anchored" => Start::Anchored,
        _ => Start::Leftmost,
    };
    let stable = if values.text("start") == "stable" { Some(Stable::of(values)?) } else { None };
    let rows = (source.hidden_row(), stable.as_ref().map(|stable| stable.head.hidden_row()));
    if let (Some(own), Some(head)) = rows
        && own != head
    {
        let why = format!(
            "reads hidden row {own} for dependency and {head} for stability; it can read one of them"
        );
        return Err(Error::Refused { strategy: "demask".into(), why });
    }
    let (tau, gamma) = (values.number("tau") as f32, values.number("gamma") as f32);
    let given = |key: &str| values.text(key).parse::<f32>().ok();
    Ok(Box::new(Demask {
        thresholds: Thresholds { tau, gamma, start },
        end: (given("tau_end").unwrap_or(tau), given("gamma_end").unwrap_or(gamma)),
        revision: given("revise").map(Revision::new),
        filtered: values.text("confidence") == "filtered",
        both: values.text("charge") == "both",
        limit: if values.text("budget") == "position" { Limit::Position } else { Limit::Sum },
        source,
        stable,
    }))
}

impl Stable {
    fn of(values: &Values<'_>) -> Result<Self> {
        let what = "a stability head for start=stable, which the predictor's file may hold; train one, or start otherwise";
        let missing = || Error::Missing { strategy: "demask".into(), what: what.into() };
        let head = values.context.stability.clone().ok_or_else(missing)?;
        let predictor = values.context.predictor.clone().filter(|_| head.reads_dependency());
        if head.reads_dependency() && predictor.is_none() {
            return Err(Error::NoPredictor { strategy: "demask:start=stable".into() });
        }
        let shared = predictor.is_some() && values.text("dependency") == "predictor";
        Ok(Self { kappa: values.number("kappa") as f32, head, predictor, shared, last: Last::default() })
    }

    /// Which mask opens the set.
    fn start(
        &mut self,
        step: &Step<'_>,
        dependency: &Dependency,
        confidence: &[f32],
        gamma: f32,
    ) -> Result<usize> {
        let before = self.last.advance(step.masked, step.marginals);
        let opinions: Vec<Opinion> =
            step.marginals.iter().zip(before).map(|(m, before)| Opinion::new(m, before)).collect();
        let hidden =
            step.hidden.ok_or_else(|| Error::Predictor("the forward pass returned no hidden rows".into()))?;
        let own = match &self.predictor {
            Some(predictor) if !self.shared => Some(predictor.predict(hidden, &opinions)?),
            _ => None,
        };
        let read = self.predictor.as_ref().map(|_| own.as_ref().unwrap_or(dependency));
        let change = self.head.change(hidden, &opinions, read, gamma)?;
        Ok(stable_start(confidence, &change, gamma, self.kappa))
    }
}

fn source(values: &Values<'_>) -> Result<Arc<dyn DependencySource>> {
    let (name, context) = (values.text("dependency"), values.context);
    Ok(match name {
        "oracle" => Arc::new(Oracle::new(Draws::Sampled(values.count("draws").unwrap_or(1)))),
        "predictor" => {
            context.predictor.clone().ok_or_else(|| Error::NoPredictor { strategy: "demask".into() })?
        }
        added => context.registry.dependency(added).cloned().ok_or_else(|| Error::BadValue {
            what: "demask:dependency".into(),
            value: added.into(),
            why: "must be one of predictor, oracle and the sources that the program added".into(),
        })?,
    })
}

impl Strategy for Demask {
    fn reads_logits(&self) -> bool {
        false
    }

    fn takes_resident(&self) -> bool {
        // The stability head reads hidden rows beside marginals, on the host.
        self.stable.is_none() && self.source.takes_resident()
    }

    fn needs(&self) -> Needs {
        let stable = self.stable.as_ref().map(|stable| stable.head.hidden_row());
        Needs { hidden: stable.or(self.source.hidden_row()), ..Needs::default() }
    }

    fn revises(&self) -> bool {
        self.revision.is_some()
    }

    fn select(&mut self, step: &Step<'_>) -> Result<Selection> {
        let confidence: Vec<f32> = step
            .marginals
            .iter()
            .map(|m| if self.filtered { m.candidate.top1 } else { m.raw.top1 })
            .collect();
        let dependency = self.source.dependency(step)?;
        let charged = self.both.then(|| larger_direction(&dependency));
        let (charged, now) = (charged.as_ref().unwrap_or(&dependency), self.now(step));
        let subset = match &mut self.stable {
            None => limited_subset(charged, &confidence, now, self.limit),
            Some(stable) => {
                let first = stable.start(step, &dependency, &confidence, now.gamma)?;
                subset_from(first, charged, &confidence, now, self.limit)
            }
        };
        let remask =
            self.revision.as_mut().map(|r| r.commit(step, &dependency, &subset.chosen)).unwrap_or_default();
        Ok(Selection {
            chosen: subset.chosen,
            remask,
            stop: Some(subset.stop),
            budget: Some(subset.budget),
            dependency: Some(dependency),
            ..Selection::default()
        })
    }
}

impl Demask {
    /// The thresholds of this step: on the line between start and end, by the part of the block that is decided.
    fn now(&self, step: &Step<'_>) -> Thresholds {
        let left = step.masked.len() as f32 / step.block.entered_with.max(1) as f32;
        let progress = (1.0 - left).clamp(0.0, 1.0);
        let between =
            |start: f32, end: f32| if start == end { start } else { start + (end - start) * progress };
        let Thresholds { tau, gamma, start } = self.thresholds;
        Thresholds { tau: between(tau, self.end.0), gamma: between(gamma, self.end.1), start }
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
    use crate::registry::{Context, Registry};
    use crate::strategy::Stop;
    use crate::testing::Scene;

    /// A dependency written down.
    struct Fixed(Dependency);

    impl DependencySource for Fixed {
        fn hidden_row(&self) -> Option<demask_model::HiddenRow> {
            None
        }

        fn dependency(&self, step: &Step<'_>) -> Result<Dependency> {
            assert_eq!(step.masked.len(), self.0.len());
            Ok(self.0.clone())
        }
    }

    fn demask(source: Dependency, tau: f32, gamma: f32) -> Demask {
        Demask {
            thresholds: Thresholds { tau, gamma, start: Start::Leftmost },
            end: (tau, gamma),
            revision: None,
            filtered: false,
            both: false,
            limit: Limit::Sum,
            source: Arc::new(Fixed(source)),
            stable: None,
        }
    }

    #[test]
    fn the_leftmost_opens_the_set_and_tau_closes_it() {
        let d = Dependency::from_rows(vec![0.0, 0.9, 0.9, 0.25, 0.0, 0.9, 0.5, 0.0, 0.0], 3);
        let got = Scene::new(&[0.1, 0.95, 0.95]).select(&mut demask(d, 0.25, 0.9));
        // Position 1 costs exactly tau; position 2 costs 0.5 more.
        assert_eq!((got.chosen.as_slice(), got.stop), (&[0, 1][..], Some(Stop::Budget)));
        assert_eq!(got.budget.map(|b| (b.limit, b.used)), Some((0.25, 0.25)));
    }

    /// Temperature and top-p make the surest token surer; γ is about the model's own probability all the same.
    #[test]
    fn confidence_is_the_models_own_unless_asked_otherwise() {
        let d = || Dependency::from_rows(vec![0.0; 9], 3);
        let mut scene = Scene::new(&[0.1, 0.6, 0.95]);
        scene.marginals[1].candidate.top1 = 0.99;
        scene.marginals[2].candidate.top1 = 0.5;
        assert_eq!(scene.select(&mut demask(d(), 1.0, 0.9)).chosen, [0, 2]);
        let mut filtered = Demask { filtered: true, ..demask(d(), 1.0, 0.9) };
        assert_eq!(scene.select(&mut filtered).chosen, [0, 1]);
        // And what is built without a word of it is the former.
        let registry = Registry::standard().with_dependency("fixed", Arc::new(Fixed(d()))).unwrap();
        let context = Context { registry, ..Context::default() };
        let built = |text: &str| {
            let mut strategy = context.registry.parse(text).unwrap().build(&context).unwrap();
            scene.select(&mut *strategy).chosen
        };
        assert_eq!(built("demask:tau=1,gamma=0.9,dependency=fixed"), [0, 2]);
        assert_eq!(built("demask:tau=1,gamma=0.9,dependency=fixed,confidence=filtered"), [0, 1]);
    }

    #[test]
    fn thresholds_move_with_the_progress_of_the_block() {
        let d = || Dependency::from_rows(vec![0.0, 0.0, 0.5, 0.0], 2);
        let adaptive = |entered_with: usize| {
            let mut strategy = Demask { end: (1.0, 0.5), ..demask(d(), 0.0, 0.75) };
            let mut scene = Scene::new(&[0.1, 0.7]);
            scene.block.entered_with = entered_with;
            scene.select(&mut strategy)
        };
        // Nothing is decided: gamma is 0.75. Half is: gamma 0.625, tau 0.5, exactly what the second costs.
        assert_eq!((adaptive(2).chosen.len(), adaptive(2).stop), (1, Some(Stop::NoCandidate)));
        assert_eq!(adaptive(4).chosen, [0, 1]);
        // A third is: gamma ≈ 0.667 lets it pass, tau ≈ 0.333 does not.
        assert_eq!((adaptive(3).chosen.len(), adaptive(3).stop), (1, Some(Stop::Budget)));
    }

    #[test]
    fn both_directions_are_charged_at_the_larger() {
        let d = Dependency::from_rows(vec![0.0, 0.5, 0.1, 0.0], 2);
        assert_eq!(larger_direction(&d).data(), [0.0, 0.5, 0.5, 0.0]);
    }
}
