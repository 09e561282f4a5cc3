//! Total variation between two softmax distributions given by logits, the paper's dependency measure.

use crate::arch::{Op, Simd};
use crate::dispatch::Level;
use crate::math::exp;

/// `½ Σ |softmax(a) − softmax(b)|`, given each row's logsumexp.
///
/// # Panics
/// If the rows have different lengths.
pub fn total_variation(a: &[f32], lse_a: f32, b: &[f32], lse_b: f32) -> f32 {
    assert_eq!(a.len(), b.len(), "total_variation: rows must have the same length");
    Level::active().run(TotalVariation { a, lse_a, b, lse_b })
}

/// Elements summed in `f32` before they join the `f64` sum.
const BLOCK: usize = 2048;

struct TotalVariation<'a> {
    a: &'a [f32],
    lse_a: f32,
    b: &'a [f32],
    lse_b: f32,
}

impl Op for TotalVariation<'_> {
    type Out = f32;

    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) -> f32 {
        let (lse_a, lse_b) = (simd.splat(self.lse_a), simd.splat(self.lse_b));
        let mut total = 0.0f64;
        for (a, b) in self.a.chunks(BLOCK).zip(self.b.chunks(BLOCK)) {
            let mut sum = simd.splat(0.0);
            for (a, b) in a.chunks(S::LANES).zip(b.chunks(S::LANES)) {
                let (a, b) = if a.len() == S::LANES {
                    (simd.read(a), simd.read(b))
                } else {
                    (simd.read_tail(a, f32::NEG_INFINITY), simd.read_tail(b, f32::NEG_INFINITY))
                };
                let (p, q) = (exp(simd, simd.sub(a, lse_a)), exp(simd, simd.sub(b, lse_b)));
                sum = simd.add(sum, simd.abs(simd.sub(p, q)));
            }
            total += f64::from(simd.sum(sum));
        }
        (0.5 * total) as f32
    }
}
