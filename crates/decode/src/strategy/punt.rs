//! PUNT: unmask a set of positions that do not change each other, found by asking the model again.
//!
//! Masks are ranked by confidence, rank 0 the surest. For each bit of the rank, the candidates of the
//! remaining ranks with that bit clear are placed on the canvas, and a remaining rank r with the bit
//! set is dropped if `KL(p_r ‖ p_r given them) > ε`. What remains is unmasked with the tokens that
//! were placed: `⌈log₂|M|⌉` more passes a step at most.
//!
//! Strictness: a divergence of exactly ε stays. Fallback: rank 0 has no bit set, so it always stays;
//! ties of confidence go left. The paper's recursion splits into a surer and a less sure half first,
//! which is the most significant bit first; a public port goes the other way (`bits=low-first`).
//! Both distributions are the model's own over the tokens that may be produced; a penalty on the end
//! of sequence and guidance are part of the first only and make the test stricter.

use crate::error::Result;
use crate::marginals::LogitRows;
use crate::registry::{Cost, Entry, Kind, Param};
use crate::rule::{Confidence, SCORE, top_k};
use crate::strategy::{Selection, Step, Stop, Strategy};

pub(super) const ENTRY: Entry = Entry {
    name: "punt",
    aliases: &[],
    summary: "unmask positions that do not change each other, tested with log2 |M| more passes",
    source: "PUNT (Azangulov et al. 2025)",
    cost: Cost::ExtraForwards,
    params: &[
        Param {
            key: "eps",
            default: "0.04",
            kind: Kind::Number(0.0, f64::INFINITY),
            help: "greatest divergence that counts as independent, in nats (≤)",
        },
        Param {
            key: "bits",
            default: "high-first",
            kind: Kind::Choice(&["high-first", "low-first"]),
            help: "order of the tests: from the most or from the least significant bit of the rank",
        },
        SCORE,
    ],
    build: |values| {
        Ok(Box::new(Punt {
            eps: values.number("eps"),
            low_first: values.text("bits") == "low-first",
            confidence: Confidence::of(values),
            base: Vec::new(),
        }))
    },
};

struct Punt {
    eps: f64,
    low_first: bool,
    confidence: Confidence,
    /// Logits of this pass, `[|M|, V]`.
    base: Vec<f32>,
}

impl Strategy for Punt {
    fn on_logits(&mut self, _step: usize, rows: LogitRows<'_>) {
        self.base.extend_from_slice(rows.logits);
    }

    fn select(&mut self, step: &Step<'_>) -> Result<Selection> {
        let base = std::mem::take(&mut self.base);
        let order = top_k(&self.confidence.all(step), step.masked.len());
        // The number of bits of the largest rank.
        let levels = usize::BITS - (order.len() - 1).leading_zeros();
        let mut remaining: Vec<usize> = (0..order.len()).collect();
        for level in 0..levels {
            let bit = if self.low_first { level } else { levels - 1 - level };
            let (tested, placed): (Vec<usize>, Vec<usize>) =
                remaining.iter().partition(|&&r| (r >> bit) & 1 == 1);
            if tested.is_empty() || placed.is_empty() {
                continue;
            }
            let moved = self.moved(step, &base, &order, &placed, &tested)?;
            remaining.retain(|r| !moved.contains(r));
        }
        let chosen: Vec<usize> = remaining.into_iter().map(|r| order[r]).collect();
        let stop = match chosen.len() {
            n if n == order.len() => Stop::AllTaken,
            1 => Stop::Fallback,
            _ => Stop::NoCandidate,
        };
        Ok(Selection { chosen, stop: Some(stop), ..Selection::default() })
    }
}

impl Punt {
    /// Ranks of `tested` whose distribution moves by more than ε when the candidates of `placed` stand.
    fn moved(
        &self,
        step: &Step<'_>,
        base: &[f32],
        order: &[usize],
        placed: &[usize],
        tested: &[usize],
    ) -> Result<Vec<usize>> {
        let mut canvas = step.canvas.tokens().to_vec();
        for &rank in placed {
            canvas[step.masked[order[rank]]] = step.marginals[order[rank]].candidate.token;
        }
        let positions: Vec<usize> = tested.iter().map(|&rank| step.masked[order[rank]]).collect();
        let vocab = step.probe.vocab();
        let mut moved = Vec::new();
        step.probe.ask(&[canvas], &positions, &mut |_, first, logits| {
            for (row, &rank) in logits.chunks_exact(vocab).zip(&tested[first..]) {
                let before = &base[order[rank] * vocab..(order[rank] + 1) * vocab];
                if divergence(before, row) > self.eps {
                    moved.push(rank);
                }
            }
        })?;
        Ok(moved)
    }
}

