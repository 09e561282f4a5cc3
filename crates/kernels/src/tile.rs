//! The one matrix micro-kernel: `c[m, n] (+)= a[m, k] · b[k, n]` with `b` packed in panels two vectors wide.
//!
//! Invariant: each element of `c` is one chain of fused multiply-adds in increasing `k`, begun at zero or at the value
//! already in `c`. Tiling, tails and instruction sets change who computes an element, never the chain.

use crate::arch::{MAX_LANES, Simd};
use crate::memory::Tile;
use crate::ops::matmul::Strided;

/// Columns of a panel.
pub(crate) const fn panel_width<S: Simd>() -> usize {
    2 * S::LANES
}

/// Floats that `n` columns of depth `k` take when packed.
pub(crate) fn panels_len<S: Simd>(n: usize, k: usize) -> usize {
    n.div_ceil(panel_width::<S>()) * panel_width::<S>() * k
}

/// Where the chains of a product begin and what is added at their end.
#[derive(Clone, Copy)]
pub(crate) struct Chain<'a> {
    /// Begin at the value in `c` instead of zero.
    pub(crate) carry: bool,
    /// Added to each column when the chain is complete.
    pub(crate) bias: Option<&'a [f32]>,
}

impl Chain<'_> {
    /// Overwrite.
    pub(crate) const FRESH: Self = Self { carry: false, bias: None };
    /// Continue from `c`.
    pub(crate) const CARRY: Self = Self { carry: true, bias: None };
}

/// `c = a · panels` over depth `k`, one panel of columns at a time so that it stays in the first-level cache.
#[inline(always)]
pub(crate) fn multiply<S: Simd>(
    simd: S,
    a: Strided<'_>,
    k: usize,
    panels: &[f32],
    mut c: Tile<'_>,
    chain: Chain<'_>,
) {
    let (m, n, width) = (c.rows(), c.cols(), panel_width::<S>());
    assert!(a.covers(m, k), "multiply: a does not cover [{m}, {k}]");
    assert!(panels.len() >= panels_len::<S>(n, k), "multiply: panels do not cover [{k}, {n}]");
    assert!(chain.bias.is_none_or(|bias| bias.len() >= n), "multiply: bias does not cover {n}");
    let stride = c.stride();
    for j in (0..n).step_by(width) {
        let cols = width.min(n - j);
        let mut edge = [0.0f32; 2 * MAX_LANES];
        let mut bias = None;
        if let Some(all) = chain.bias {
            edge[..cols].copy_from_slice(&all[j..j + cols]);
            bias = Some(edge.as_ptr());
        }
        for i in (0..m).step_by(S::ROWS) {
            let rows = S::ROWS.min(m - i);
            // SAFETY: a, the panel and the bias were checked to cover what is read; the tile of c is in bounds, and the
            // spill buffer stands in for it where the panel is wider than what is left of the columns.
            unsafe {
                let call = Call {
                    k,
                    a: a.data.as_ptr().add(i * a.row),
                    a_row: a.row,
                    a_col: a.col,
                    panel: panels.as_ptr().add(j * k),
                    carry: chain.carry,
                    bias,
                };
                let c = c.ptr().add(i * stride + j);
                if cols == width {
                    call.rows(simd, rows, c, stride);
                } else {
                    call.spill(simd, rows, cols, c, stride);
                }
            }
        }
    }
}

/// One call of the micro-kernel, less its destination.
#[derive(Clone, Copy)]
struct Call {
    k: usize,
    a: *const f32,
    a_row: usize,
    a_col: usize,
    panel: *const f32,
    carry: bool,
    bias: Option<*const f32>,
}

impl Call {
    /// A tile narrower than the panel, through a full-width buffer.
    #[inline(always)]
    unsafe fn spill<S: Simd>(self, simd: S, rows: usize, cols: usize, c: *mut f32, stride: usize) {
        let mut buffer = [0.0f32; MAX_ROWS * 2 * MAX_LANES];
        let width = panel_width::<S>();
        // SAFETY: rows x cols of c are in bounds by the caller's contract, rows x width of the buffer by its size.
        unsafe {
            if self.carry {
                for i in 0..rows {
                    c.add(i * stride).copy_to_nonoverlapping(buffer.as_mut_ptr().add(i * width), cols);
                }
            }
            self.rows(simd, rows, buffer.as_mut_ptr(), width);
            for i in 0..rows {
                buffer.as_ptr().add(i * width).copy_to_nonoverlapping(c.add(i * stride), cols);
            }
        }
    }

    #[inline(always)]
    unsafe fn rows<S: Simd>(self, simd: S, rows: usize, c: *mut f32, stride: usize) {
        // SAFETY: passed on.
        unsafe {
            match rows {
                1 => self.tile::<S, 1>(simd, c, stride),
                2 => self.tile::<S, 2>(simd, c, stride),
                3 => self.tile::<S, 3>(simd, c, stride),
                4 => self.tile::<S, 4>(simd, c, stride),
                5 => self.tile::<S, 5>(simd, c, stride),
                6 => self.tile::<S, 6>(simd, c, stride),
                7 => self.tile::<S, 7>(simd, c, stride),
                8 => self.tile::<S, 8>(simd, c, stride),
                9 => self.tile::<S, 9>(simd, c, stride),
                10 => self.tile::<S, 10>(simd, c, stride),
                11 => self.tile::<S, 11>(simd, c, stride),
                MAX_ROWS => self.tile::<S, MAX_ROWS>(simd, c, stride),
                _ => unreachable!("a tile has at most {MAX_ROWS} rows"),
            }
        }
    }

    /// `R` rows of two vectors, all in registers.
    ///
    /// # Safety
    /// `a` readable for `R` rows of `k`, `panel` for `k` times the panel width, `bias` for it, `c` writable for `R` rows.
    #[inline(always)]
    unsafe fn tile<S: Simd, const R: usize>(self, simd: S, c: *mut f32, stride: usize) {
        if R > S::ROWS {
            return;
        }
        let zero = simd.splat(0.0);
        let mut sum = [[zero; 2]; R];
        // SAFETY: the contract covers every address below.
        unsafe {
            if self.carry {
                for (i, sum) in sum.iter_mut().enumerate() {
                    sum[0] = simd.load(c.add(i * stride));
                    sum[1] = simd.load(c.add(i * stride + S::LANES));
                }
            }
            let (mut a, mut panel) = (self.a, self.panel);
            for _ in 0..self.k {
                let b = [simd.load(panel), simd.load(panel.add(S::LANES))];
                for (i, sum) in sum.iter_mut().enumerate() {
                    let x = simd.splat(*a.add(i * self.a_row));
                    sum[0] = simd.fma(x, b[0], sum[0]);
                    sum[1] = simd.fma(x, b[1], sum[1]);
                }
                // The last step may leave the allocation, so these addresses are only formed, not asserted in bounds.
                a = a.wrapping_add(self.a_col);
                panel = panel.wrapping_add(panel_width::<S>());
            }
            for (i, sum) in sum.iter_mut().enumerate() {
                if let Some(bias) = self.bias {
                    sum[0] = simd.add(sum[0], simd.load(bias));
                    sum[1] = simd.add(sum[1], simd.load(bias.add(S::LANES)));
                }
                simd.store(c.add(i * stride), sum[0]);
                simd.store(c.add(i * stride + S::LANES), sum[1]);
            }
        }
    }
}

/// Most rows any instruction set's tile has.
const MAX_ROWS: usize = 12;
