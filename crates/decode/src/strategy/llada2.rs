//! LLaDA2.0's loop inside a block: everything above a threshold, or as many as the plan says; with `transfer` the mask rule
//! of LLaDA2.1, whose editing of decided tokens stands beside any strategy.
//!
//! Strictness: `>`. The plan is of the whole block, counted from its first position, prompt included, and is not refilled
//! when a pass takes more.

use crate::error::Result;
use crate::registry::{Cost, Entry, Kind, Param};
use crate::rule::{Confidence, SCORE, above_or_best, planned};
use crate::strategy::{Selection, Step, Strategy};

pub(super) const ENTRY: Entry = Entry {
    name: "llada2",
    aliases: &["llada2.0", "llada2.1"],
    summary: "in a block, unmask all above a threshold, or as many of the best as the plan says",
    source: "LLaDA2.0 (Bie et al. 2025), LLaDA2.1",
    cost: Cost::Logits,
    params: &[
        Param {
            key: "threshold",
            default: "0.95",
            kind: Kind::Number(0.0, 1.0),
            help: "a confidence above it passes (>)",
        },
        Param { key: "steps", default: "32", kind: Kind::Count, help: "passes a block is planned for" },
        Param {
            key: "minimal",
            default: "1",
            kind: Kind::Count,
            help: "no more passes are planned than the response has tokens over this",
        },
        Param {
            key: "transfer",
            default: "",
            kind: Kind::Count,
            help: "least tokens a pass takes, not the plan's; 1 where decided tokens are edited (LLaDA2.1)",
        },
        SCORE,
    ],
    build: |values| {
        Ok(Box::new(Llada2 {
            threshold: values.number("threshold") as f32,
            steps: values.count("steps").unwrap_or(32),
            minimal: values.count("minimal").unwrap_or(1),
            transfer: values.count("transfer"),
            confidence: Confidence::of(values),
        }))
    },
};

struct Llada2 {
    threshold: f32,
    steps: usize,
    minimal: usize,
    transfer: Option<usize>,
    confidence: Confidence,
}

impl Strategy for Llada2 {
    fn reads_logits(&self) -> bool {
        false
    }

    fn select(&mut self, step: &Step<'_>) -> Result<Selection> {
        let steps = self.steps.min(step.canvas.asked() / self.minimal);
        let count = match self.transfer {
            Some(count) => count,
            // The loop that edits knows no plan.
            None if step.block.edited => 1,
            None => planned(step.block.length, steps, step.block.step),
        };
        Ok(above_or_best(&self.confidence.all(step), self.threshold, count))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Scene, build};

    #[test]
    fn the_plan_is_of_the_block_and_the_threshold_takes_more() {
        let mut strategy = build("llada2:threshold=0.9,steps=3");
        let mut scene = Scene::new(&[0.1, 0.2, 0.3, 0.4, 0.5]);
        // Five positions over three passes: 2, 2, 1.
        assert_eq!(scene.select(&mut *strategy).chosen, [4, 3]);
        scene.block.step = 2;
        assert_eq!(scene.select(&mut *strategy).chosen, [4]);
        let sure = Scene::new(&[0.95, 0.91, 0.99, 0.9, 0.1]);
        assert_eq!(sure.select(&mut *strategy).chosen, [2, 0, 1]);
        assert_eq!(Scene::new(&[0.1, 0.6]).select(&mut *build("llada2:transfer=1")).chosen, [1]);
        let mut edited = Scene::new(&[0.1, 0.6, 0.3]);
        assert_eq!(edited.select(&mut *build("llada2:steps=1")).chosen, [1, 2, 0]);
        edited.block.edited = true;
        assert_eq!(edited.select(&mut *build("llada2:steps=1")).chosen, [1]);
        assert_eq!(edited.select(&mut *build("llada2:steps=1,transfer=2")).chosen, [1, 2]);
    }
}
