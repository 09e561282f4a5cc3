//! Self-speculation: in the pass of a canvas, canvases it may soon be are run beside it, and a step whose canvas was among
//! them needs no pass of its own. What comes next is guessed from the marginals of the last step: as many positions as it
//! took, those the strategy would rank next, each with its most probable token; then as many again.
//!
//! Invariant: a pass is used only for the very question it was run for, so the text is that of decoding without
//! speculation, token for token, whatever the strategy, the temperature or the guess.

use demask_model::{Pass, Query, Spec};

use crate::canvas::{Canvas, Pick};
use crate::job::Job;
use crate::marginals::Marginal;
use crate::plan::Plan;
use crate::rule::top_k;
use crate::sampler::Sampled;

/// A canvas that may come, and what its step would ask.
pub(crate) struct Guess {
    tokens: Vec<u32>,
    plan: Plan,
}

impl Guess {
    /// Rows it costs.
    pub(crate) fn rows(&self) -> usize {
        self.plan.rows.len()
    }

    /// Its question.
    pub(crate) fn query(&self, resident: bool) -> Query<'_> {
        self.plan.query(&self.tokens, None, resident)
    }
}

/// What a canvas knows of its own future.
#[derive(Default)]
pub(crate) struct Ahead {
    /// To be run beside the next pass.
    guesses: Vec<Guess>,
    /// Run beside the last one.
    known: Vec<(Guess, Pass)>,
}

impl Ahead {
    /// The pass of this canvas, if it was run already.
    pub(crate) fn take(&mut self, canvas: &Canvas, plan: &Plan) -> Option<Pass> {
        let same = |(guess, _): &(Guess, Pass)| guess.tokens == canvas.tokens() && guess.plan.asks_as(plan);
        let at = self.known.iter().position(same)?;
        Some(self.known.swap_remove(at).1)
    }

    /// What is to be run beside the next pass; what was known is of no use any more.
    pub(crate) fn guesses(&mut self) -> Vec<Guess> {
        self.known.clear();
        std::mem::take(&mut self.guesses)
    }

    /// Keeps what was run beside a pass.
    pub(crate) fn keep(&mut self, known: Vec<(Guess, Pass)>) {
        self.known = known;
    }
}

/// What a step has not taken, the likeliest first, each with its most probable token.
pub(crate) fn likely(job: &Job, plan: &Plan, marginals: &[Marginal], taken: &[Sampled]) -> Vec<Pick> {
    if job.options.speculate == 0 {
        return Vec::new();
    }
    let left = |&i: &usize| taken.iter().all(|taken| taken.pick.position != plan.masked()[i]);
    let scores: Vec<f32> = marginals.iter().map(|marginal| job.strategy.likeliness(marginal)).collect();
    let order = top_k(&scores, scores.len()).into_iter().filter(left);
    let pick = |i: usize| Pick {
        position: plan.masked()[i],
        token: marginals[i].raw.argmax as u32,
        confidence: marginals[i].raw.top1,
    };
    order.map(pick).collect()
}

/// Guesses a canvas's next steps, `each` of the likely picks at a time. Called once the step before them is committed.
pub(crate) fn guess(job: &mut Job, spec: &Spec, likely: &[Pick], each: usize) {
    if job.options.speculate == 0 || job.is_done() {
        return;
    }
    let mut guesses = Vec::new();
    let real = job.canvas.clone();
    let Plan { block, grid, .. } = Plan::of(job, spec);
    let policy = job.options.eos.on(grid.is_some());
    for picks in likely.chunks(each.max(1)).take(job.options.speculate) {
        let masked = |pick: &&Pick| job.canvas.tokens()[pick.position] == job.canvas.ids().mask;
        let picks: Vec<Pick> = picks.iter().filter(masked).copied().collect();
        job.canvas.commit(job.totals.steps, &picks, &block, policy);
        if picks.is_empty() || job.canvas.is_done() {
            break;
        }
        guesses.push(Guess { tokens: job.canvas.tokens().to_vec(), plan: Plan::of(job, spec) });
    }
    job.canvas = real;
    job.ahead.guesses = guesses;
}
