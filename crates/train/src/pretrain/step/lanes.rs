//! Two gradients side by side: each takes its share of a batch's parts, so that threads meet once a batch instead of after every
//! product.
//!
//! Invariant: which part goes where and the order of every sum are a function of the batch, so the result does not depend
//! on the number of threads.

use rayon::prelude::*;

use super::{Fused, Gradient};
use crate::error::Result;
use crate::pretrain::batch::BatchPart;
use crate::pretrain::loss::Loss;

/// How many; more threads than lanes share the products within a part.
const LANES: usize = 2;
/// Tokens of a part: several to a lane, so that they fill evenly, and long enough for fast products.
const PART_TOKENS: usize = 1024;

struct Lane {
    fused: Fused,
    sum: Vec<f32>,
}

/// The written-out gradient, several times.
pub struct Lanes(Vec<Lane>);

impl Lanes {
    /// Lanes made by this function, for parameters of this number.
    pub fn new(make: impl Fn() -> Fused, parameters: usize) -> Self {
        Self((0..LANES).map(|_| Lane { fused: make(), sum: vec![0.0; parameters] }).collect())
    }
}

/// The lane of each part: the longest parts first, each to the lane that has least to do, the first of equals.
fn shares(parts: &[BatchPart]) -> Vec<usize> {
    let length = |part: usize| parts[part].packed.tokens.len();
    let mut order: Vec<usize> = (0..parts.len()).collect();
    order.sort_by_key(|&part| (std::cmp::Reverse(length(part)), part));
    let (mut lanes, mut work) = (vec![0; parts.len()], [0; LANES]);
    for part in order {
        let least = (0..LANES).min_by_key(|&lane| work[lane]).unwrap_or(0);
        work[least] += length(part);
        lanes[part] = least;
    }
    lanes
}

impl Gradient for Lanes {
    fn add(&mut self, parameters: &[f32], part: &BatchPart, gradient: &mut [f32]) -> Result<Loss> {
        self.0[0].fused.add(parameters, part, gradient)
    }

    fn add_all(&mut self, parameters: &[f32], parts: &[BatchPart], gradient: &mut [f32]) -> Result<Loss> {
        let shares = shares(parts);
        let work = self.0.par_iter_mut().with_max_len(1).enumerate().map(|(lane, Lane { fused, sum })| {
            sum.fill(0.0);
            let mut loss = Loss::default();
            for (part, _) in parts.iter().zip(&shares).filter(|(_, share)| **share == lane) {
                loss += fused.add(parameters, part, sum)?;
            }
            Ok(loss)
        });
        let losses: Vec<Loss> = work.collect::<Result<_>>()?;
        for lane in &self.0 {
            super::rows::add(gradient, &lane.sum);
        }
        let mut all = Loss::default();
        losses.into_iter().for_each(|loss| all += loss);
        Ok(all)
    }

    fn part_tokens(&self) -> usize {
        PART_TOKENS
    }
}

#[cfg(test)]
mod tests {
    use demask_model::Packed;

    use super::*;

    #[test]
    fn parts_are_shared_evenly_and_always_alike() {
        let part = |length: usize| BatchPart {
            packed: Packed::new([&*vec![0_u32; length]], false),
            rows: Vec::new(),
            targets: Vec::new(),
            weights: Vec::new(),
            certainty: None,
        };
        let parts: Vec<BatchPart> = [10, 40, 20, 30, 20].map(part).into();
        assert_eq!(shares(&parts), [1, 0, 1, 1, 0]);
        assert!(shares(&[]).is_empty());
    }
}
