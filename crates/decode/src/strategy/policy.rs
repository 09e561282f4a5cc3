//! A learned unmasking policy: a small network reads of every cell of the response whether it is masked and how sure the
//! model is there, and of the passes so far; each mask of the block fires with probability `min(1, β·σ(b_i/τ))`. Tokens are
//! the model's arg-max.
//!
//! Strictness: a mask fires if its draw lies below its chance. When none fires, the largest `b` is taken (the published
//! `bernoulli-argmax`; ties go left). The published `bernoulli` may leave masks behind; not kept. `mode=plackett-luce` is the
//! published `dpls`, `mode=threshold` Learn2PD's rule. Under a cache, cells whose
//! rows were not computed keep the confidence they had.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crate::canvas::Cell;
use crate::error::{Error, Result};
use crate::marginals::LogitRows;
use crate::registry::{Cost, Entry, Kind, Param};
use crate::rng::Purpose;
use crate::rule::Seen;
use crate::strategy::{Extent, Needs, Selection, Step, Stop, Strategy, TokenRule};
use crate::trained::Policy;
use crate::trained::policy::{fire, plackett_luce, surest};

pub(super) const ENTRY: Entry = Entry {
    name: "policy",
    aliases: &["learned-policy"],
    summary: "unmask what a small trained network says, reading confidences and the number of passes",
    source: "learned unmasking policies (Jazbec et al. 2026)",
    cost: Cost::Part,
    params: &[
        Param {
            key: "tau",
            default: "1",
            kind: Kind::Number(0.01, 100.0),
            help: "divides the network's logits (0.5 for blocks of 32, 1 for a whole response)",
        },
        Param {
            key: "beta",
            default: "1",
            kind: Kind::Number(0.0, f64::INFINITY),
            help: "factor on the chance of each mask: more is faster",
        },
        Param {
            key: "mode",
            default: "bernoulli",
            kind: Kind::Choice(&["bernoulli", "plackett-luce", "threshold"]),
            help: "each mask by its own chance, one after the other until a stop is drawn, or all above a threshold \
                   (Learn2PD's rule, for a policy trained on what is finally written)",
        },
        Param {
            key: "threshold",
            default: "0.9",
            kind: Kind::Number(0.0, 1.0),
            help: "what σ(b/τ) must exceed (>) with mode=threshold",
        },
    ],
    build: |values| {
        let missing = || Error::Missing {
            strategy: "policy".into(),
            what: "a trained policy: put policy.safetensors into the checkpoint's folder, or train one"
                .into(),
        };
        let mode = match values.text("mode") {
            "plackett-luce" => Mode::PlackettLuce,
            "threshold" => Mode::Above(values.number("threshold") as f32),
            _ => Mode::Bernoulli,
        };
        Ok(Box::new(Learned {
            policy: values.context.policy.clone().ok_or_else(missing)?,
            temperature: values.number("tau") as f32,
            beta: values.number("beta") as f32,
            mode,
            seen: Seen::default(),
            heard: None,
        }))
    },
};

/// The strategy of a policy, which may be listened to.
pub struct Learned {
    policy: Arc<Policy>,
    temperature: f32,
    beta: f32,
    mode: Mode,
    seen: Seen,
    heard: Option<Arc<Mutex<Vec<Decision>>>>,
}

/// How logits become decisions.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Mode {
    Bernoulli,
    PlackettLuce,
    /// Everything surer than this.
    Above(f32),
}

/// What a policy saw and did in one step.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// Whether each cell of the response is masked.
    pub masked: Vec<bool>,
    /// The model's top-1 probability there.
    pub confidence: Vec<f32>,
    /// Passes so far over the response's length.
    pub time: f32,
    /// Cells that could be taken.
    pub open: Vec<usize>,
    /// Those that fired; where none did, the surest was taken all the same.
    pub fired: Vec<usize>,
}

impl Learned {
    /// Each mask fires by chance, at temperature 1; what it sees and does goes to `heard`.
    pub fn listened(policy: Arc<Policy>, heard: Arc<Mutex<Vec<Decision>>>) -> Self {
        let (temperature, beta, mode) = (1.0, 1.0, Mode::Bernoulli);
        Self { policy, temperature, beta, mode, seen: Seen::default(), heard: Some(heard) }
    }

    fn decide(&self, step: &Step<'_>, logits: &[f32], own: &[usize]) -> Vec<usize> {
        let response = step.canvas.response();
        let slot = |cell: usize| (response.start + cell) as u64;
        let draw = |cell: usize| step.rng.uniform(Purpose::Position, step.index as u64, slot(cell));
        match self.mode {
            Mode::Bernoulli => fire(logits, own, self.temperature, self.beta, draw),
            Mode::Above(bar) => {
                let sure = |&&i: &&usize| 1.0 / (1.0 + (-logits[i] / self.temperature).exp()) > bar;
                own.iter().filter(sure).copied().collect()
            }
            Mode::PlackettLuce => {
                let gumbel = |cell: Option<usize>| {
                    step.rng.gumbel(Purpose::Noise, step.index as u64, cell.map_or(u64::MAX, slot))
                };
                let scaled: Vec<f32> = logits.iter().map(|b| b / self.temperature).collect();
                // A factor β on every chance lowers the bar by its logarithm.
                let first = step.rng.uniform(Purpose::Reveal, step.index as u64, 0);
                plackett_luce(&scaled, own, -f64::from(self.beta).ln(), first, gumbel)
            }
        }
    }
}

impl Strategy for Learned {
    fn needs(&self) -> Needs {
        Needs { decided: Extent::Response, ahead: true, ..Needs::default() }
    }

    fn on_logits(&mut self, _step: usize, rows: LogitRows<'_>) {
        self.seen.push(&rows);
    }

    fn select(&mut self, step: &Step<'_>) -> Result<Selection> {
        let response = step.canvas.response();
        let masked: Vec<bool> = response.clone().map(|p| step.canvas.cells()[p] == Cell::Masked).collect();
        let mut confidence = vec![0.0; response.len()];
        for (position, top1) in self.seen.latest() {
            if response.contains(&position) {
                confidence[position - response.start] = top1;
            }
        }
        let time = step.index as f32 / response.len() as f32;
        let begun = Instant::now();
        let logits = self.policy.logits(&masked, &confidence, time);
        let inner_seconds = begun.elapsed().as_secs_f64();
        let own: Vec<usize> = step.masked.iter().map(|p| p - response.start).collect();
        let fired = self.decide(step, &logits, &own);
        let taken =
            if fired.is_empty() { surest(&logits, &own).into_iter().collect() } else { fired.clone() };
        if let Some(heard) = &self.heard {
            let decision = Decision { masked, confidence, time, open: own.clone(), fired };
            heard.lock().unwrap_or_else(PoisonError::into_inner).push(decision);
        }
        let chosen: Vec<usize> = taken.iter().filter_map(|cell| own.binary_search(cell).ok()).collect();
        let stop = if chosen.len() == own.len() { Stop::AllTaken } else { Stop::NoCandidate };
        let (tokens, stop) = (TokenRule::Argmax, Some(stop));
        Ok(Selection { chosen, tokens, stop, inner_calls: 1, inner_seconds, ..Selection::default() })
    }
}
