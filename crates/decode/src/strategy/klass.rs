//! KLASS (Kim et al. 2025): unmask every position that is both confident and stable, where stable
//! means that the last `history` divergences `KL(p_t ‖ p_{t-1})` lie below a threshold.
//!
//! Quirks of the reference code, kept: distributions are the model's own (no temperature, no
//! filter) and so are the committed tokens (argmax); the first two passes are never stable because
//! the history starts at zero probability; when nothing is ready, one position is taken: the most
//! confident by the sampler's candidate.

use crate::error::Result;
use crate::marginals::LogitRows;
use crate::strategy::history::History;
use crate::strategy::registry::{Cost, Entry, Kind, Param};
use crate::strategy::{Selection, Step, Stop, Strategy, TokenRule, top_k};

pub(super) const ENTRY: Entry = Entry {
    name: "klass",
    aliases: &[],
    summary: "unmask all positions that are confident and whose distribution has stopped moving",
    source: "KLASS (Kim et al. 2025); thresholds re-tuned in DEMASK section 5.2",
    cost: Cost::Logits,
    params: &[
        Param {
            key: "conf",
            default: "0.9",
            kind: Kind::Number(0.0, 1.0),
            help: "least top-1 probability (≥)",
        },
        Param {
            key: "kl",
            default: "0.0003",
            kind: Kind::Number(0.0, f64::INFINITY),
            help: "greatest divergence from the previous pass (<)",
        },
        Param { key: "history", default: "2", kind: Kind::Count, help: "how many passes must be stable" },
        Param {
            key: "pick",
            default: "all",
            kind: Kind::Choice(&["all", "max-conf", "min-kl"]),
            help: "of the ready positions take all, the most confident, or the most stable",
        },
    ],
    build: |values| {
        Ok(Box::new(Klass {
            conf: values.number("conf") as f32,
            kl: values.number("kl"),
            pick: match values.text("pick") {
                "max-conf" => Pick::MaxConf,
                "min-kl" => Pick::MinKl,
                _ => Pick::All,
            },
            history: History::new(values.count("history").unwrap_or(2)),
        }))
    },
};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Pick {
    All,
    MaxConf,
    MinKl,
}

struct Klass {
    conf: f32,
    kl: f64,
    pick: Pick,
    history: History,
}

impl Strategy for Klass {
    fn on_logits(&mut self, _step: usize, rows: LogitRows<'_>) {
        self.history.push(rows);
    }

    fn select(&mut self, step: &Step<'_>) -> Result<Selection> {
        self.history.retain(step.masked);
        let ready: Vec<usize> = (0..step.masked.len())
            .filter(|&i| {
                step.marginals[i].raw.top1 >= self.conf && self.history.is_stable(step.masked[i], self.kl)
            })
            .collect();
        let best = |score: &dyn Fn(usize) -> f32| {
            let scores: Vec<f32> = ready.iter().map(|&i| score(i)).collect();
            top_k(&scores, 1).into_iter().map(|i| ready[i]).collect()
        };
        let (chosen, stop) = if ready.is_empty() {
            let scores: Vec<f32> = step.marginals.iter().map(|m| m.candidate.probability).collect();
            (top_k(&scores, 1), Stop::Fallback)
        } else {
            let chosen = match self.pick {
                Pick::All => ready.clone(),
                Pick::MaxConf => best(&|i| step.marginals[i].raw.top1),
                Pick::MinKl => best(&|i| -self.history.latest(step.masked[i]) as f32),
            };
            (chosen, Stop::NoCandidate)
        };
        Ok(Selection { chosen, tokens: TokenRule::Argmax, stop: Some(stop), ..Selection::default() })
    }
}
