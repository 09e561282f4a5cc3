//! d3LLM's multi-block decoding: several blocks are open at once, and in all of them every position of
//! low entropy is unmasked. The next block opens when the last open one has made some progress, but
//! not after an end of sequence. If the left-most open block with masks got nothing, its lowest entropy
//! is taken.
//!
//! Strictness: entropy `<`, progress `≥`; ties go left. The blocks are the strategy's own (`block`),
//! counted from the first mask; decode without the engine's blocks to have several open. Quirk: the
//! reference also calls a block "full" once its predecessor is 95 % decided and forces the first full
//! block with masks; that is always the left-most one with masks, so the number does not matter here.
//! Its delayed cache is the cache policy's business, and the published speed needs distilled weights.

use crate::error::Result;
use crate::registry::{Cost, Entry, Kind, Param};
use crate::rule::top_k;
use crate::strategy::{Selection, Step, Stop, Strategy};

pub(super) const ENTRY: Entry = Entry {
    name: "multi-block",
    aliases: &["d3llm"],
    summary: "unmask low entropies in several blocks at once, opening the next as the last makes progress",
    source: "d3LLM (Qian et al. 2026)",
    cost: Cost::Logits,
    params: &[
        Param { key: "block", default: "32", kind: Kind::Count, help: "length of a block" },
        Param {
            key: "threshold",
            default: "0.4",
            kind: Kind::Number(0.0, f64::INFINITY),
            help: "entropy in nats below which a position is unmasked (<)",
        },
        Param {
            key: "add",
            default: "0.1",
            kind: Kind::Number(0.0, 1.0),
            help: "decided part of the last open block that opens the next (≥)",
        },
    ],
    build: |values| {
        Ok(Box::new(MultiBlock {
            size: values.count("block").unwrap_or(32),
            threshold: values.number("threshold") as f32,
            add: values.number("add"),
            start: 0,
            end: 0,
            open: 0,
        }))
    },
};

struct MultiBlock {
    size: usize,
    threshold: f32,
    add: f64,
    /// First and one past the last mask at the beginning.
    start: usize,
    end: usize,
    /// How many blocks are open.
    open: usize,
}

impl Strategy for MultiBlock {
    fn reads_logits(&self) -> bool {
        false
    }

    fn select(&mut self, step: &Step<'_>) -> Result<Selection> {
        if step.block.step == 0 {
            (self.start, self.end, self.open) = (step.masked[0], step.masked[step.masked.len() - 1] + 1, 1);
        }
        self.open_blocks(step);
        let entropy = |i: usize| step.marginals[i].raw.entropy;
        let order: Vec<usize> =
            top_k(&step.marginals.iter().map(|m| -m.raw.entropy).collect::<Vec<_>>(), usize::MAX)
                .into_iter()
                .filter(|&i| self.block(step.masked[i]) < self.open)
                .collect();
        let mut chosen: Vec<usize> = order.iter().copied().filter(|&i| entropy(i) < self.threshold).collect();
        let first = self.block(step.masked[0]);
        let in_first = |&i: &usize| self.block(step.masked[i]) == first;
        let mut stop = if chosen.len() == step.masked.len() { Stop::AllTaken } else { Stop::NoCandidate };
        if !chosen.iter().any(in_first) {
            chosen.extend(order.iter().find(|i| in_first(i)));
            stop = Stop::Fallback;
        }
        Ok(Selection { chosen, stop: Some(stop), ..Selection::default() })
    }
}

impl MultiBlock {
    fn block(&self, position: usize) -> usize {
        (position - self.start) / self.size
    }

    /// Opens the next block if it is time, and in any case the first one that has masks.
    fn open_blocks(&mut self, step: &Step<'_>) {
        let count = (self.end - self.start).div_ceil(self.size);
        let last =
            self.start + (self.open - 1) * self.size..(self.start + self.open * self.size).min(self.end);
        let masks = step.masked.iter().filter(|p| last.contains(p)).count();
        let progress = 1.0 - masks as f64 / last.len() as f64;
        let ended = step.canvas.tokens()[self.start..last.end].iter().any(|&t| step.canvas.is_eos(t));
        if progress >= self.add && !ended {
            self.open += 1;
        }
        self.open = self.open.max(self.block(step.masked[0]) + 1).min(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{EOS, Scene, build};

    const TEXT: &str = "multi-block:block=2,threshold=0.5,add=0.5";

    #[test]
    fn the_next_block_opens_with_progress() {
        let mut strategy = build(TEXT);
        // Scene's entropy is 1 − confidence. Only block 0 (indices 0, 1) is open.
        let mut scene = Scene::new(&[0.1, 0.6, 0.9, 0.9, 0.9, 0.9]);
        assert_eq!(scene.advance(&mut *strategy, &[0.1, 0.9, 0.8, 0.9, 0.9]).chosen, [1]);
        // Half of block 0 is decided: block 1 opens; block 0 has nothing, so its only mask is forced.
        let second = scene.advance(&mut *strategy, &[0.5, 0.7]);
        assert_eq!((second.chosen.as_slice(), second.stop), (&[1, 2, 0][..], Some(Stop::Fallback)));
        // Block 2 opens; exactly the threshold does not pass.
        let third = scene.advance(&mut *strategy, &[0.2]);
        assert_eq!((third.chosen.as_slice(), third.stop), (&[1][..], Some(Stop::NoCandidate)));
        assert_eq!(scene.advance(&mut *strategy, &[]).chosen, [0]);
    }

    #[test]
    fn no_block_opens_after_an_end_of_sequence_until_the_open_ones_are_done() {
        let mut strategy = build(TEXT);
        let mut scene = Scene::new(&[0.1, 0.1, 0.9, 0.9]);
        assert_eq!(scene.select(&mut *strategy).chosen, [0]);
        scene.commit(1, EOS, 0.5);
        scene.block.step = 1;
        let second = scene.select(&mut *strategy);
        assert_eq!((second.chosen.as_slice(), second.stop), (&[0][..], Some(Stop::Fallback)));
        scene.commit(2, 7, 0.5);
        scene.block.step = 2;
        assert_eq!(scene.select(&mut *strategy).chosen, [0, 1]);
    }

    #[test]
    fn equal_entropies_are_forced_from_the_left() {
        assert_eq!(Scene::new(&[0.1, 0.3, 0.3]).select(&mut *build("multi-block")).chosen, [1]);
    }
}