/// `KL(softmax p ‖ softmax q)` over the tokens that `p` allows.
fn divergence(p: &[f32], q: &[f32]) -> f64 {
    let allowed = || p.iter().zip(q).filter(|(p, _)| **p > f32::NEG_INFINITY).map(|(&p, &q)| (p, q));
    let max = |values: &mut dyn Iterator<Item = f32>| values.fold(f32::NEG_INFINITY, f32::max);
    let (top_p, top_q) = (max(&mut allowed().map(|r| r.0)), max(&mut allowed().map(|r| r.1)));
    let (mut sum_p, mut sum_q, mut cross) = (0.0_f64, 0.0_f64, 0.0_f64);
    for (p, q) in allowed() {
        let (p, q) = (f64::from(p - top_p), f64::from(q - top_q));
        let weight = p.exp();
        sum_p += weight;
        sum_q += q.exp();
        if weight > 0.0 {
            cross += weight * (p - q);
        }
    }
    let divergence = cross / sum_p - sum_p.ln() + sum_q.ln();
    // What is not a number is not known to be independent.
    if divergence.is_nan() { f64::INFINITY } else { divergence.max(0.0) }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use demask_model::Rows;

    use super::*;
    use crate::probe::{Probe, Question};
    use crate::testing::{MASK, Scene, build, feed, logs};

    const EVEN: [f32; 2] = [0.5, 0.5];

    /// Position 4 follows position 2, position 3 follows position 1; a vocabulary of two.
    #[derive(Default)]
    struct Pairs {
        asked: RefCell<Vec<Vec<u32>>>,
    }

    impl Probe for Pairs {
        fn ask_each(
            &self,
            questions: &[Question<'_>],
            visit: &mut dyn FnMut(usize, &mut [f32]),
        ) -> Result<Vec<Option<Rows>>> {
            for q in questions {
                self.asked.borrow_mut().push(q.tokens.to_vec());
                for (index, &position) in q.predict.iter().enumerate() {
                    let follows = position >= 3 && q.tokens[position - 2] != MASK;
                    visit(index, &mut logs(if follows { &[0.9, 0.1] } else { &EVEN }));
                }
            }
            Ok(vec![None; questions.len()])
        }

        fn vocab(&self) -> usize {
            2
        }
    }

    fn run(text: &str, confidence: &[f32]) -> (Selection, Vec<Vec<u32>>) {
        let (mut strategy, scene, probe) = (build(text), Scene::new(confidence), Pairs::default());
        for position in scene.masked() {
            feed(&mut *strategy, 0, &[(position, &logs(&EVEN))]);
        }
        (scene.try_select(&mut *strategy, &probe).unwrap(), probe.asked.into_inner())
    }

    #[test]
    fn a_position_that_moves_is_dropped() {
        // Ranks are indices. Bit 1: {0, 1} placed, both of {2, 3} follow one of them and go. Bit 0:
        // {0} placed, {1} does not move.
        let (selection, asked) = run("punt", &[0.9, 0.8, 0.7, 0.6]);
        assert_eq!((selection.chosen.as_slice(), selection.stop), (&[0, 1][..], Some(Stop::NoCandidate)));
        assert_eq!(asked, [[5, 7, 7, MASK, MASK], [5, 7, MASK, MASK, MASK]]);
    }

    #[test]
    fn least_significant_bit_first_tests_other_pairs() {
        // Bit 0: {0, 2} placed, {1, 3} tested: 3 does not follow them but 1 precedes, so both stay.
        // Bit 1: {0, 1} placed, {2, 3} follow and go.
        let (selection, asked) = run("punt:bits=low-first", &[0.9, 0.8, 0.7, 0.6]);
        assert_eq!(selection.chosen, [0, 1]);
        assert_eq!(asked, [[5, 7, MASK, 7, MASK], [5, 7, 7, MASK, MASK]]);
    }

    #[test]
    fn ranks_are_by_confidence_and_ties_go_left() {
        // Ranks: 2, 0, 1, 3. Bit 1: positions 3 and 1 placed; 2 stays, 4 stays (2 is masked).
        // Bit 0: positions 3 and 2 placed, 1 and 4 tested: 4 follows 2 and goes.
        let (selection, asked) = run("punt", &[0.5, 0.5, 0.9, 0.1]);
        assert_eq!(selection.chosen, [2, 0, 1]);
        assert_eq!(asked, [[5, 7, MASK, 7, MASK], [5, MASK, 7, 7, MASK]]);
    }

    #[test]
    fn exactly_eps_stays_and_a_single_mask_asks_nothing() {
        let (p, q) = (logs(&[0.5, 0.5]), logs(&[0.9, 0.1]));
        // ½ ln(0.5/0.9) + ½ ln(0.5/0.1)
        let kl = divergence(&p, &q);
        assert!((kl - 0.510_825_6).abs() < 1e-6, "{kl}");
        assert_eq!(run(&format!("punt:eps={kl}"), &[0.9, 0.8, 0.7]).0.chosen, [0, 1, 2]);
        assert_eq!(run(&format!("punt:eps={}", kl - 1e-6), &[0.9, 0.8, 0.7]).0.chosen, [0, 1]);
        let (selection, asked) = run("punt", &[0.1]);
        assert_eq!((selection.chosen.as_slice(), asked.len()), (&[0][..], 0));
    }

    #[test]
    fn tokens_that_may_not_be_produced_do_not_count() {
        let p = [0.0, f32::NEG_INFINITY, 0.0];
        assert!(divergence(&p, &[1.0, 50.0, 1.0]) < 1e-9);
        assert_eq!(divergence(&[0.0, 0.0], &[0.0, f32::NEG_INFINITY]), f64::INFINITY);
    }
}
