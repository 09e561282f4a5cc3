//! How canvases share passes and threads: at most a budget of rows at a time, groups per thread where the model is
//! small, one product with the head for several canvases, and reading and selecting side by side.
//!
//! Invariant: none of it changes a number; only which numbers are computed together.

use demask_kernels::{least_run, on_this_thread, threads};
use demask_model::{Backbone, Pass, Query, Rows};
use rayon::prelude::*;

use crate::ahead::Guess;
use crate::clock::{StepCost, Stopwatch, shared};
use crate::error::Result;
use crate::job::Job;
use crate::plan::Plan;

/// Rows of the backbone computed at once; bounds the memory of activations.
pub const ROW_BUDGET: usize = 8192;
/// Logits that may be kept to be made by one product for several canvases.
const READY_LOGITS: usize = 1 << 22;

/// How many of the first things fit their budgets, by what each takes of every budget; at least one.
pub fn fitting<const N: usize>(sizes: impl IntoIterator<Item = [usize; N]>, budgets: [usize; N]) -> usize {
    let mut sums = [0_usize; N];
    let fits = sizes.into_iter().take_while(|sizes| {
        sums.iter_mut().zip(sizes).for_each(|(sum, size)| *sum += size);
        sums.iter().zip(budgets).all(|(sum, budget)| *sum <= budget)
    });
    fits.count().max(1)
}

/// How many of the first canvases are measured together, by the tokens that go through the backbone for each and its
/// masked positions, whose logits with everything masked are kept meanwhile.
pub fn measured_together(
    sizes: impl IntoIterator<Item = (usize, usize)>,
    token_budget: usize,
    vocab: usize,
) -> usize {
    /// Full batches that are gathered for, so that the last, smaller one weighs little.
    const BATCHES: usize = 4;
    /// Logits that are kept at once.
    const LOGITS: usize = 1 << 26;
    let sizes = sizes.into_iter().map(|(tokens, positions)| [tokens, positions * vocab]);
    fitting(sizes, [BATCHES * token_budget, LOGITS])
}

/// Works on the canvases in order, as many at a time as fit the budget of rows.
pub(crate) fn within_budget(
    jobs: &mut [&mut Job],
    budget: usize,
    mut work: impl FnMut(&mut [&mut Job]) -> Result<()>,
) -> Result<()> {
    let mut rest = jobs;
    while !rest.is_empty() {
        let count =
            fitting(rest.iter().map(|j| [j.canvas().tokens().len() * (1 + j.options().speculate)]), [budget]);
        let (some, later) = rest.split_at_mut(count);
        work(some)?;
        rest = later;
    }
    Ok(())
}

/// Works in groups of about `rows` rows, a thread each, told how many run at the same time: what a group computes stays
/// in its thread's cache.
pub(crate) fn in_groups(
    jobs: &mut [&mut Job],
    rows: usize,
    work: impl Fn(&mut [&mut Job], usize) -> Result<()> + Sync,
) -> Result<()> {
    let groups = groups(jobs, rows, threads());
    let beside = groups.len().min(threads());
    let groups = groups.into_par_iter().with_max_len(1);
    let work = groups.map(|group| on_this_thread(|| work(group, beside)));
    // Every group is worked on, whatever becomes of the others.
    work.collect::<Vec<Result<()>>>().into_iter().collect()
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

/// What the backbone gave for a batch.
pub(crate) struct Passes {
    each: Vec<(Pass, Option<Pass>, StepCost)>,
    /// Logits of everything that is predicted, where one product made them for all canvases.
    logits: Option<Vec<f32>>,
    vocab: usize,
}

/// What the backbone gave for one canvas.
pub(crate) struct Output<'a> {
    pub(crate) pass: Pass,
    /// The unconditional pass, where guidance asks for it.
    pub(crate) guide: Option<Pass>,
    /// Logits of what the canvas predicts, where they are made already.
    pub(crate) logits: Option<&'a mut [f32]>,
    pub(crate) cost: StepCost,
}

/// What one canvas brings to a pass.
struct Own {
    /// Its pass, where speculation has run it already.
    known: Option<Pass>,
    /// Canvases to be run beside it.
    guesses: Vec<Guess>,
}

impl Own {
    fn of(job: &mut Job, plan: &Plan) -> Self {
        let known = job.ahead.take(&job.canvas, plan);
        let guesses = if known.is_none() { job.ahead.guesses() } else { Vec::new() };
        Self { known, guesses }
    }

    /// Rows that are computed for it.
    fn rows(&self, plan: &Plan) -> usize {
        let asked = if self.known.is_none() { plan.rows.len() } else { 0 };
        asked + self.guesses.iter().map(Guess::rows).sum::<usize>()
    }
}

