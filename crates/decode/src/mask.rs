//! Random masks of a response (sections 4.3 and 5.4): ratio `t ~ U(0,1)`, then that fraction of the
//! response's positions, chosen uniformly.
//!
//! At least two positions are masked, because one alone has no pair to measure. Invariant: a mask is a
//! function of (randomness, index, place of the response).

use std::ops::Range;

use crate::rng::{Purpose, Rng};

/// Slot of the draw that belongs to no position.
const RATIO: u64 = u64::MAX;

/// A mask of a response.
#[derive(Debug, Clone, PartialEq)]
pub struct RandomMask {
    /// The drawn ratio.
    pub ratio: f64,
    /// Masked positions of the canvas, ascending.
    pub positions: Vec<usize>,
}

impl RandomMask {
    /// Mask number `index` of a response that occupies `response` of its canvas.
    ///
    /// # Panics
    /// If the response has fewer than two tokens.
    pub fn draw(rng: Rng, index: u64, response: Range<usize>) -> Self {
        assert!(response.len() >= 2, "a response of {} tokens has no pair to measure", response.len());
        let ratio = rng.uniform(Purpose::Mask, index, RATIO);
        let count = ((ratio * response.len() as f64).round() as usize).clamp(2, response.len());
        let mut order: Vec<(u64, usize)> = response
            .enumerate()
            .map(|(place, at)| (rng.bits(Purpose::Mask, index, place as u64), at))
            .collect();
        order.sort_unstable();
        let mut positions: Vec<usize> = order[..count].iter().map(|(_, position)| *position).collect();
        positions.sort_unstable();
        Self { ratio, positions }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_and_positions_are_uniform() {
        let (mut count, mut hits) = (0.0, [0_u32; 20]);
        for id in 0..4000 {
            let mask = RandomMask::draw(Rng::new(7, id), 3, 10..30);
            assert!(mask.positions.windows(2).all(|w| w[0] < w[1]) && mask.positions.len() >= 2);
            count += mask.positions.len() as f64 / 4000.0;
            mask.positions.iter().for_each(|p| hits[p - 10] += 1);
        }
        assert!((count - 10.08).abs() < 0.35, "{count}");
        assert!(hits.iter().all(|&h| (f64::from(h) / 4000.0 - count / 20.0).abs() < 0.04), "{hits:?}");
    }

    #[test]
    fn a_mask_depends_on_randomness_and_index() {
        let draw = |name: &str, index| RandomMask::draw(Rng::named(1, name), index, 0..50);
        assert_eq!(draw("a", 0), draw("a", 0));
        assert!(draw("a", 0) != draw("b", 0) && draw("a", 0) != draw("a", 1));
        assert_eq!(RandomMask::draw(Rng::new(0, 0), 0, 5..7).positions, [5, 6]);
    }
}
