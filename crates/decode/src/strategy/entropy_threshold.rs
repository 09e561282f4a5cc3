//! dParallel's rule: unmask every position whose entropy is low enough, and always the lowest. Made
//! for backbones distilled to be certain early; usable on any.
//!
//! Strictness: `≤` (the reference code for LLaDA; its code for Dream keeps `<`, a difference that
//! only exact ties can show). Entropy is the model's own, in nats, before temperature and filters.

use crate::error::Result;
use crate::registry::{Cost, Entry, Kind, Param};
use crate::rule::passing;
use crate::strategy::{Selection, Step, Strategy};

pub(super) const ENTRY: Entry = Entry {
    name: "entropy-threshold",
    aliases: &["dparallel", "entropy_threshold"],
    summary: "unmask every position whose entropy is at most a threshold, at least the lowest",
    source: "dParallel (Chen et al. 2025)",
    cost: Cost::Logits,
    params: &[Param {
        key: "threshold",
        default: "0.5",
        kind: Kind::Number(0.0, f64::INFINITY),
        help: "greatest entropy in nats (≤)",
    }],
    build: |values| Ok(Box::new(EntropyThreshold { threshold: values.number("threshold") as f32 })),
};

struct EntropyThreshold {
    threshold: f32,
}

impl Strategy for EntropyThreshold {
    fn reads_logits(&self) -> bool {
        false
    }

    fn select(&mut self, step: &Step<'_>) -> Result<Selection> {
        let scores: Vec<f32> = step.marginals.iter().map(|m| -m.raw.entropy).collect();
        Ok(passing(&scores, |_| true, |i| step.marginals[i].raw.entropy <= self.threshold))
    }
}

#[cfg(test)]
mod tests {
    use crate::strategy::Stop;
    use crate::testing::{Scene, build};

    fn run(entropies: &[f32]) -> (Vec<usize>, Option<Stop>) {
        let scene = Scene::new(&vec![0.5; entropies.len()]).entropies(entropies);
        let selection = scene.select(&mut *build("entropy-threshold:threshold=0.5"));
        (selection.chosen, selection.stop)
    }

    #[test]
    fn exactly_the_threshold_passes() {
        assert_eq!(run(&[0.5, 0.501, 0.1]), (vec![2, 0], Some(Stop::NoCandidate)));
    }

    #[test]
    fn when_nothing_passes_the_leftmost_of_the_lowest_is_taken() {
        assert_eq!(run(&[0.9, 0.6, 0.6]), (vec![1], Some(Stop::Fallback)));
    }
}
