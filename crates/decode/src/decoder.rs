//! Algorithm 1 of the paper, for a batch of canvases that advance together: forward pass, selection
//! of positions, parallel sampling, until no mask is left.
//!
//! Invariant: a canvas's tokens do not depend on which others are in the batch.

use std::time::Instant;

use demask_model::{Backbone, Pass, Query};

use crate::error::Result;
use crate::job::{Decided, Job};
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
        let places: Vec<_> = jobs.iter_mut().map(|j| j.enter()).collect();
        let predicted: Vec<Vec<usize>> =
            jobs.iter().zip(&places).map(|(job, (block, masked))| job.predicted(block, masked)).collect();
        let unconditional: Vec<Option<Vec<u32>>> = jobs.iter().map(|j| j.unconditional()).collect();
        let start = Instant::now();
        let mut batch: Vec<Query<'_>> = jobs
            .iter()
            .zip(&places)
            .zip(&predicted)
            .map(|((job, (_, masked)), predict)| {
                let needs = job.needs();
                Query {
                    tokens: job.canvas.tokens(),
                    predict,
                    hidden: needs.hidden.map(|row| (masked.as_slice(), row)),
                    attention_layers: needs.attention_layers,
                    cache: None,
                }
            })
            .collect();
        for (tokens, predict) in unconditional.iter().zip(&predicted) {
            batch.extend(tokens.iter().map(|tokens| Query { tokens, predict, ..Query::default() }));
        }
        let passes = self.backbone.forward(&mut batch)?;
        let (passes, guides) = passes.split_at(jobs.len());
        let mut guides = guides.iter();
        let share = start.elapsed().as_secs_f64() / jobs.len() as f64;
        for (((job, (block, masked)), pass), guided) in
            jobs.iter_mut().zip(places).zip(passes).zip(&unconditional)
        {
            let guide = guided.as_ref().and_then(|_| guides.next());
            self.advance(job, block, &masked, pass, guide, share)?;
        }
        Ok(())
    }

    /// Phases 2 and 3 for one canvas.
    fn advance(
        &self,
        job: &mut Job,
        block: std::ops::Range<usize>,
        masked: &[usize],
        pass: &Pass,
        guide: Option<&Pass>,
        forward: f64,
    ) -> Result<()> {
        let start = Instant::now();
        let step = job.totals.steps;
        let reader = Reader {
            sampling: &job.options.sampling,
            dtype: job.strategy.needs().dtype,
            suppression: &job.options.suppression,
            rng: job.rng,
            step,
            guide: guide.map(|pass| (&pass.predicting, job.options.guidance)),
        };
        let predicted = job.predicted(&block, masked);
        let strategy = &mut job.strategy;
        let mut marginals = reader
            .read(self.backbone, &pass.predicting, &predicted, |rows| strategy.on_logits(step, rows))?;
        marginals.truncate(masked.len());
        let read = start.elapsed().as_secs_f64();
        let probe = BackboneProbe::new(self.backbone, ROW_BUDGET);
        let selection = strategy.select(&Step {
            index: step,
            block: job.place,
            canvas: &job.canvas,
            masked,
            marginals: &marginals,
            hidden: pass.hidden.as_ref(),
            attention: pass.attention.as_ref(),
            rng: job.rng,
            probe: &probe,
        })?;
        let seconds = Seconds { forward, marginals: read, select: start.elapsed().as_secs_f64() - read };
        let forwards = 1 + usize::from(guide.is_some()) + probe.asked();
        job.commit(Decided { block, masked, marginals: &marginals, selection, pass, forwards, seconds })
    }
}
