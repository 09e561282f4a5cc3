//! Root-mean-square normalisation: `y = x / sqrt(mean(x²) + eps) · weight`, row by row, and its gradient.

use rayon::prelude::*;

/// Normalises each row of `x` (`[rows, weight.len()]`) into `out`.
///
/// # Panics
/// If `x` is not a whole number of rows or `out` has another length.
pub fn rms_norm(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    let width = check(x, weight);
    assert_eq!(out.len(), x.len(), "rms_norm: out must have the length of x");
    out.par_chunks_mut(width).zip(x.par_chunks(width)).for_each(|(out, x)| {
        let scale = inverse_rms(x, eps);
        for ((out, &x), &w) in out.iter_mut().zip(x).zip(weight) {
            *out = x * scale * w;
        }
    });
}

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
    let rows = x.chunks_exact(width).zip(grad_out.chunks_exact(width)).zip(grad_x.chunks_exact_mut(width));
    for ((x, grad_out), grad_x) in rows {
        let scale = inverse_rms(x, eps);
        let dot: f32 = x.iter().zip(grad_out).zip(weight).map(|((&x, &g), &w)| x * g * w).sum();
        let pull = dot * scale * scale * scale / width as f32;
        for i in 0..width {
            grad_x[i] = grad_out[i] * weight[i] * scale - x[i] * pull;
            grad_weight[i] += grad_out[i] * x[i] * scale;
        }
    }
}

fn check(x: &[f32], weight: &[f32]) -> usize {
    let width = weight.len();
    assert!(
        width > 0 && x.len().is_multiple_of(width),
        "rms_norm: x ({}) must be rows of weight's length ({width})",
        x.len()
    );
    width
}

fn inverse_rms(x: &[f32], eps: f32) -> f32 {
    let sum: f32 = x.iter().map(|x| x * x).sum();
    1.0 / (sum / x.len() as f32 + eps).sqrt()
}
