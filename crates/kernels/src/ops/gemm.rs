//! `c = a·wᵀ + bias` with the weights in PyTorch's `[n, k]` layout.
//!
//! Invariant: an output element is one chain of fused multiply-adds in increasing `k`, started from zero, then the
//! bias is added. It is therefore bit-identical whatever `m`, the thread count or the position in the batch.

use half::{bf16, f16};
use rayon::prelude::*;

/// An `[n, k]` weight matrix, row-major, in any of the checkpoint's number formats.
#[derive(Clone, Copy, Debug)]
pub enum Weights<'a> {
    /// Single precision.
    F32(&'a [f32]),
    /// Brain floating point.
    Bf16(&'a [bf16]),
    /// IEEE half precision.
    F16(&'a [f16]),
}

impl Weights<'_> {
    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            Self::F32(w) => w.len(),
            Self::Bf16(w) => w.len(),
            Self::F16(w) => w.len(),
        }
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn get(&self, index: usize) -> f32 {
        match self {
            Self::F32(w) => w[index],
            Self::Bf16(w) => w[index].to_f32(),
            Self::F16(w) => w[index].to_f32(),
        }
    }
}

/// Columns computed together, so that a weight is read once for all rows.
const PANEL: usize = 16;

/// `c[m, n] = a[m, k] · w[n, k]ᵀ (+ bias[n])`.
///
/// # Panics
/// If a slice length disagrees with the shape.
pub fn gemm(
    a: &[f32],
    m: usize,
    k: usize,
    w: Weights<'_>,
    n: usize,
    bias: Option<&[f32]>,
    c: &mut [f32],
) {
    assert_eq!(a.len(), m * k, "gemm: a must be [m, k]");
    assert_eq!(w.len(), n * k, "gemm: w must be [n, k]");
    assert_eq!(c.len(), m * n, "gemm: c must be [m, n]");
    if let Some(bias) = bias {
        assert_eq!(bias.len(), n, "gemm: bias must be [n]");
    }
    if m == 0 || n == 0 {
        return;
    }
    let panels: Vec<Vec<f32>> = (0..n.div_ceil(PANEL))
        .into_par_iter()
        .map(|p| panel(a, m, k, w, n, p * PANEL))
        .collect();
    c.par_chunks_mut(n).enumerate().for_each(|(i, row)| {
        for (j, value) in row.iter_mut().enumerate() {
            *value = panels[j / PANEL][i * PANEL + j % PANEL] + bias.map_or(0.0, |bias| bias[j]);
        }
    });
}

fn panel(a: &[f32], m: usize, k: usize, w: Weights<'_>, n: usize, start: usize) -> Vec<f32> {
    let width = PANEL.min(n - start);
    let mut packed = vec![0.0f32; k * PANEL];
    for j in 0..width {
        for p in 0..k {
            packed[p * PANEL + j] = w.get((start + j) * k + p);
        }
    }
    let mut out = vec![0.0f32; m * PANEL];
    for (row, out) in a.chunks_exact(k.max(1)).zip(out.chunks_exact_mut(PANEL)) {
        let mut sum = [0.0f32; PANEL];
        for (&x, w) in row.iter().zip(packed.chunks_exact(PANEL)) {
            for (sum, &w) in sum.iter_mut().zip(w) {
                *sum = x.mul_add(w, *sum);
            }
        }
        out.copy_from_slice(&sum);
    }
    out
}