/// One forward pass over all canvases, and their logits where one product makes them for all; `beside` such groups are
/// computed at the same time.
pub(crate) fn forward(
    backbone: &dyn Backbone,
    jobs: &mut [&mut Job],
    plans: &[Plan],
    beside: usize,
) -> Result<Passes> {
    let watch = Stopwatch::start();
    let resident = backbone.device().is_some();
    let own: Vec<Own> = jobs.iter_mut().zip(plans).map(|(job, plan)| Own::of(job, plan)).collect();
    let queries = jobs.iter_mut().zip(plans).zip(&own).flat_map(|((job, plan), own)| {
        let asked = own.known.is_none().then(|| plan.queries(job, resident));
        asked.into_iter().flatten().chain(own.guesses.iter().map(move |guess| guess.query(resident)))
    });
    let mut batch: Vec<Query<'_>> = queries.collect();
    let mut passes = backbone.forward(&mut batch)?.into_iter();
    drop(batch);
    let rows: Vec<usize> = own.iter().zip(plans).map(|(own, plan)| own.rows(plan)).collect();
    let forward = shared(watch, beside, rows.iter().sum());
    let mut each = Vec::with_capacity(plans.len());
    let mut run = Vec::with_capacity(plans.len());
    for ((job, plan), own) in jobs.iter_mut().zip(plans).zip(own) {
        let asked = own.known.is_none();
        let pass = own.known.or_else(|| passes.next()).unwrap_or_default();
        let guide = plan.unconditional.as_ref().filter(|_| asked).and_then(|_| passes.next());
        run.push(usize::from(asked) + usize::from(guide.is_some()) + own.guesses.len());
        if !own.guesses.is_empty() {
            job.ahead.keep(own.guesses.into_iter().zip(passes.by_ref()).collect());
        }
        each.push((pass, guide));
    }
    let watch = Stopwatch::start();
    let predicting = each.iter().map(|(pass, _)| &pass.predicting);
    let logits = if resident { None } else { logits_of_all(backbone, predicting)? };
    let common = shared(watch, beside, plans.iter().map(|p| p.predict.len()).sum());
    let beside = beside.max(plans.len().min(threads())) as f64;
    let each =
        each.into_iter().zip(plans).zip(rows.into_iter().zip(run)).map(|(((pass, guide), plan), cost)| {
            let (rows, run) = cost;
            let cost = StepCost::new(forward(rows), common(plan.predict.len()), run, beside);
            (pass, guide, cost)
        });
    Ok(Passes { each: each.collect(), logits, vocab: backbone.spec().vocab })
}

/// The logits of several canvases by one product with the head, where all of them are small; `None` where each canvas
/// had better stream its own.
fn logits_of_all<'r>(
    backbone: &dyn Backbone,
    each: impl ExactSizeIterator<Item = &'r Rows> + Clone,
) -> Result<Option<Vec<f32>>> {
    let (vocab, count) = (backbone.spec().vocab, each.clone().map(Rows::len).sum::<usize>());
    if each.len() < 2 || count * vocab > READY_LOGITS {
        return Ok(None);
    }
    let mut rows = Rows { data: Vec::new(), width: backbone.spec().hidden };
    each.for_each(|own| rows.data.extend_from_slice(&own.data));
    let mut logits = Vec::with_capacity(count * vocab);
    backbone.logits(&rows, &mut |_, chunk| logits.extend_from_slice(chunk))?;
    Ok(Some(logits))
}

impl Passes {
    /// Each canvas's own part, in order.
    pub(crate) fn outputs(&mut self) -> Vec<Output<'_>> {
        let (vocab, mut rest) = (self.vocab, self.logits.as_deref_mut());
        let own = self.each.drain(..).map(|(pass, guide, cost)| {
            let logits = rest.take().map(|logits| {
                let (own, later) = logits.split_at_mut(pass.predicting.len() * vocab);
                rest = Some(later);
                own
            });
            Output { pass, guide, logits, cost }
        });
        own.collect()
    }
}

/// Works on every canvas with what it got. Small canvases leave cores idle within their own products, so they are read
/// and selected side by side.
pub(crate) fn each<T: Send, R: Send>(
    jobs: &mut [&mut Job],
    plans: &[Plan],
    inputs: Vec<T>,
    work: impl Fn(&mut Job, &Plan, T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let own: Vec<_> = jobs.iter_mut().zip(plans).zip(inputs).collect();
    let done: Vec<Result<R>> = own
        .into_par_iter()
        .with_min_len(least_run())
        .map(|((job, plan), input)| work(job, plan, input))
        .collect();
    done.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_takes_what_fits_and_at_least_one() {
        let sizes = [[3], [4], [5]];
        assert_eq!((fitting(sizes, [7]), fitting(sizes, [6]), fitting([[9]], [7])), (2, 1, 1));
        assert_eq!(fitting([[1, 5], [1, 5], [1, 5]], [9, 10]), 2, "the second budget binds");
    }
}
