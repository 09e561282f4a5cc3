//! Algorithm 1 of the paper, for a batch of canvases that advance together: forward pass, marginals, selection,
//! parallel sampling and commit, until no mask is left. What a canvas asks is in `plan`, how canvases
//! share passes and threads in `batch`, who bears which time in `clock`.
//!
//! Invariant: a canvas's tokens do not depend on which others are in the batch.

use demask_kernels::threads;
use demask_model::{Backbone, Rows};

use crate::ahead;
use crate::assistant::{self, Ask};
use crate::batch::{self, Output};
use crate::canvas::Canvas;
use crate::clock::Stopwatch;
use crate::error::Result;
use crate::job::{Decided, Job};
use crate::marginals::{LogitRows, Marginal, Predicting, Reader};
use crate::plan::Plan;
use crate::probe::{BackboneProbe, Probe};
use crate::rng::Rng;
use crate::sampler::{self, Sampling};
use crate::strategy::{Keep, Selection, Step, Stop};

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
        batch::within_budget(jobs, batch::ROW_BUDGET * self.backbone.replicas(), |jobs| {
            match self.backbone.rows_per_thread() {
                Some(rows) if jobs.len() > 1 && jobs.len() >= threads() => {
                    batch::in_groups(jobs, rows, |group, beside| self.iterate(group, beside))
                }
                _ => self.iterate(jobs, 1),
            }
        })
    }

    /// One iteration of Algorithm 1, while `beside` such groups are computed at the same time.
    fn iterate(&self, jobs: &mut [&mut Job], beside: usize) -> Result<()> {
        let plans: Vec<Plan> = jobs.iter().map(|job| Plan::of(job, self.backbone.spec())).collect();
        let mut passes = batch::forward(self.backbone, jobs, &plans, beside)?;
        let mut known = batch::each(jobs, &plans, passes.outputs(), |job, plan, output| {
            self.marginals(job, plan, output)
        })?;
        self.consult(jobs, &plans, &mut known)?;
        batch::each(jobs, &plans, known, |job, plan, mut known| {
            let selection = self.select(job, plan, &mut known)?;
            let picks = sampler::sample(plan.masked(), known.masked(plan), &selection);
            let edits =
                job.options.editing.map(|e| e.edits(&job.canvas, plan.editable(), known.decided(plan)));
            let edits = edits.unwrap_or_default();
            let next = ahead::likely(job, plan, known.masked(plan), &picks);
            let taken = picks.len();
            job.commit(Decided { plan, picks, edits, selection, cost: known.output.cost })?;
            ahead::guess(job, self.backbone.spec(), &next, taken);
            Ok(())
        })?;
        Ok(())
    }

    /// What the model says at every masked position, `p_top1` and its relatives, and then at those that may be edited. The
    /// strategy sees the logits of what it asked for go by.
    fn marginals<'o>(&self, job: &mut Job, plan: &Plan, mut output: Output<'o>) -> Result<Known<'o>> {
        let watch = Stopwatch::start();
        let guidance = job.options.guidance;
        let (step, strategy) = (job.totals.steps, &mut job.strategy);
        let needs = strategy.needs();
        let reader = Reader {
            sampling: &job.options.sampling,
            dtype: needs.dtype,
            suppression: &job.options.suppression,
            rng: job.rng,
            step,
            guide: output.guide.as_ref().map(|pass| (Predicting::of(self.backbone, pass), guidance)),
        };
        let logits = output.logits.take();
        let predicting = Predicting::of(self.backbone, &output.pass);
        let vocab = self.backbone.spec().vocab;
        let wanted = if needs.keep == Keep::All { plan.masked().len() * vocab } else { 0 };
        let mut kept: Vec<f32> = Vec::with_capacity(wanted);
        let reduced = match wanted > 0 || strategy.reads_logits() {
            true => None,
            false => reader.reduce(predicting, &plan.predict)?,
        };
        let mut marginals = match reduced {
            Some(marginals) => marginals,
            None => reader.read(self.backbone, predicting, logits, &plan.predict, |rows| {
                let LogitRows { positions, logits } = rows;
                let seen = LogitRows { positions, logits: &mut *logits };
                if let Some(rows) = seen.among(&plan.predict[..plan.seen]) {
                    strategy.on_logits(step, rows);
                }
                // Masks come first, so what is wanted is the beginning of what streams by.
                let left = wanted - kept.len();
                kept.extend_from_slice(&logits[..left.min(logits.len())]);
            })?,
        };
        marginals.drain(plan.masked().len()..plan.seen);
        let resident = output.pass.resident.as_ref().and_then(|resident| resident.shadow.as_ref());
        let shadow = match (self.backbone.device(), resident) {
            (Some(device), Some(rows)) => Some(Predicting::Resident(device, rows)),
            _ => output.pass.shadow.as_ref().map(Predicting::Host),
        };
        if let Some(shadow) = shadow {
            let (plain, canvas) = (Reader { guide: None, ..reader }, &job.canvas);
            plain.read(self.backbone, shadow, None, &plan.verify, |rows| strategy.on_verify(canvas, rows))?;
        }
        let cache = job.cache.as_mut().filter(|_| plan.cached);
        let attention = output.pass.attention.take().map(|map| match cache {
            Some(cache) => cache.complete(&plan.rows, map),
            None => map,
        });
        // Who does not know of devices gets the rows on the host.
        let hidden = output.pass.resident.as_ref().and_then(|resident| resident.hidden.as_ref());
        let hidden = self.backbone.device().zip(hidden).filter(|_| !job.strategy.takes_resident());
        if let Some((device, rows)) = hidden {
            output.pass.hidden = Some(Rows { data: device.fetch(rows)?, width: self.backbone.spec().hidden });
        }
        output.cost.marginals(watch);
        let rows = (wanted > 0).then_some(Rows { data: kept, width: vocab });
        Ok(Known { output, marginals, rows, attention })
    }

    /// Has the assistant answer what strategies draft, all canvases together, until nobody drafts any more.
    fn consult(&self, jobs: &mut [&mut Job], plans: &[Plan], known: &mut [Known<'_>]) -> Result<()> {
        if jobs.iter().all(|job| job.assistant.is_none()) {
            return Ok(());
        }
        loop {
            let (mut asks, mut strategies) = (Vec::new(), Vec::new());
            for ((job, plan), known) in jobs.iter_mut().zip(plans).zip(known.iter_mut()) {
                let probe = BackboneProbe::new(self.backbone, batch::ROW_BUDGET).in_blocks(plan.grid);
                let Job { strategy, assistant: Some(assisted), canvas, options, rng, totals, .. } =
                    &mut **job
                else {
                    continue;
                };
                if plan.masked().is_empty() || plan.alone {
                    continue;
                }
                let watch = Stopwatch::start();
                let draft = strategy.draft(&known.step(
                    plan,
                    canvas,
                    &options.sampling,
                    *rng,
                    totals.steps,
                    &probe,
                ))?;
                known.output.cost.select(watch, probe.asked());
                if let Some(draft) = draft {
                    asks.push(Ask { assisted, draft, cost: &mut known.output.cost });
                    strategies.push(strategy);
                }
            }
            if asks.is_empty() {
                return Ok(());
            }
            let answers = assistant::answer(&mut asks)?;
            strategies.into_iter().zip(answers).for_each(|(strategy, rows)| strategy.on_answer(rows));
        }
    }

    /// Which positions this step unmasks: the strategy's decision.
    fn select(&self, job: &mut Job, plan: &Plan, known: &mut Known<'_>) -> Result<Selection> {
        if plan.masked().is_empty() {
            return Ok(Selection::default());
        }
        if plan.alone {
            return Ok(Selection { chosen: vec![0], stop: Some(Stop::AllTaken), ..Selection::default() });
        }
        let watch = Stopwatch::start();
        let probe = BackboneProbe::new(self.backbone, batch::ROW_BUDGET).in_blocks(plan.grid);
        let Job { strategy, canvas, options, rng, totals, .. } = job;
        let step = known.step(plan, canvas, &options.sampling, *rng, totals.steps, &probe);
        let selection = strategy.select(&step)?;
        known.output.cost.select(watch, probe.asked());
        known.output.cost.inner(selection.inner_seconds);
        Ok(selection)
    }
}

