//! Algorithm 1 of the paper, for a batch of canvases that advance together: forward pass, selection
//! of positions, parallel sampling, until no mask is left.
//!
//! Invariant: a canvas's tokens do not depend on which others are in the batch.

use std::time::Instant;

use demask_kernels::{least_run, on_this_thread, threads};
use demask_model::{Backbone, Pass, Query, Rows};
use rayon::prelude::*;

use crate::error::Result;
use crate::job::{Ask, Decided, Job};
use crate::marginals::{Logits, Reader};
use crate::probe::BackboneProbe;
use crate::strategy::Step;
use crate::trace::Seconds;

/// Rows of the backbone computed at once; bounds the memory of activations.
const ROW_BUDGET: usize = 8192;
/// Logits that may be kept to be made by one product for several canvases.
const READY_LOGITS: usize = 1 << 22;

/// Decodes canvases with one backbone.
pub struct Decoder<'a> {
    backbone: &'a dyn Backbone,
}

impl<'a> Decoder<'a> {
    /// A decoder on this backbone.
    pub fn new(backbone: &'a dyn Backbone) -> Self {
        Self { backbone }
    }

    /// Decodes every job to its end; canvases leave the batch when they are done.
    pub fn run(&self, jobs: &mut [Job]) -> Result<()> {
        loop {
            let mut active: Vec<&mut Job> = jobs.iter_mut().filter(|j| !j.is_done()).collect();
            if active.is_empty() {
                return Ok(());
            }
            self.step(&mut active)?;
        }
    }

    /// One iteration of Algorithm 1 for every canvas, at most a row budget at a time.
    pub fn step(&self, jobs: &mut [&mut Job]) -> Result<()> {
        let mut rest = jobs;
        while !rest.is_empty() {
            let mut rows = 0;
            let fits = rest.iter().take_while(|j| {
                rows += j.canvas().tokens().len();
                rows <= ROW_BUDGET
            });
            let count = fits.count().max(1);
            let (some, later) = rest.split_at_mut(count);
            match self.backbone.rows_per_thread() {
                Some(rows) if some.len() > 1 && some.len() >= threads() => self.side_by_side(some, rows)?,
                _ => self.step_group(some, 1)?,
            }
            rest = later;
        }
        Ok(())
    }

    /// One iteration in groups of about `rows` rows, a thread each: a small model's operations are too short to be
    /// shared between threads, and what a group computes stays in its thread's cache.
    fn side_by_side(&self, jobs: &mut [&mut Job], rows: usize) -> Result<()> {
        let groups = groups(jobs, rows, threads());
        let beside = groups.len().min(threads());
        let groups = groups.into_par_iter().with_max_len(1);
        let work = groups.map(|group| on_this_thread(|| self.step_group(group, beside)));
        // Every group is worked on, whatever becomes of the others.
        work.collect::<Vec<Result<()>>>().into_iter().collect()
    }

    /// One batched forward pass and what follows it, while `beside` such groups are computed at the same time.
    fn step_group(&self, jobs: &mut [&mut Job], beside: usize) -> Result<()> {
        let asks: Vec<Ask> = jobs.iter().map(|job| job.ask(self.backbone.spec())).collect();
        let start = Instant::now();
        let queries = jobs.iter_mut().zip(&asks).flat_map(|(job, ask)| job.queries(ask));
        let mut batch: Vec<Query<'_>> = queries.collect();
        let mut passes = self.backbone.forward(&mut batch)?.into_iter();
        let forward = start.elapsed().as_secs_f64() / beside as f64;
        let taken = jobs.iter_mut().zip(&asks).map(|(job, ask)| {
            let pass = passes.next().unwrap_or_default();
            let guide = ask.unconditional.as_ref().and_then(|_| passes.next());
            (job, ask, pass, guide)
        });
        let taken: Vec<_> = taken.collect();
        let start = Instant::now();
        let mut ready = self.logits_of_all(taken.iter().map(|(_, _, pass, _)| &pass.predicting))?;
        let logits = start.elapsed().as_secs_f64() / beside as f64;
        let (rows, predicted) = asks
            .iter()
            .fold((0, 0), |(rows, predicted), ask| (rows + ask.rows.len(), predicted + ask.predict.len()));
        let beside = beside.max(taken.len().min(threads())) as f64;
        let (vocab, mut rest) = (self.backbone.spec().vocab, ready.as_deref_mut());
        let work = taken.into_iter().map(|(job, ask, pass, guide)| {
            let share = Share {
                forward: forward * ask.rows.len() as f64 / rows as f64,
                logits: logits * ask.predict.len() as f64 / predicted.max(1) as f64,
                beside,
            };
            let own = rest.take().map(|logits| {
                let (own, later) = logits.split_at_mut(pass.predicting.len() * vocab);
                rest = Some(later);
                own
            });
            (job, ask, Outputs { pass, guide, ready: own }, share)
        });
        // Small canvases leave cores idle within their own products, so they are read and selected side by side.
        let work: Vec<_> = work.collect();
        let outcomes: Vec<Result<()>> = work
            .into_par_iter()
            .with_min_len(least_run())
            .map(|(job, ask, outputs, share)| self.advance(job, ask, outputs, share))
            .collect();
        outcomes.into_iter().collect()
    }

