//! One model on several devices of one machine, data parallel as in the paper: the canvases of a batch are shared out,
//! each device computes its own, and the passes come back in the order of the batch.
//!
//! Invariant: a canvas's numbers do not depend on which replica computed it or what else is in the batch, so results do
//! not depend on the number of replicas. A canvas stays where its keys and values are.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use candle_core::{Tensor, TensorId};
use rayon::prelude::*;

use crate::backbone::{Backbone, Pass, Query, Rows};
use crate::config::Spec;
use crate::error::{Error, Result};
use crate::transformer::device::{Bias, Guide, OnDevice, Statistics};
use crate::transformer::{Drawn, Filter, Transformer};

/// Copies of one model, each on a device.
pub struct Replicas {
    each: Vec<Transformer>,
    /// Of each replica, the last logits that were made elsewhere and compared with its own: many passes are compared with
    /// the same ones, which are large.
    bases: Vec<Mutex<Option<(TensorId, Tensor)>>>,
    /// Rows that each was given.
    rows: Vec<AtomicU64>,
}

impl Replicas {
    /// Of at least one copy; all must be of the same weights and compute in the same way.
    pub fn new(each: Vec<Transformer>) -> Result<Self> {
        let Some(first) = each.first() else { return Err(Error::Query("a model needs a device".into())) };
        let same = |other: &Transformer| {
            other.fingerprint() == first.fingerprint()
                && other.precision() == first.precision()
                && other.device().is_some() == first.device().is_some()
        };
        if !each.iter().all(same) {
            return Err(Error::Query(
                "replicas must have the same weights and be of one kind of device".into(),
            ));
        }
        let bases = each.iter().map(|_| Mutex::default()).collect();
        let rows = each.iter().map(|_| AtomicU64::default()).collect();
        Ok(Self { each, bases, rows })
    }

    /// Rows that each copy was given so far.
    pub fn rows(&self) -> Vec<u64> {
        self.rows.iter().map(|rows| rows.load(Ordering::Relaxed)).collect()
    }

    /// Which replica runs each canvas: the one that holds its keys, else the one with the fewest rows so far.
    fn share(&self, batch: &[Query<'_>]) -> Vec<usize> {
        let mut loads = vec![0; self.each.len()];
        let mut homes = vec![None; batch.len()];
        let rows =
            |query: &Query<'_>| query.cache.as_ref().map_or(query.tokens.len(), |reuse| reuse.rows.len());
        for (home, query) in homes.iter_mut().zip(batch) {
            *home = query.cache.as_ref().and_then(|reuse| reuse.cache.home.filter(|_| reuse.cache.rows > 0));
            if let Some(home) = *home {
                loads[home] += rows(query);
            }
        }
        let mut place = |query: &Query<'_>| {
            let least = (0..loads.len()).min_by_key(|&replica| loads[replica]).unwrap_or(0);
            loads[least] += rows(query);
            least
        };
        let homes: Vec<usize> =
            homes.into_iter().zip(batch).map(|(home, query)| home.unwrap_or_else(|| place(query))).collect();
        for (given, load) in self.rows.iter().zip(loads) {
            given.fetch_add(load as u64, Ordering::Relaxed);
        }
        homes
    }

    /// The replica on a tensor's device.
    fn at(&self, tensor: &Tensor) -> &Transformer {
        &self.each[self.number(tensor)]
    }

    fn number(&self, tensor: &Tensor) -> usize {
        let own = |replica: &Transformer| replica.compute_device().same_device(tensor.device());
        self.each.iter().position(own).unwrap_or(0)
    }

    /// Logits beside rows of another device, brought there once.
    fn base_beside(&self, base: &Tensor, rows: &Tensor) -> Result<Tensor> {
        if base.device().same_device(rows.device()) {
            return Ok(base.clone());
        }
        let mut kept = self.bases[self.number(rows)].lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, moved)) = kept.as_ref().filter(|(id, _)| *id == base.id()) {
            return Ok(moved.clone());
        }
        let moved = base.to_device(rows.device())?;
        *kept = Some((base.id(), moved.clone()));
        Ok(moved)
    }
}

impl Backbone for Replicas {
    fn spec(&self) -> &Spec {
        self.each[0].spec()
    }

