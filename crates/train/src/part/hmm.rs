//! A hidden Markov model of blocks, with known cells and cells of which there are only marginals: partition, and expected
//! counts by forward and backward messages.
//!
//! Invariant: sums over blocks run in a fixed order, whatever the number of threads.

use rayon::prelude::*;

/// A cell of a block.
#[derive(Debug, Clone, PartialEq)]
pub enum BlockCell {
    /// Decided.
    Known(u32),
    /// Masked: what the model says there, and what belongs there.
    Masked {
        /// Probabilities.
        marginal: Vec<f32>,
        /// The token of the answer.
        truth: u32,
    },
}

/// `π`, `A` and `B` as probabilities.
pub(super) struct Hmm {
    pub(super) initial: Vec<f64>,
    pub(super) transition: Vec<f64>,
    pub(super) emission: Vec<f64>,
    pub(super) states: usize,
    pub(super) vocab: usize,
}

/// A scaled forward message, the evidence in it and its scale.
type Message = (Vec<f64>, Vec<f64>, f64);

/// Expected counts, in the order of the parameters.
pub(super) struct Counts {
    pub(super) initial: Vec<f64>,
    pub(super) transition: Vec<f64>,
    pub(super) emission: Vec<f64>,
}

impl Hmm {
    /// `−ln p̂` of a block's masks, and how many there are.
    pub(super) fn surprise(&self, block: &[BlockCell]) -> (f64, usize) {
        let own: f64 = block.iter().map(|cell| cell.own().ln()).sum();
        let clamped = self.messages(block, true).1;
        (self.messages(block, false).1 - clamped - own, masks(block))
    }

    fn evidence(&self, cell: &BlockCell, clamped: bool) -> Vec<f64> {
        let of =
            |token: u32| (0..self.states).map(|s| self.emission[s * self.vocab + token as usize]).collect();
        match cell {
            BlockCell::Known(token) => of(*token),
            BlockCell::Masked { truth, .. } if clamped => of(*truth),
            BlockCell::Masked { marginal, .. } => {
                let dot = |row: &[f64]| row.iter().zip(marginal).map(|(b, &p)| b * f64::from(p)).sum::<f64>();
                self.emission.chunks_exact(self.vocab).map(dot).collect()
            }
        }
    }

    /// Scaled forward messages with their evidence, and `ln Z`.
    fn messages(&self, block: &[BlockCell], clamped: bool) -> (Vec<Message>, f64) {
        let (mut all, mut log): (Vec<Message>, f64) = (Vec::with_capacity(block.len()), 0.0);
        for cell in block {
            let evidence = self.evidence(cell, clamped);
            let mut now = match all.last() {
                None => self.initial.clone(),
                Some((last, ..)) => {
                    let mut next = vec![0.0; self.states];
                    for (a, row) in last.iter().zip(self.transition.chunks_exact(self.states)) {
                        next.iter_mut().zip(row).for_each(|(n, t)| *n += a * t);
                    }
                    next
                }
            };
            now.iter_mut().zip(&evidence).for_each(|(a, e)| *a *= e);
            let sum: f64 = now.iter().sum::<f64>().max(f64::MIN_POSITIVE);
            now.iter_mut().for_each(|a| *a /= sum);
            log += sum.ln();
            all.push((now, evidence, sum));
        }
        (all, log)
    }

    /// Adds `weight` times the expected counts of a block.
    pub(super) fn count(&self, block: &[BlockCell], clamped: bool, weight: f64, counts: &mut Counts) {
        let (forward, _) = self.messages(block, clamped);
        let n = self.states;
        let mut backward = vec![1.0; n];
        for (index, cell) in block.iter().enumerate().rev() {
            let (alpha, evidence, scale) = &forward[index];
            let posterior: Vec<f64> = alpha.iter().zip(&backward).map(|(a, b)| a * b).collect();
            self.emit(cell, clamped, weight, &posterior, evidence, counts);
            // β·e over the scale: what the state before looks forward to.
            let ahead: Vec<f64> = backward.iter().zip(evidence).map(|(b, e)| b * e / scale).collect();
            if index == 0 {
                counts.initial.iter_mut().zip(&posterior).for_each(|(c, p)| *c += weight * p);
                return;
            }
            let before = &forward[index - 1].0;
            for (s, row) in self.transition.chunks_exact(n).enumerate() {
                let into = counts.transition[s * n..(s + 1) * n].iter_mut();
                into.zip(row.iter().zip(&ahead)).for_each(|(c, (t, a))| *c += weight * before[s] * t * a);
                backward[s] = row.iter().zip(&ahead).map(|(t, a)| t * a).sum();
            }
        }
    }

    fn emit(
        &self,
        cell: &BlockCell,
        clamped: bool,
        weight: f64,
        posterior: &[f64],
        evidence: &[f64],
        counts: &mut Counts,
    ) {
        let rows = counts.emission.chunks_exact_mut(self.vocab).zip(posterior);
        match cell {
            BlockCell::Masked { marginal, .. } if !clamped => {
                let each = rows.zip(self.emission.chunks_exact(self.vocab)).zip(evidence);
                for (((counts, p), emission), e) in each {
                    let share = weight * p / e.max(f64::MIN_POSITIVE);
                    let tokens = counts.iter_mut().zip(emission.iter().zip(marginal));
                    tokens.for_each(|(c, (b, &m))| *c += share * b * f64::from(m));
                }
            }
            BlockCell::Masked { truth: token, .. } | BlockCell::Known(token) => {
                rows.for_each(|(counts, p)| counts[*token as usize] += weight * p);
            }
        }
    }

    /// Sums what `each` adds over the blocks: a fixed number of sums in a fixed order, whatever the threads.
    pub(super) fn counted(
        &self,
        blocks: &[Vec<BlockCell>],
        each: impl Fn(&Self, &[BlockCell], &mut Counts) + Sync,
    ) -> Counts {
        let zero = || Counts {
            initial: vec![0.0; self.states],
            transition: vec![0.0; self.states * self.states],
            emission: vec![0.0; self.states * self.vocab],
        };
        let size = blocks.len().div_ceil(8).max(1);
        let sums: Vec<Counts> = blocks
            .par_chunks(size)
            .map(|blocks| {
                let mut counts = zero();
                blocks.iter().for_each(|block| each(self, block, &mut counts));
                counts
            })
            .collect();
        sums.into_iter().fold(zero(), |mut all, one| {
            let add = |a: &mut [f64], b: &[f64]| a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
            add(&mut all.initial, &one.initial);
            add(&mut all.transition, &one.transition);
            add(&mut all.emission, &one.emission);
            all
        })
    }
}

impl BlockCell {
    /// The model's own probability of the right token.
    fn own(&self) -> f64 {
        match self {
            Self::Known(_) => 1.0,
            Self::Masked { marginal, truth } => {
                f64::from(marginal[*truth as usize]).max(f64::from(f32::MIN_POSITIVE))
            }
        }
    }
}

pub(super) fn masks(block: &[BlockCell]) -> usize {
    block.iter().filter(|cell| matches!(cell, BlockCell::Masked { .. })).count()
}

pub(super) fn softmax(row: &[f32]) -> Vec<f64> {
    let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let values: Vec<f64> = row.iter().map(|&v| f64::from(v - largest).exp()).collect();
    let sum: f64 = values.iter().sum();
    values.into_iter().map(|v| v / sum).collect()
}
