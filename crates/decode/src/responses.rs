//! Whole decodings for those who want their tokens or their cost and watch no step: held-out problems during
//! pre-training, weights of another precision beside the exact ones, benchmarks.

use std::ops::{ControlFlow, Range};
use std::sync::{Arc, Mutex, PoisonError};

use demask_model::Backbone;

use crate::canvas::Canvas;
use crate::decoder::Decoder;
use crate::error::Result;
use crate::job::{Job, Options, Totals};
use crate::observer::Observer;
use crate::registry::{Context, StrategySpec};
use crate::trace::{Seconds, StepRecord};

/// A response and what it cost.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    /// Its tokens.
    pub tokens: Vec<u32>,
    /// Steps, passes and seconds.
    pub totals: Totals,
}

/// The responses to prompts of token ids, with the length each is to have, decoded in one batch. Prompt `i` is stream `i`
/// of the options' seed.
pub fn responses(
    backbone: &dyn Backbone,
    prompts: &[(&[u32], usize)],
    strategy: &StrategySpec,
    context: &Context,
    options: &Options,
) -> Result<Vec<Decoded>> {
    let mut jobs = jobs(backbone, prompts, strategy, context, options)?;
    Decoder::new(backbone).run(&mut jobs)?;
    let decoded = |job: &Job| Decoded {
        tokens: job.canvas().tokens()[job.canvas().asked_response()].to_vec(),
        totals: job.totals(),
    };
    Ok(jobs.iter().map(decoded).collect())
}

/// The first step of [`responses`] alone, to be timed.
pub fn first_step(
    backbone: &dyn Backbone,
    prompts: &[(&[u32], usize)],
    strategy: &StrategySpec,
    context: &Context,
    options: &Options,
) -> Result<()> {
    let mut jobs = jobs(backbone, prompts, strategy, context, options)?;
    Decoder::new(backbone).step(&mut jobs.iter_mut().collect::<Vec<_>>())
}

fn jobs(
    backbone: &dyn Backbone,
    prompts: &[(&[u32], usize)],
    strategy: &StrategySpec,
    context: &Context,
    options: &Options,
) -> Result<Vec<Job>> {
    let ids = &backbone.spec().ids;
    let jobs = (0..).zip(prompts).map(|(stream, (prompt, length))| {
        let canvas = Canvas::generate(prompt, *length, ids)?;
        Job::new(canvas, strategy, context, Options { stream, ..options.clone() }, Box::new(()))
    });
    jobs.collect()
}

/// What a decoding cost up to a position.
#[derive(Debug, Clone, Default)]
pub struct Cost {
    /// Steps.
    pub steps: usize,
    /// Rows of the canvas that were computed.
    pub rows: usize,
    /// Tokens written, less those masked again.
    pub committed: usize,
    /// The tokens of the positions that were timed.
    pub tokens: Vec<u32>,
    /// Seconds by phase.
    pub seconds: Seconds,
}

/// Decodes a canvas until the first `positions` of its response are decided, and says what that cost.
pub fn cost_of_first(
    backbone: &dyn Backbone,
    canvas: Canvas,
    positions: usize,
    strategy: &StrategySpec,
    context: &Context,
    options: Options,
) -> Result<Cost> {
    let response = canvas.response();
    let timed = response.start..(response.start + positions).min(response.end);
    let meter = Arc::new(Mutex::new(Meter { timed, cost: Cost::default() }));
    let mut jobs = [Job::new(canvas, strategy, context, options, Box::new(meter.clone()))?];
    Decoder::new(backbone).run(&mut jobs)?;
    drop(jobs);
    Ok(std::mem::take(&mut meter.lock().unwrap_or_else(PoisonError::into_inner).cost))
}

/// Ends the decoding with the last position that is timed, and counts.
struct Meter {
    timed: Range<usize>,
    cost: Cost,
}

impl Observer for Meter {
    fn on_step(&mut self, record: &StepRecord, canvas: &Canvas) -> ControlFlow<()> {
        let cost = &mut self.cost;
        cost.steps += 1;
        cost.rows += record.computed_rows;
        cost.seconds += record.seconds;
        cost.committed += record.commits.len();
        cost.committed -= record.remasked.len();
        if canvas.masked(self.timed.clone()).is_empty() {
            cost.tokens = canvas.tokens()[self.timed.clone()].to_vec();
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use demask_model::Tabular;

    use super::*;

    /// Four binary positions that are all equal.
    fn equal() -> Tabular {
        let mut joint = vec![0.0; 16];
        (joint[0], joint[15]) = (0.25, 0.75);
        Tabular::new(4, 2, joint).unwrap()
    }

    #[test]
    fn responses_are_those_of_jobs_of_ones_own() {
        let (backbone, strategy) = (equal(), "entropy".parse().unwrap());
        let (context, options) = (Context::default(), Options::default());
        let found = responses(&backbone, &[(&[], 4), (&[0], 3)], &strategy, &context, &options).unwrap();
        assert_eq!((found[0].tokens.as_slice(), found[0].totals.steps), (&[1; 4][..], 4));
        assert_eq!((found[1].tokens.as_slice(), found[1].totals.committed), (&[0; 3][..], 3));
    }

    #[test]
    fn the_cost_ends_with_the_positions_that_were_asked_for() {
        let (backbone, strategy) = (equal(), "entropy".parse().unwrap());
        let canvas = || Canvas::generate(&[], 4, &backbone.spec().ids).unwrap();
        let options = || Options { block_length: Some(2), ..Options::default() };
        let cost =
            |n| cost_of_first(&backbone, canvas(), n, &strategy, &Context::default(), options()).unwrap();
        let (half, whole) = (cost(2), cost(9));
        assert_eq!((half.steps, half.committed, half.tokens), (2, 2, vec![1; 2]));
        assert_eq!((whole.steps, whole.committed, whole.tokens), (4, 4, vec![1; 4]));
        assert!(half.rows < whole.rows);
    }
}
