//! Layer normalisation: `y = (x - mean) / sqrt(variance + eps) · weight + bias`, row by row.

use rayon::prelude::*;

use crate::arch::{Op, Simd};
use crate::dispatch::Level;
use crate::parallel::{least_run, rows_per_task};

/// Normalises each row of `x` (`[rows, weight.len()]`) into `out`.
///
/// # Panics
/// If `x` is not a whole number of rows, or `bias` or `out` has another length.
pub fn layer_norm(x: &[f32], weight: &[f32], bias: &[f32], eps: f32, out: &mut [f32]) {
    let width = weight.len();
    let whole = width > 0 && x.len().is_multiple_of(width);
    assert!(whole, "layer_norm: x ({}) must be rows of weight's length ({width})", x.len());
    assert_eq!(bias.len(), width, "layer_norm: bias must have the length of weight");
    assert_eq!(out.len(), x.len(), "layer_norm: out must have the length of x");
    let level = Level::active();
    let task = rows_per_task(width) * width;
    out.par_chunks_mut(task)
        .zip(x.par_chunks(task))
        .with_min_len(least_run())
        .for_each(|(out, x)| level.run(Forward { x, weight, bias, eps, out }));
}

struct Forward<'a> {
    x: &'a [f32],
    weight: &'a [f32],
    bias: &'a [f32],
    eps: f32,
    out: &'a mut [f32],
}

impl Op for Forward<'_> {
    type Out = ();

    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        let width = self.weight.len();
        for (x, out) in self.x.chunks_exact(width).zip(self.out.chunks_exact_mut(width)) {
            let mean = sum_of(simd, x, |x| x, |x| x) / width as f32;
            // About the mean and not about zero, which a row may lie far from.
            let squares = sum_of(
                simd,
                x,
                |x| {
                    let x = simd.sub(x, simd.splat(mean));
                    simd.mul(x, x)
                },
                |x| (x - mean) * (x - mean),
            );
            let scale = 1.0 / (squares / width as f32 + self.eps).sqrt();
            for (((out, &x), &w), &b) in out.iter_mut().zip(x).zip(self.weight).zip(self.bias) {
                *out = ((x - mean) * scale).mul_add(w, b);
            }
        }
    }
}

/// `Σ f(x)` in two vectors of partial sums; `one` is `f` of a single number.
#[inline(always)]
fn sum_of<S: Simd>(simd: S, x: &[f32], f: impl Fn(S::F) -> S::F, one: impl Fn(f32) -> f32) -> f32 {
    let (mut low, mut high) = (simd.splat(0.0), simd.splat(0.0));
    let parts = x.chunks_exact(2 * S::LANES);
    let tail = parts.remainder();
    for x in parts {
        low = simd.add(low, f(simd.read(x)));
        high = simd.add(high, f(simd.read(&x[S::LANES..])));
    }
    tail.iter().fold(simd.sum(simd.add(low, high)), |sum, &x| sum + one(x))
}
