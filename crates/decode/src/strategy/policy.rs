//! A learned unmasking policy: a small network reads of every cell of the response whether it is masked and how sure the
//! model is there, and of the passes so far; each mask of the block fires with probability `min(1, β·σ(b_i/τ))`. Tokens are
//! the model's arg-max.
//!
//! Strictness: a mask fires if its draw lies below its chance. When none fires, the largest `b` (the published
//! `bernoulli-argmax`; ties go left). The published `bernoulli` may leave masks behind; not kept. Under a cache, cells whose
//! rows were not computed keep the confidence they had.

use std::sync::Arc;

use crate::canvas::Cell;
use crate::error::{Error, Result};
use crate::marginals::LogitRows;
use crate::registry::{Cost, Entry, Kind, Param};
use crate::rng::Purpose;
use crate::rule::Seen;
use crate::strategy::{Extent, Needs, Selection, Step, Stop, Strategy, TokenRule};
use crate::trained::Policy;
use crate::trained::policy::fire;

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
    ],
    build: |values| {
        let missing = || Error::Missing {
            strategy: "policy".into(),
            what: "a trained policy: put policy.safetensors into the checkpoint's folder, or train one"
                .into(),
        };
        Ok(Box::new(Learned {
            policy: values.context.policy.clone().ok_or_else(missing)?,
            temperature: values.number("tau") as f32,
            beta: values.number("beta") as f32,
            seen: Seen::default(),
        }))
    },
};

struct Learned {
    policy: Arc<Policy>,
    temperature: f32,
    beta: f32,
    seen: Seen,
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
        let logits = self.policy.logits(&masked, &confidence, time);
        let own: Vec<usize> = step.masked.iter().map(|p| p - response.start).collect();
        let draw = |cell: usize| {
            step.rng.uniform(Purpose::Position, step.index as u64, (response.start + cell) as u64)
        };
        let fired = fire(&logits, &own, self.temperature, self.beta, draw);
        let index = |cell: &usize| own.binary_search(cell).ok();
        let chosen: Vec<usize> = fired.iter().filter_map(index).collect();
        let stop = if chosen.len() == own.len() { Stop::AllTaken } else { Stop::NoCandidate };
        Ok(Selection { chosen, tokens: TokenRule::Argmax, stop: Some(stop), ..Selection::default() })
    }
}
