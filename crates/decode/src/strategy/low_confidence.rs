//! LLaDA's decoder: each step keeps the most confident candidates and leaves the rest masked, as many
//! as an even schedule says.
//!
//! Confidence is the probability of the sampled token in the model's own distribution at temperature
//! 1; that is `maskgit-plus` with raw scores. Quirk of the name: the reference calls it
//! `remasking=low_confidence`, yet nothing that was committed is ever masked again. Quirk of its loop, kept with
//! `steps`: the schedule, not the last mask, ends a block, and masks it left compete in the next one. Ties go left.

use crate::error::Result;
use crate::registry::{Cost, Entry};
use crate::rule::{Confidence, EVEN_STEPS, Schedule, TOKENS_PER_STEP};
use crate::strategy::{Selection, Step, Strategy};

pub(super) const ENTRY: Entry = Entry {
    name: "low-confidence",
    aliases: &["llada", "low_confidence"],
    summary: "unmask the candidates with the highest probability, evenly many a step",
    source: "LLaDA (Nie et al. 2025), remasking=low_confidence",
    cost: Cost::Logits,
    params: &[TOKENS_PER_STEP, EVEN_STEPS],
    build: |values| Ok(Box::new(LowConfidence { schedule: Schedule::of(values)? })),
};

struct LowConfidence {
    schedule: Schedule,
}

impl Strategy for LowConfidence {
    fn reads_logits(&self) -> bool {
        false
    }

    fn select(&mut self, step: &Step<'_>) -> Result<Selection> {
        let last = self.schedule.is_last(step);
        Ok(Selection { last, ..self.schedule.best(step, &Confidence::Raw.all(step)) })
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Scene, build};

    #[test]
    fn five_masks_in_two_steps_are_three_then_two() {
        let mut strategy = build("low-confidence:steps=2");
        let mut scene = Scene::new(&[0.2, 0.9, 0.5, 0.5, 0.5]);
        assert_eq!(scene.advance(&mut *strategy, &[0.4, 0.6]).chosen, [1, 2, 3]);
        assert_eq!(scene.advance(&mut *strategy, &[]).chosen, [1, 0]);
    }

    #[test]
    fn confidence_is_that_of_the_sampled_token() {
        let mut scene = Scene::new(&[0.9, 0.5]);
        // The first position's sampled token is not its best one.
        scene.marginals[0].candidate.raw = 0.05;
        scene.marginals[0].candidate.probability = 1.0;
        assert_eq!(scene.select(&mut *build("low-confidence")).chosen, [1]);
    }
}
