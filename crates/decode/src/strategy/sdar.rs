//! SDAR's loop inside a block: the planned number of the most confident (`static`), all above a threshold if they are at
//! least that many (`dynamic`), or the left-most (`sequential`).
//!
//! Strictness: `>`. Confidence is measured before any filter, as the published evaluation code does; generate.py measures it
//! after top-k, where it is always 1.

use crate::error::Result;
use crate::registry::{Cost, Entry, Kind, Param};
use crate::rule::{Confidence, SCORE, above_or_best, planned};
use crate::strategy::{Selection, Step, Stop, Strategy};

pub(super) const ENTRY: Entry = Entry {
    name: "sdar",
    aliases: &[],
    summary: "in a block, unmask as many as the plan says: the surest, all sure ones, or left to right",
    source: "SDAR (Cheng et al. 2025)",
    cost: Cost::Logits,
    params: &[
        Param {
            key: "mode",
            default: "dynamic",
            kind: Kind::Choice(&["static", "dynamic", "sequential"]),
            help: "the planned number of the surest, all above the threshold if they are more, or the left-most",
        },
        Param {
            key: "threshold",
            default: "0.85",
            kind: Kind::Number(0.0, 1.0),
            help: "of mode=dynamic: a confidence above it passes (>)",
        },
        Param {
            key: "steps",
            default: "",
            kind: Kind::Count,
            help: "denoising passes a block is planned for (its length if not given)",
        },
        SCORE,
    ],
    build: |values| {
        Ok(Box::new(Sdar {
            mode: match values.text("mode") {
                "static" => Mode::Static,
                "sequential" => Mode::Sequential,
                _ => Mode::Dynamic,
            },
            threshold: values.number("threshold") as f32,
            steps: values.count("steps"),
            confidence: Confidence::of(values),
        }))
    },
};

enum Mode {
    Static,
    Dynamic,
    Sequential,
}

struct Sdar {
    mode: Mode,
    threshold: f32,
    steps: Option<usize>,
    confidence: Confidence,
}

impl Strategy for Sdar {
    fn reads_logits(&self) -> bool {
        false
    }

    fn select(&mut self, step: &Step<'_>) -> Result<Selection> {
        let length = step.block.length;
        let count = planned(length, self.steps.unwrap_or(length), step.block.step);
        let scores = self.confidence.all(step);
        Ok(match self.mode {
            Mode::Dynamic => above_or_best(&scores, self.threshold, count),
            // No confidence is above infinity, so the planned number is taken.
            Mode::Static => above_or_best(&scores, f32::INFINITY, count.max(1)),
            Mode::Sequential => {
                let chosen: Vec<usize> = (0..scores.len().min(count.max(1))).collect();
                let stop = if chosen.len() == scores.len() { Stop::AllTaken } else { Stop::Count };
                Selection { chosen, stop: Some(stop), ..Selection::default() }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Scene, build};

    #[test]
    fn three_orders_of_one_plan() {
        let scene = Scene::new(&[0.2, 0.9, 0.86, 0.1]);
        let chosen = |text: &str| scene.select(&mut *build(text)).chosen;
        assert_eq!(chosen("sdar:mode=static,steps=2"), [1, 2]);
        assert_eq!(chosen("sdar:mode=static"), [1]);
        assert_eq!(chosen("sdar"), [1, 2]);
        assert_eq!(chosen("sdar:threshold=0.99"), [1]);
        assert_eq!(chosen("sdar:mode=sequential,steps=2"), [0, 1]);
    }
}