    fn forward(&self, batch: &mut [Query<'_>]) -> Result<Vec<Pass>> {
        let homes = self.share(batch);
        let mut shares: Vec<Vec<Query<'_>>> = self.each.iter().map(|_| Vec::new()).collect();
        for (query, &home) in batch.iter_mut().zip(&homes) {
            if let Some(reuse) = &mut query.cache {
                reuse.cache.home = Some(home);
            }
            shares[home].push(std::mem::take(query));
        }
        let run = |(replica, share): (&Transformer, &mut Vec<Query<'_>>)| match share.is_empty() {
            true => Ok(Vec::new()),
            false => replica.forward(share),
        };
        let outcomes: Vec<Result<Vec<Pass>>> = if rayon::current_thread_index().is_some() {
            // A worker that waited for threads of its own would be missing where those threads need workers: with all of them
            // waiting nothing would ever go on. So it takes part instead.
            self.each.par_iter().zip(&mut shares).with_max_len(1).map(run).collect()
        } else {
            std::thread::scope(|scope| {
                let pairs = self.each.iter().zip(&mut shares);
                let threads: Vec<_> = pairs.map(|pair| scope.spawn(move || run(pair))).collect();
                threads
                    .into_iter()
                    .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                    .collect()
            })
        };
        let mut passes = outcomes.into_iter().map(|o| o.map(Vec::into_iter)).collect::<Result<Vec<_>>>()?;
        let mut shares: Vec<_> = shares.into_iter().map(Vec::into_iter).collect();
        let mut back = Vec::with_capacity(batch.len());
        for (query, &home) in batch.iter_mut().zip(&homes) {
            *query = shares[home].next().unwrap_or_default();
            back.extend(passes[home].next());
        }
        Ok(back)
    }

    fn logits(&self, rows: &Rows, visit: &mut dyn FnMut(usize, &mut [f32])) -> Result<()> {
        self.each[0].logits(rows, visit)
    }

    fn device(&self) -> Option<&dyn OnDevice> {
        self.each[0].device().map(|_| self as &dyn OnDevice)
    }

    fn embed(&self, tokens: &[u32]) -> Result<Rows> {
        self.each[0].embed(tokens)
    }

    fn replicas(&self) -> usize {
        self.each.len()
    }

    fn fingerprint(&self) -> String {
        self.each[0].fingerprint()
    }

    fn answers_to(&self, fingerprint: &str) -> bool {
        self.each[0].answers_to(fingerprint)
    }

    fn precision(&self) -> String {
        self.each[0].precision()
    }
}

impl OnDevice for Replicas {
    fn fetch(&self, tensor: &Tensor) -> Result<Vec<f32>> {
        self.at(tensor).fetch(tensor)
    }

    fn fetched(&self) -> u64 {
        self.each.iter().map(OnDevice::fetched).sum()
    }

    fn each_logits(&self, rows: &Tensor, visit: &mut dyn FnMut(usize, Tensor) -> Result<()>) -> Result<()> {
        self.at(rows).each_logits(rows, visit)
    }

    fn statistics(&self, rows: &Tensor, guide: Guide<'_>, bias: &Bias) -> Result<Vec<Statistics>> {
        // The unconditional canvas may have run elsewhere.
        let guide = match guide {
            Some((guide, scale)) => Some((guide.to_device(rows.device())?, scale)),
            None => None,
        };
        self.at(rows).statistics(rows, guide.as_ref().map(|(guide, scale)| (guide, *scale)), bias)
    }

    fn candidates(
        &self,
        rows: &Tensor,
        guide: Guide<'_>,
        bias: &Bias,
        filter: &Filter,
        uniform: &[f64],
    ) -> Result<Vec<(Statistics, Drawn)>> {
        let guide = match guide {
            Some((guide, scale)) => Some((guide.to_device(rows.device())?, scale)),
            None => None,
        };
        let guide = guide.as_ref().map(|(guide, scale)| (guide, *scale));
        self.at(rows).candidates(rows, guide, bias, filter, uniform)
    }

    fn log_sums(&self, logits: &Tensor) -> Result<Vec<f32>> {
        self.at(logits).log_sums(logits)
    }

    fn total_variation(&self, base: &Tensor, against: &[u32], rows: &Tensor) -> Result<Vec<f32>> {
        self.at(rows).total_variation(&self.base_beside(base, rows)?, against, rows)
    }

    fn draw(&self, logits: &Tensor, except: u32, uniform: &[f64]) -> Result<Vec<u32>> {
        self.at(logits).draw(logits, except, uniform)
    }

    fn upload(&self, data: &[f32], width: usize, beside: &Tensor) -> Result<Tensor> {
        self.at(beside).upload(data, width, beside)
    }
}
