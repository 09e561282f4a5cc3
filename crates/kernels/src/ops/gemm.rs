//! `c = a·wᵀ + bias` with the weights in PyTorch's `[n, k]` layout.
//!
//! Invariant: an output element is one chain of fused multiply-adds in increasing `k`, started from zero, then the
//! bias is added. It is therefore bit-identical whatever `m`, the thread count or the position in the batch.

use half::{bf16, f16};

use crate::meter::{Work, counted};
use crate::ops::matmul::{Shape, Strided};
use crate::pack::Right;
use crate::product::product;
use crate::tile::Chain;

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
}

/// `c[m, n] = a[m, k] · w[n, k]ᵀ (+ bias[n])`.
///
/// ```
/// use demask_kernels::{Weights, gemm};
/// let (a, w, mut c) = ([1.0, 2.0], [3.0, 4.0, 5.0, 6.0], [0.0; 2]); // one row, two outputs
/// gemm(&a, 1, 2, Weights::F32(&w), 2, Some(&[0.5, 0.0]), &mut c);
/// assert_eq!(c, [11.5, 17.0]);
/// ```
///
/// # Panics
/// If a slice length disagrees with the shape.
pub fn gemm(a: &[f32], m: usize, k: usize, w: Weights<'_>, n: usize, bias: Option<&[f32]>, c: &mut [f32]) {
    assert_eq!(a.len(), m * k, "gemm: a must be [m, k]");
    assert_eq!(w.len(), n * k, "gemm: w must be [n, k]");
    assert_eq!(c.len(), m * n, "gemm: c must be [m, n]");
    if let Some(bias) = bias {
        assert_eq!(bias.len(), n, "gemm: bias must be [n]");
    }
    let shape = Shape { m, n, k };
    let a = Strided::rows(a, k);
    let chain = Chain { carry: false, bias };
    counted(Work::Float, 2 * m * n * k, || match w {
        Weights::F32(w) => product(shape, a, Right::new(w, 1, k, k, n), c, chain),
        Weights::Bf16(w) => product(shape, a, Right::new(w, 1, k, k, n), c, chain),
        Weights::F16(w) => product(shape, a, Right::new(w, 1, k, k, n), c, chain),
    });
}
