//! Root-mean-square normalisation: `y = x / sqrt(mean(x²) + eps) · weight`, row by row, and its gradient.

use rayon::prelude::*;

use crate::arch::{Op, Simd};
use crate::dispatch::Level;
use crate::math::dot;
use crate::parallel::{least_run, rows_per_task};

/// Normalises each row of `x` (`[rows, weight.len()]`) into `out`.
///
/// # Panics
/// If `x` is not a whole number of rows or `out` has another length.
pub fn rms_norm(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    let width = check(x, weight);
    assert_eq!(out.len(), x.len(), "rms_norm: out must have the length of x");
    let level = Level::active();
    let task = rows_per_task(width) * width;
    out.par_chunks_mut(task)
        .zip(x.par_chunks(task))
        .with_min_len(least_run())
        .for_each(|(out, x)| level.run(Forward { x, weight, eps, out }));
}

/// Rows whose weight gradient is summed together; fixed, so that the sum does not depend on the threads.
const GRAD_ROWS: usize = 64;

/// Gradient of [`rms_norm`]: writes `grad_x`, adds to `grad_weight`.
///
/// # Panics
/// If the lengths disagree.
pub fn rms_norm_backward(
    x: &[f32],
    weight: &[f32],
    eps: f32,
    grad_out: &[f32],
    grad_x: &mut [f32],
    grad_weight: &mut [f32],
) {
    let width = check(x, weight);
    assert_eq!(grad_out.len(), x.len(), "rms_norm_backward: grad_out must have the length of x");
    assert_eq!(grad_x.len(), x.len(), "rms_norm_backward: grad_x must have the length of x");
    assert_eq!(grad_weight.len(), width, "rms_norm_backward: grad_weight must have the length of weight");
    let level = Level::active();
    let task = GRAD_ROWS * width;
    let mut partial = vec![0.0; x.len().div_ceil(task) * width];
    let outputs = grad_x.par_chunks_mut(task).zip(partial.par_chunks_mut(width));
    outputs.zip(x.par_chunks(task)).zip(grad_out.par_chunks(task)).for_each(
        |(((grad_x, partial), x), grad_out)| {
            level.run(Backward { x, weight, eps, grad_out, grad_x, grad_weight: partial });
        },
    );
    for partial in partial.chunks_exact(width) {
        grad_weight.iter_mut().zip(partial).for_each(|(grad, partial)| *grad += partial);
    }
}

fn check(x: &[f32], weight: &[f32]) -> usize {
    let width = weight.len();
    let whole = width > 0 && x.len().is_multiple_of(width);
    assert!(whole, "rms_norm: x ({}) must be rows of weight's length ({width})", x.len());
    width
}

#[inline(always)]
fn inverse_rms<S: Simd>(simd: S, x: &[f32], eps: f32) -> f32 {
    1.0 / (dot(simd, x, x) / x.len() as f32 + eps).sqrt()
}

struct Forward<'a> {
    x: &'a [f32],
    weight: &'a [f32],
    eps: f32,
    out: &'a mut [f32],
}

impl Op for Forward<'_> {
    type Out = ();

    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        let width = self.weight.len();
        for (x, out) in self.x.chunks_exact(width).zip(self.out.chunks_exact_mut(width)) {
            let scale = inverse_rms(simd, x, self.eps);
            for ((out, &x), &w) in out.iter_mut().zip(x).zip(self.weight) {
                *out = x * scale * w;
            }
        }
    }
}

struct Backward<'a> {
    x: &'a [f32],
    weight: &'a [f32],
    eps: f32,
    grad_out: &'a [f32],
    grad_x: &'a mut [f32],
    grad_weight: &'a mut [f32],
}

impl Op for Backward<'_> {
    type Out = ();

    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        let width = self.weight.len();
        let rows = self.x.chunks_exact(width).zip(self.grad_out.chunks_exact(width));
        for ((x, grad_out), grad_x) in rows.zip(self.grad_x.chunks_exact_mut(width)) {
            let scale = inverse_rms(simd, x, self.eps);
            for ((grad_x, &grad), &w) in grad_x.iter_mut().zip(grad_out).zip(self.weight) {
                *grad_x = grad * w;
            }
            let pull = dot(simd, x, grad_x) * scale * scale / width as f32;
            let sides = grad_x.iter_mut().zip(self.grad_weight.iter_mut());
            for (((grad_x, grad_weight), &x), &grad) in sides.zip(x).zip(grad_out) {
                *grad_x = scale * (*grad_x - x * pull);
                *grad_weight += grad * (x * scale);
            }
        }
    }
}
