//! Algorithm 1 of the paper, for a batch of canvases that advance together: forward pass, marginals, selection,
//! parallel sampling and commit, until no mask is left. What a canvas asks is in `plan`, how canvases
//! share passes and threads in `batch`, who bears which time in `clock`.
//!
//! Invariant: a canvas's tokens do not depend on which others are in the batch.

use demask_kernels::threads;
use demask_model::Backbone;

use crate::batch::{self, Output};
use crate::clock::Stopwatch;
use crate::error::Result;
use crate::job::{Decided, Job};
use crate::marginals::{Marginal, Reader};
use crate::plan::Plan;
use crate::probe::BackboneProbe;
use crate::sampler;
use crate::strategy::{Selection, Step, Stop};

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

    /// One iteration of Algorithm 1 for every canvas, at most a row budget at a time. A small model's operations are too
    /// short to be shared between threads, so its canvases are computed in groups, a thread each.
    pub fn step(&self, jobs: &mut [&mut Job]) -> Result<()> {
        batch::within_budget(jobs, |jobs| match self.backbone.rows_per_thread() {
            Some(rows) if jobs.len() > 1 && jobs.len() >= threads() => {
                batch::in_groups(jobs, rows, |group, beside| self.iterate(group, beside))
            }
            _ => self.iterate(jobs, 1),
        })
    }

    /// One iteration of Algorithm 1, while `beside` such groups are computed at the same time.
    fn iterate(&self, jobs: &mut [&mut Job], beside: usize) -> Result<()> {
        let plans: Vec<Plan> = jobs.iter().map(|job| Plan::of(job, self.backbone.spec())).collect();
        let mut passes = batch::forward(self.backbone, jobs, &plans, beside)?;
        batch::each(jobs, &plans, passes.outputs(), |job, plan, mut output| {
            let marginals = self.marginals(job, plan, &mut output)?;
            let (masked, decided) = marginals.split_at(plan.masked().len());
            let selection = self.select(job, plan, &mut output, masked)?;
            let picks = sampler::sample(plan.masked(), masked, &selection);
            let edits = job.options.editing.map(|e| e.edits(&job.canvas, plan.editable(), decided));
            job.commit(Decided {
                plan,
                picks,
                edits: edits.unwrap_or_default(),
                selection,
                cost: output.cost,
            })
        })
    }

    /// What the model says at every masked position, `p_top1` and its relatives, and then at those that may be edited. The
    /// strategy sees the logits of what it asked for go by.
    fn marginals(&self, job: &mut Job, plan: &Plan, output: &mut Output<'_>) -> Result<Vec<Marginal>> {
        let watch = Stopwatch::start();
        let guidance = job.options.guidance;
        let (step, strategy) = (job.totals.steps, &mut job.strategy);
        let reader = Reader {
            sampling: &job.options.sampling,
            dtype: strategy.needs().dtype,
            suppression: &job.options.suppression,
            rng: job.rng,
            step,
            guide: output.guide.as_ref().map(|pass| (&pass.predicting, guidance)),
        };
        let logits = output.logits.take();
        let predicting = &output.pass.predicting;
        let mut marginals = reader.read(self.backbone, predicting, logits, &plan.predict, |rows| {
            if let Some(rows) = rows.among(&plan.predict[..plan.seen]) {
                strategy.on_logits(step, rows);
            }
        })?;
        marginals.drain(plan.masked().len()..plan.seen);
        if let Some(shadow) = &output.pass.shadow {
            let (plain, canvas) = (Reader { guide: None, ..reader }, &job.canvas);
            plain.read(self.backbone, shadow, None, &plan.verify, |rows| strategy.on_verify(canvas, rows))?;
        }
        output.cost.marginals(watch);
        Ok(marginals)
    }

    /// Which positions this step unmasks: the strategy's decision.
    fn select(
        &self,
        job: &mut Job,
        plan: &Plan,
        output: &mut Output<'_>,
        marginals: &[Marginal],
    ) -> Result<Selection> {
        if plan.masked().is_empty() {
            return Ok(Selection::default());
        }
        if plan.alone {
            return Ok(Selection { chosen: vec![0], stop: Some(Stop::AllTaken), ..Selection::default() });
        }
        let watch = Stopwatch::start();
        let cache = job.cache.as_mut().filter(|_| plan.cached);
        let attention = output.pass.attention.take().map(|map| match cache {
            Some(cache) => cache.complete(&plan.rows, map),
            None => map,
        });
        let probe = BackboneProbe::new(self.backbone, batch::ROW_BUDGET).in_blocks(plan.grid);
        let selection = job.strategy.select(&Step {
            index: job.totals.steps,
            block: plan.place,
            canvas: &job.canvas,
            masked: plan.masked(),
            marginals,
            hidden: output.pass.hidden.as_ref(),
            attention: attention.as_ref(),
            rng: job.rng,
            probe: &probe,
        })?;
        output.cost.select(watch, probe.asked());
        Ok(selection)
    }
}
