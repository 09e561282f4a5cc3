//! The three products of a linear map and its gradient, in the number format a run multiplies in.

use demask_kernels::{self as kernels, Shape, Strided, Weights};

use crate::pretrain::config::Precision;

/// How a run multiplies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Products(pub(crate) Precision);

impl Products {
    /// `y = x[rows, k] · wᵀ (+ bias)`.
    pub(super) fn linear(
        self,
        x: &[f32],
        rows: usize,
        k: usize,
        w: &[f32],
        bias: Option<&[f32]>,
        y: &mut [f32],
    ) {
        let n = w.len() / k;
        match self.0 {
            Precision::F32 => kernels::gemm(x, rows, k, Weights::F32(w), n, bias, y),
            Precision::Bf16 => {
                // The sums begin at the bias.
                if let Some(bias) = bias {
                    y.chunks_exact_mut(n).for_each(|y| y.copy_from_slice(bias));
                }
                let shape = Shape { m: rows, n, k };
                kernels::matmul_bf16(shape, Strided::rows(x, k), Strided::rows(w, k).t(), y, bias.is_some());
            }
        }
    }

    /// Gradient of a linear map's input: `to (+)= grad[rows, n] · w[n, k]`.
    #[expect(
        clippy::too_many_arguments,
        reason = "two matrices with their sizes, and where the product goes"
    )]
    pub(super) fn through(
        self,
        grad: &[f32],
        rows: usize,
        w: &[f32],
        n: usize,
        k: usize,
        to: &mut [f32],
        accumulate: bool,
    ) {
        let shape = Shape { m: rows, n: k, k: n };
        self.multiply(shape, Strided::rows(grad, n), Strided::rows(w, k), to, accumulate);
    }

    /// Gradient of a linear map's weights: `to += grad[rows, n]ᵀ · x[rows, k]`.
    pub(super) fn weight(self, grad: &[f32], rows: usize, x: &[f32], n: usize, k: usize, to: &mut [f32]) {
        let shape = Shape { m: n, n: k, k: rows };
        self.multiply(shape, Strided::rows(grad, n).t(), Strided::rows(x, k), to, true);
    }

    /// `c (+)= a · b`.
    pub(crate) fn multiply(
        self,
        shape: Shape,
        a: Strided<'_>,
        b: Strided<'_>,
        c: &mut [f32],
        accumulate: bool,
    ) {
        match self.0 {
            Precision::F32 => kernels::matmul(shape, a, b, c, accumulate),
            Precision::Bf16 => kernels::matmul_bf16(shape, a, b, c, accumulate),
        }
    }
}
