//! The twins: what each operation means, in plain loops.

use demask_kernels::{Shape, Strided, Weights};

pub(crate) fn weight(w: Weights<'_>, index: usize) -> f32 {
    match w {
        Weights::F32(w) => w[index],
        Weights::Bf16(w) => w[index].to_f32(),
        Weights::F16(w) => w[index].to_f32(),
    }
}

/// One chain of fused multiply-adds per element, then the bias.
pub(crate) fn gemm(
    a: &[f32],
    m: usize,
    k: usize,
    w: Weights<'_>,
    n: usize,
    bias: Option<&[f32]>,
) -> Vec<f32> {
    let mut c = vec![];
    for i in 0..m {
        for j in 0..n {
            let sum = (0..k).fold(0.0f32, |sum, p| a[i * k + p].mul_add(weight(w, j * k + p), sum));
            c.push(bias.map_or(sum, |bias| sum + bias[j]));
        }
    }
    c
}

/// One chain per element, begun at `c`.
pub(crate) fn matmul(shape: Shape, a: Strided<'_>, b: Strided<'_>, c: &mut [f32]) {
    for i in 0..shape.m {
        for j in 0..shape.n {
            let element = &mut c[i * shape.n + j];
            for p in 0..shape.k {
                let (a, b) = (a.data[i * a.row + p * a.col], b.data[p * b.row + j * b.col]);
                *element = a.mul_add(b, *element);
            }
        }
    }
}
