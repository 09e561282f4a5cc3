//! Algorithm 1 of the paper, for a batch of canvases that advance together: forward pass, selection
//! of positions, parallel sampling, until no mask is left.
//!
//! Invariant: a canvas's tokens do not depend on which others are in the batch.

use std::time::Instant;

use demask_model::{Backbone, Pass, Query};
use rayon::prelude::*;

use crate::error::Result;
use crate::job::{Ask, Decided, Job};
use crate::marginals::Reader;
use crate::probe::BackboneProbe;
use crate::strategy::Step;
use crate::trace::Seconds;

/// Rows of the backbone computed at once; bounds the memory of activations.
const ROW_BUDGET: usize = 8192;

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

    /// One iteration of Algorithm 1 for every canvas, one batched forward pass per row budget.
    pub fn step(&self, jobs: &mut [&mut Job]) -> Result<()> {
        let mut rest = jobs;
        while !rest.is_empty() {
            let mut rows = 0;
            let fits = rest.iter().take_while(|j| {
                rows += j.canvas().tokens().len();
                rows <= ROW_BUDGET
            });
            let count = fits.count().max(1);
            let (group, later) = rest.split_at_mut(count);
            self.step_group(group)?;
            rest = later;
        }
        Ok(())
    }

    fn step_group(&self, jobs: &mut [&mut Job]) -> Result<()> {
        let asks: Vec<Ask> = jobs.iter().map(|job| job.ask(self.backbone.spec())).collect();
        let start = Instant::now();
        let queries = jobs.iter_mut().zip(&asks).flat_map(|(job, ask)| job.queries(ask));
        let mut batch: Vec<Query<'_>> = queries.collect();
        let mut passes = self.backbone.forward(&mut batch)?.into_iter();
        let seconds = start.elapsed().as_secs_f64();
        let rows: usize = asks.iter().map(|ask| ask.rows.len()).sum();
        let side_by_side = jobs.len().min(rayon::current_num_threads()) as f64;
        let work = jobs.iter_mut().zip(&asks).map(|(job, ask)| {
            let share = Share { forward: seconds * ask.rows.len() as f64 / rows as f64, side_by_side };
            let pass = passes.next().unwrap_or_default();
            let guide = ask.unconditional.as_ref().and_then(|_| passes.next());
            (job, ask, pass, guide, share)
        });
        // Small canvases leave cores idle within their own products, so they are read and selected side by side.
        let work: Vec<_> = work.collect();
        let outcomes: Vec<Result<()>> = work
            .into_par_iter()
            .map(|(job, ask, pass, guide, share)| self.advance(job, ask, pass, guide, share))
            .collect();
        outcomes.into_iter().collect()
    }

    /// Phases 2 and 3 for one canvas.
    fn advance(&self, job: &mut Job, ask: &Ask, pass: Pass, guide: Option<Pass>, share: Share) -> Result<()> {
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
        let mut marginals = reader.read(self.backbone, &pass.predicting, &ask.predict, |rows| {
            strategy.on_logits(step, rows);
        })?;
        marginals.truncate(ask.masked.len());
        if let Some(shadow) = &pass.shadow {
            let (plain, canvas) = (Reader { guide: None, ..reader }, &job.canvas);
            plain.read(self.backbone, shadow, &ask.verify, |rows| strategy.on_verify(canvas, rows))?;
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
            marginals: read / share.side_by_side,
            select: select / share.side_by_side,
        };
        let forwards = 1 + usize::from(guide.is_some()) + probe.asked();
        job.commit(Decided { ask, marginals: &marginals, selection, forwards, seconds })
    }
}

/// What one canvas bears of a batch's time.
#[derive(Clone, Copy)]
struct Share {
    /// Seconds of the forward pass.
    forward: f64,
    /// Canvases that are read and selected at the same time.
    side_by_side: f64,
}
