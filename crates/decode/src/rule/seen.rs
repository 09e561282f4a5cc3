//! What the model currently says at every position it was asked about, decided ones included.

use std::collections::HashMap;

use demask_kernels::{least_run, softmax_stats};
use rayon::prelude::*;

use crate::marginals::LogitRows;

/// Top-1 probability at each position whose logits went by.
#[derive(Debug, Default)]
pub struct Seen(HashMap<usize, f32>);

impl Seen {
    /// Notes a chunk; to be called from [`Strategy::on_logits`](crate::strategy::Strategy::on_logits).
    pub fn push(&mut self, rows: &LogitRows<'_>) {
        let vocab = rows.vocab();
        let top = |(row, &position): (&[f32], &usize)| (position, softmax_stats(row).top1);
        let all = rows.logits.par_chunks_exact(vocab).zip(rows.positions).with_min_len(least_run());
        self.0.extend(all.map(top).collect::<Vec<(usize, f32)>>());
    }

    /// The latest opinion at every position ever noted, by position.
    pub fn latest(&self) -> Vec<(usize, f32)> {
        let mut seen: Vec<(usize, f32)> = self.0.iter().map(|(&p, &top1)| (p, top1)).collect();
        seen.sort_by_key(|s| s.0);
        seen
    }

    /// What was noted in this pass, by position; the next pass begins afresh.
    pub fn take(&mut self) -> Vec<(usize, f32)> {
        let seen = self.latest();
        self.0.clear();
        seen
    }
}