/// What is known of one canvas once its logits are read.
struct Known<'a> {
    output: Output<'a>,
    /// Of the masks, then of what may be edited.
    marginals: Vec<Marginal>,
    /// Logits of the masks, where kept.
    rows: Option<Rows>,
    attention: Option<Rows>,
}

impl Known<'_> {
    fn masked(&self, plan: &Plan) -> &[Marginal] {
        &self.marginals[..plan.masked().len()]
    }

    fn decided(&self, plan: &Plan) -> &[Marginal] {
        &self.marginals[plan.masked().len()..]
    }

    fn step<'s>(
        &'s self,
        plan: &'s Plan,
        canvas: &'s Canvas,
        sampling: &'s Sampling,
        rng: Rng,
        index: usize,
        probe: &'s dyn Probe,
    ) -> Step<'s> {
        let resident = self.output.pass.resident.as_ref().and_then(|resident| resident.hidden.as_ref());
        Step {
            index,
            block: plan.place,
            canvas,
            masked: plan.masked(),
            marginals: self.masked(plan),
            rows: self.rows.as_ref(),
            sampling,
            hidden: self.output.pass.hidden.as_ref(),
            resident: probe.device().zip(resident),
            attention: self.attention.as_ref(),
            rng,
            probe,
        }
    }
}
