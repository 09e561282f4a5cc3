//! General strided product, for the backward passes of training: `A·B`, `Aᵀ·B`, `A·Bᵀ` are strides, not functions.
//!
//! Invariant: as in `gemm`, an element is one fixed-order chain over `k`.

use rayon::prelude::*;

/// The three sizes of a product `c[m, n] = a[m, k] · b[k, n]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Rows of `a` and `c`.
    pub m: usize,
    /// Columns of `b` and `c`.
    pub n: usize,
    /// Columns of `a`, rows of `b`.
    pub k: usize,
}

/// A matrix view: element `(i, j)` is `data[i * row + j * col]`.
#[derive(Clone, Copy, Debug)]
pub struct Strided<'a> {
    /// The elements.
    pub data: &'a [f32],
    /// Distance between rows.
    pub row: usize,
    /// Distance between columns.
    pub col: usize,
}

impl<'a> Strided<'a> {
    /// A row-major matrix of `cols` columns.
    pub fn rows(data: &'a [f32], cols: usize) -> Self {
        Self {
            data,
            row: cols,
            col: 1,
        }
    }

    /// The transpose of the view.
    pub fn t(self) -> Self {
        Self {
            data: self.data,
            row: self.col,
            col: self.row,
        }
    }

    fn covers(&self, rows: usize, cols: usize) -> bool {
        rows == 0 || cols == 0 || (rows - 1) * self.row + (cols - 1) * self.col < self.data.len()
    }
}

/// `c[m, n] = a · b`, or `c += a · b` if `accumulate`; `c` is row-major.
///
/// # Panics
/// If a view does not cover its shape.
pub fn matmul(shape: Shape, a: Strided<'_>, b: Strided<'_>, c: &mut [f32], accumulate: bool) {
    let Shape { m, n, k } = shape;
    assert!(a.covers(m, k), "matmul: a does not cover [{m}, {k}]");
    assert!(b.covers(k, n), "matmul: b does not cover [{k}, {n}]");
    assert_eq!(c.len(), m * n, "matmul: c must be [m, n]");
    if m == 0 || n == 0 {
        return;
    }
    c.par_chunks_mut(n).enumerate().for_each(|(i, row)| {
        let mut sum = vec![0.0f32; n];
        for p in 0..k {
            let x = a.data[i * a.row + p * a.col];
            for (j, sum) in sum.iter_mut().enumerate() {
                *sum = x.mul_add(b.data[p * b.row + j * b.col], *sum);
            }
        }
        for (value, sum) in row.iter_mut().zip(sum) {
            *value = if accumulate { *value + sum } else { sum };
        }
    });
}
