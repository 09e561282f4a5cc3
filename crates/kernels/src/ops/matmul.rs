//! General strided product, for the backward passes of training: `A·B`, `Aᵀ·B`, `A·Bᵀ` are strides, not functions.
//!
//! Invariant: as in `gemm`, an element is one fixed-order chain over `k`.

use crate::meter::{Work, counted};
use crate::pack::Right;
use crate::product::product;
use crate::tile::Chain;

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
        Self { data, row: cols, col: 1 }
    }

    /// The transpose of the view.
    pub fn t(self) -> Self {
        Self { data: self.data, row: self.col, col: self.row }
    }

    /// Whether every element of `[rows, cols]` is in the data.
    pub(crate) fn covers(&self, rows: usize, cols: usize) -> bool {
        rows == 0 || cols == 0 || (rows - 1) * self.row + (cols - 1) * self.col < self.data.len()
    }

    /// The view from element `(row, col)` on.
    pub(crate) fn skip(self, row: usize, col: usize) -> Self {
        let data = self.data.get(row * self.row + col * self.col..).unwrap_or_default();
        Self { data, ..self }
    }
}

/// `c[m, n] = a · b`, or `c += a · b` if `accumulate` (the chain then begins at the value in `c`); `c` is row-major.
///
/// # Panics
/// If a view does not cover its shape.
pub fn matmul(shape: Shape, a: Strided<'_>, b: Strided<'_>, c: &mut [f32], accumulate: bool) {
    let Shape { m, n, k } = shape;
    assert!(a.covers(m, k), "matmul: a does not cover [{m}, {k}]");
    assert!(b.covers(k, n), "matmul: b does not cover [{k}, {n}]");
    assert_eq!(c.len(), m * n, "matmul: c must be [m, n]");
    let chain = if accumulate { Chain::CARRY } else { Chain::FRESH };
    let b = Right::new(b.data, b.row, b.col, k, n);
    counted(Work::Float, 2 * m * n * k, || product(shape, a, b, c, chain));
}
