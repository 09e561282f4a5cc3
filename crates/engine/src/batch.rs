//! Canvases that advance together up to a budget of tokens: one that is done makes room for the next.
//!
//! Invariant: at least one canvas is always decoded, and a canvas's tokens do not depend on its neighbours.

use std::time::Instant;

use demask_decode::{Decoder, Job};
use demask_model::Backbone;

/// A canvas with whatever belongs to it.
pub struct Member<T> {
    /// Whose canvas it is.
    pub owner: T,
    /// The canvas on its way.
    pub job: Job,
    /// Its share of the wall-clock seconds.
    pub seconds: f64,
}

/// A continuous batch.
pub struct Batch<'a, T> {
    decoder: Decoder<'a>,
    token_budget: usize,
    active: Vec<Member<T>>,
    next: Option<Member<T>>,
}

impl<'a, T> Batch<'a, T> {
    /// An empty batch of at most this many tokens (but at least one canvas).
    pub fn new(backbone: &'a dyn Backbone, token_budget: usize) -> Self {
        Self { decoder: Decoder::new(backbone), token_budget, active: Vec::new(), next: None }
    }

    /// Takes in what fits of `waiting`, does one step and returns the canvases that are done; `None` when nothing is
    /// left.
    pub fn advance<E: From<demask_decode::Error>>(
        &mut self,
        waiting: &mut impl Iterator<Item = Result<(T, Job), E>>,
    ) -> Result<Option<Vec<Member<T>>>, E> {
        self.fill(waiting)?;
        if self.active.is_empty() {
            return Ok(None);
        }
        let start = Instant::now();
        self.decoder.step(&mut self.active.iter_mut().map(|m| &mut m.job).collect::<Vec<_>>())?;
        let share = start.elapsed().as_secs_f64() / self.active.len() as f64;
        self.active.iter_mut().for_each(|m| m.seconds += share);
        let (done, rest) = std::mem::take(&mut self.active).into_iter().partition(|m| m.job.is_done());
        self.active = rest;
        Ok(Some(done))
    }

    fn fill<E>(&mut self, waiting: &mut impl Iterator<Item = Result<(T, Job), E>>) -> Result<(), E> {
        let mut tokens: usize = self.active.iter().map(|m| length(&m.job)).sum();
        loop {
            let member = |(owner, job)| Member { owner, job, seconds: 0.0 };
            let next = match self.next.take() {
                Some(next) => Some(next),
                None => waiting.next().transpose()?.map(member),
            };
            match next {
                Some(next) if self.active.is_empty() || tokens + length(&next.job) <= self.token_budget => {
                    tokens += length(&next.job);
                    self.active.push(next);
                }
                later => {
                    self.next = later;
                    return Ok(());
                }
            }
        }
    }
}

fn length(job: &Job) -> usize {
    job.canvas().tokens().len()
}
