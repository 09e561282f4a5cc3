//! Dream's `origin`: every masked position is unmasked independently with the probability that the
//! noise schedule gives the step.

use crate::error::Result;
use crate::registry::{Cost, Entry, Kind, Param};
use crate::rng::Purpose;
use crate::rule::timestep_ratio;
use crate::strategy::{Selection, Step, Stop, Strategy};

pub(super) const ENTRY: Entry = Entry {
    name: "origin",
    aliases: &[],
    summary: "unmask each position independently at the rate of the noise schedule",
    source: "Dream (Ye et al. 2025); MDLM (Sahoo et al. 2024)",
    cost: Cost::Logits,
    params: &[
        Param {
            key: "steps",
            default: "",
            kind: Kind::Count,
            help: "forward passes (as many as masked tokens if not given)",
        },
        Param { key: "eps", default: "0.001", kind: Kind::Number(0.0, 0.5), help: "end of the time axis" },
    ],
    build: |values| Ok(Box::new(Origin { steps: values.count("steps"), eps: values.number("eps") })),
};

struct Origin {
    steps: Option<usize>,
    eps: f64,
}

impl Strategy for Origin {
    fn reads_logits(&self) -> bool {
        false
    }

    fn select(&mut self, step: &Step<'_>) -> Result<Selection> {
        let per_block = self.steps.map(|s| (s / step.block.count).max(1));
        let steps = per_block.unwrap_or(step.block.entered_with);
        let ratio = timestep_ratio(step.block.step, steps, self.eps);
        let transfers = |i: &usize| {
            step.rng.uniform(Purpose::Position, step.index as u64, step.masked[*i] as u64) < ratio
        };
        let chosen: Vec<usize> = (0..step.masked.len()).filter(transfers).collect();
        let stop = if chosen.len() == step.masked.len() { Stop::AllTaken } else { Stop::Count };
        Ok(Selection { chosen, stop: Some(stop), ..Selection::default() })
    }
}