    /// The logits of several canvases by one product with the head, where all of them are small; `None` where each
    /// canvas had better stream its own.
    fn logits_of_all<'r>(
        &self,
        each: impl ExactSizeIterator<Item = &'r Rows> + Clone,
    ) -> Result<Option<Vec<f32>>> {
        let (vocab, count) = (self.backbone.spec().vocab, each.clone().map(Rows::len).sum::<usize>());
        if each.len() < 2 || count * vocab > READY_LOGITS {
            return Ok(None);
        }
        let mut rows = Rows { data: Vec::new(), width: self.backbone.spec().hidden };
        each.for_each(|own| rows.data.extend_from_slice(&own.data));
        let mut logits = Vec::with_capacity(count * vocab);
        self.backbone.logits(&rows, &mut |_, chunk| logits.extend_from_slice(chunk))?;
        Ok(Some(logits))
    }

    /// Phases 2 and 3 for one canvas.
    fn advance(&self, job: &mut Job, ask: &Ask, outputs: Outputs<'_>, share: Share) -> Result<()> {
        let Outputs { pass, guide, ready } = outputs;
        let start = Instant::now();
        let step = job.totals.steps;
        let reader = Reader {
            sampling: &job.options.sampling,
            dtype: job.strategy.needs().dtype,
            suppression: &job.options.suppression,
            rng: job.rng,
            step,
            guide: guide.as_ref().map(|pass| (&pass.predicting, job.options.guidance)),
        };
        let strategy = &mut job.strategy;
        let logits = ready.map_or(Logits::Rows(&pass.predicting), Logits::Ready);
        let mut marginals = reader.read(self.backbone, logits, &ask.predict, |rows| {
            strategy.on_logits(step, rows);
        })?;
        marginals.truncate(ask.masked.len());
        if let Some(shadow) = &pass.shadow {
            let (plain, canvas) = (Reader { guide: None, ..reader }, &job.canvas);
            plain.read(self.backbone, Logits::Rows(shadow), &ask.verify, |rows| {
                strategy.on_verify(canvas, rows)
            })?;
        }
        let attention = pass.attention.map(|map| match &mut job.cache {
            Some(cache) => cache.complete(&ask.rows, map),
            None => map,
        });
        let read = start.elapsed().as_secs_f64();
        let probe = BackboneProbe::new(self.backbone, ROW_BUDGET);
        let selection = strategy.select(&Step {
            index: step,
            block: ask.place,
            canvas: &job.canvas,
            masked: &ask.masked,
            marginals: &marginals,
            hidden: pass.hidden.as_ref(),
            attention: attention.as_ref(),
            rng: job.rng,
            probe: &probe,
        })?;
        let select = start.elapsed().as_secs_f64() - read;
        let seconds = Seconds {
            forward: share.forward,
            marginals: share.logits + read / share.beside,
            select: select / share.beside,
        };
        let forwards = 1 + usize::from(guide.is_some()) + probe.asked();
        job.commit(Decided { ask, marginals: &marginals, selection, forwards, seconds })
    }
}

/// What the backbone gave for one canvas.
struct Outputs<'a> {
    pass: Pass,
    /// The unconditional pass, where guidance asks for it.
    guide: Option<Pass>,
    /// Logits of what the canvas predicts, where they are made already.
    ready: Option<&'a mut [f32]>,
}

/// What one canvas bears of a batch's time.
#[derive(Clone, Copy)]
struct Share {
    /// Seconds of the forward pass.
    forward: f64,
    /// Seconds of logits that were made for all canvases together.
    logits: f64,
    /// Canvases that are read and selected at the same time.
    beside: f64,
}

/// Cuts jobs into groups of about `rows` rows and of about one size, as many as keep all threads busy to the end.
fn groups<'j, 'a>(jobs: &'j mut [&'a mut Job], rows: usize, threads: usize) -> Vec<&'j mut [&'a mut Job]> {
    let total: usize = jobs.iter().map(|job| job.canvas().tokens().len()).sum();
    let count = total.div_ceil(rows.max(1)).next_multiple_of(threads.max(1));
    let (mut groups, mut rest, mut before) = (Vec::with_capacity(count), jobs, 0);
    // A canvas belongs to the group in which its middle lies when all are laid end to end.
    let mut group_of = |job: &Job| {
        let length = job.canvas().tokens().len();
        before += length;
        (2 * before - length) * count / (2 * total).max(1)
    };
    let places: Vec<usize> = rest.iter().map(|job| group_of(job)).collect();
    for group in places.chunk_by(|a, b| a == b) {
        let (own, later) = rest.split_at_mut(group.len());
        groups.push(own);
        rest = later;
    }
    groups
}
