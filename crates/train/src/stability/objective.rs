//! The head as something the loop of parts trains: positions in an order of each epoch's own, held-out log-loss.

use demask_decode::rng::{Purpose, Rng};

use super::data::{Labelled, Positions};
use super::network::{Batch, Network, Standard};
use crate::error::Result;
use crate::part::{Objective, Slots};

/// Positions that are predicted at once.
const CHUNK: usize = 4096;

/// The network learning the labels.
pub(super) struct Learning {
    pub(super) network: Network,
    pub(super) standard: Standard,
    labelled: Labelled,
    batch: usize,
    seed: u64,
    order: (u64, Vec<u32>),
    gathered: Batch,
}

impl Learning {
    pub(super) fn new(labelled: Labelled, inner: usize, batch: usize, seed: u64) -> Self {
        let network = Network::new(labelled.training.inputs(), inner);
        let standard = Standard::of(&labelled.training);
        let (order, gathered) = ((u64::MAX, Vec::new()), Batch::default());
        Self { network, standard, labelled, batch, seed, order, gathered }
    }

    /// Updates of one epoch; the last one may be smaller.
    pub(super) fn per_epoch(&self) -> u64 {
        self.labelled.training.len().div_ceil(self.batch) as u64
    }

    /// Labelled positions: to train on, held out.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.labelled.training.len(), self.labelled.held.len())
    }

    /// `q` of every held-out position with whether it changed.
    pub(super) fn predictions(&self, parameters: &[f32]) -> Vec<(f32, bool)> {
        let held = &self.labelled.held;
        let all: Vec<u32> = (0..held.len() as u32).collect();
        let chunks = all.chunks(CHUNK).flat_map(|chunk| {
            let batch = self.collect(held, chunk);
            self.network.predict(parameters, &batch.rows).into_iter().zip(batch.changes)
        });
        chunks.collect()
    }

    /// Log-loss of the training's rate on what is held out.
    pub(super) fn constant(&self) -> f64 {
        let rate = self.labelled.training.rate().clamp(1e-6, 1.0 - 1e-6);
        let held = self.labelled.held.rate();
        -(held * rate.ln() + (1.0 - held) * (1.0 - rate).ln())
    }

    fn collect(&self, positions: &Positions, chosen: &[u32]) -> Batch {
        let mut batch = Batch::default();
        for &index in chosen {
            let start = batch.rows.len();
            positions.extend(index as usize, &mut batch.rows);
            self.standard.apply(&mut batch.rows[start..]);
            batch.changes.push(positions.changes[index as usize]);
        }
        batch
    }
}

impl Objective for Learning {
    fn slots(&self) -> &Slots {
        &self.network.slots
    }

    fn initial(&self, seed: u64) -> Result<Vec<f32>> {
        Ok(self.network.initial(seed, self.labelled.training.rate()))
    }

    fn gather(&mut self, _: &[f32], step: u64) -> Result<usize> {
        let epoch = step / self.per_epoch();
        if self.order.0 != epoch {
            let rng = Rng::new(self.seed, epoch);
            let mut order: Vec<u32> = (0..self.labelled.training.len() as u32).collect();
            order.sort_by_cached_key(|&index| (rng.bits(Purpose::Position, 0, u64::from(index)), index));
            self.order = (epoch, order);
        }
        let start = (step % self.per_epoch()) as usize * self.batch;
        let end = (start + self.batch).min(self.order.1.len());
        self.gathered = self.collect(&self.labelled.training, &self.order.1[start..end]);
        Ok(1)
    }

    fn gradient(&mut self, parameters: &[f32], gradient: &mut [f32]) -> Result<Option<f64>> {
        Ok(Some(self.network.gradient(parameters, &self.gathered, gradient)))
    }

    fn validate(&mut self, parameters: &[f32]) -> Result<f64> {
        let predicted = self.predictions(parameters);
        let loss = |&(q, change): &(f32, bool)| {
            let q = f64::from(q).clamp(1e-7, 1.0 - 1e-7);
            if change { -q.ln() } else { -(1.0 - q).ln() }
        };
        Ok(predicted.iter().map(loss).sum::<f64>() / predicted.len().max(1) as f64)
    }

    fn baseline(&mut self) -> Result<(String, f64)> {
        Ok(("the constant rate of changes".into(), self.constant()))
    }
}
