//! Distributions of the previous forward pass at positions that are still masked, and how far the
//! current ones moved: `KL(p_t ‖ p_{t-1})` with KLASS's smoothing of 1e-12.

use std::collections::{HashMap, VecDeque};

use demask_kernels::least_run;
use rayon::prelude::*;

use crate::marginals::LogitRows;

const SMOOTHING: f64 = 1e-12;

/// Per position: the previous distribution and the last few divergences.
#[derive(Debug, Default)]
pub struct History {
    length: usize,
    positions: HashMap<usize, Entry>,
}

#[derive(Debug, Default)]
struct Entry {
    previous: Vec<f32>,
    divergences: VecDeque<f64>,
}

impl History {
    /// Keeps the last `length` divergences.
    pub fn new(length: usize) -> Self {
        Self { length, positions: HashMap::new() }
    }

    /// Takes the distributions of this pass. Before the first pass the previous distribution is all
    /// zeros, as in the reference code, so the first divergence is large.
    pub fn push(&mut self, mut rows: LogitRows<'_>) {
        let length = self.length;
        let mut work: Vec<(usize, &mut [f32], Entry)> = Vec::with_capacity(rows.positions.len());
        for (position, row) in rows.iter_mut() {
            work.push((position, row, self.positions.remove(&position).unwrap_or_default()));
        }
        work.par_iter_mut().with_min_len(least_run()).for_each(|(_, row, entry)| {
            let divergence = entry.advance(row);
            entry.divergences.push_back(divergence);
            if entry.divergences.len() > length {
                entry.divergences.pop_front();
            }
        });
        self.positions.extend(work.into_iter().map(|(position, _, entry)| (position, entry)));
    }

    /// Whether the last `length` divergences at a position all lie below `threshold`.
    pub fn is_stable(&self, position: usize, threshold: f64) -> bool {
        let stable =
            |e: &Entry| e.divergences.len() == self.length && e.divergences.iter().all(|&d| d < threshold);
        self.positions.get(&position).is_some_and(stable)
    }

    /// The latest divergence at a position.
    pub fn latest(&self, position: usize) -> f64 {
        self.positions.get(&position).and_then(|e| e.divergences.back().copied()).unwrap_or(f64::INFINITY)
    }

    /// Forgets positions that are no longer masked.
    pub fn retain(&mut self, masked: &[usize]) {
        self.positions.retain(|p, _| masked.binary_search(p).is_ok());
    }
}

impl Entry {
    fn advance(&mut self, logits: &[f32]) -> f64 {
        let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f64 = logits.iter().map(|&z| f64::from(z - max).exp()).sum();
        let first = self.previous.is_empty();
        if first {
            self.previous.resize(logits.len(), 0.0);
        }
        let mut divergence = 0.0;
        for (&z, previous) in logits.iter().zip(&mut self.previous) {
            let p = f64::from(z - max).exp() / sum;
            if p > 0.0 {
                divergence += p * ((p + SMOOTHING).ln() - (f64::from(*previous) + SMOOTHING).ln());
            }
            *previous = p as f32;
        }
        divergence
    }
}
