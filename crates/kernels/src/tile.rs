//! The one matrix micro-kernel: `c[m, n] (+)= a[m, k] · b[k, n]` with `b` packed in panels two vectors wide.
//!
//! Invariant: each element of `c` is one chain of fused multiply-adds in increasing `k`, begun at zero or at the value
//! already in `c`. Tiling, tails and instruction sets change who computes an element, never the chain.

use crate::arch::{MAX_LANES, Op, Simd};
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
    c: Tile<'_>,
    chain: Chain<'_>,
) {
    simd.isolate(Multiply { a, k, panels, c, chain });
}

struct Multiply<'a> {
    a: Strided<'a>,
    k: usize,
    panels: &'a [f32],
    c: Tile<'a>,
    chain: Chain<'a>,
}

impl Op for Multiply<'_> {
    type Out = ();

    #[inline(always)]
    fn eval<S: Simd>(mut self, simd: S) {
        let (m, n, k, width) = (self.c.rows(), self.c.cols(), self.k, panel_width::<S>());
        assert!(self.a.covers(m, k), "multiply: a does not cover [{m}, {k}]");
        assert!(self.panels.len() >= panels_len::<S>(n, k), "multiply: panels do not cover [{k}, {n}]");
        assert!(self.chain.bias.is_none_or(|bias| bias.len() >= n), "multiply: bias does not cover {n}");
        for j in (0..n).step_by(width) {
            let cols = width.min(n - j);
            let mut bias = None;
            let mut padded = [0.0f32; 2 * MAX_LANES];
            if let Some(all) = self.chain.bias {
                padded[..cols].copy_from_slice(&all[j..j + cols]);
                bias = Some(padded.as_ptr());
            }
            // SAFETY: a, the panel and the bias were checked to cover what is read; rows and columns of c are in
            // bounds, and `spill` stands in for columns the panel has beyond them.
            unsafe {
                let call = Call {
                    k,
                    a: self.a.data.as_ptr(),
                    a_row: self.a.row,
                    a_col: self.a.col,
                    panel: self.panels.as_ptr().add(j * k),
                    c: self.c.ptr().add(j),
                    stride: self.c.stride(),
                    carry: self.chain.carry,
                    bias,
                };
                if cols == width { call.column(simd, m) } else { call.spill(simd, m, cols) }
            }
        }
    }
}

/// A product with one panel of columns.
#[derive(Clone, Copy)]
struct Call {
    k: usize,
    a: *const f32,
    a_row: usize,
    a_col: usize,
    panel: *const f32,
    c: *mut f32,
    stride: usize,
    carry: bool,
    bias: Option<*const f32>,
}

impl Call {
    /// All `m` rows: full tiles, then what is left.
    ///
    /// # Safety
    /// As [`Call::tile`] for `m` rows.
    #[inline(always)]
    unsafe fn column<S: Simd>(self, simd: S, m: usize) {
        let (tiles, rest) = (m / S::ROWS, m % S::ROWS);
        // SAFETY: passed on.
        unsafe {
            if tiles > 0 {
                self.rows(simd, S::ROWS, tiles);
            }
            if rest > 0 {
                self.below(tiles * S::ROWS).rows(simd, rest, 1);
            }
        }
    }

    /// A column narrower than the panel, tile by tile through a full-width buffer.
    ///
    /// # Safety
    /// As [`Call::tile`] for `m` rows, but only `cols` columns of `c` need be writable.
    #[inline(always)]
    unsafe fn spill<S: Simd>(self, simd: S, m: usize, cols: usize) {
        let width = panel_width::<S>();
        let mut buffer = [0.0f32; MAX_ROWS * 2 * MAX_LANES];
        for i in (0..m).step_by(S::ROWS) {
            let rows = S::ROWS.min(m - i);
            // SAFETY: rows x cols of c are in bounds by the contract, rows x width of the buffer by its size.
            unsafe {
                let call = self.below(i);
                if self.carry {
                    for i in 0..rows {
                        let from = call.c.add(i * self.stride);
                        from.copy_to_nonoverlapping(buffer.as_mut_ptr().add(i * width), cols);
                    }
                }
                Self { c: buffer.as_mut_ptr(), stride: width, ..call }.rows(simd, rows, 1);
                for i in 0..rows {
                    let to = call.c.add(i * self.stride);
                    buffer.as_ptr().add(i * width).copy_to_nonoverlapping(to, cols);
                }
            }
        }
    }

    /// The call from row `i` on. Addresses are only formed.
    #[inline(always)]
    fn below(self, i: usize) -> Self {
        Self { a: self.a.wrapping_add(i * self.a_row), c: self.c.wrapping_add(i * self.stride), ..self }
    }

    /// `tiles` tiles of `rows` rows.
    ///
    /// # Safety
    /// As [`Call::tile`] for all of them.
    #[inline(always)]
    unsafe fn rows<S: Simd>(self, simd: S, rows: usize, tiles: usize) {
        match rows {
            1 => simd.isolate(Rows::<1>(self, tiles)),
            2 => simd.isolate(Rows::<2>(self, tiles)),
            3 => simd.isolate(Rows::<3>(self, tiles)),
            4 => simd.isolate(Rows::<4>(self, tiles)),
            5 => simd.isolate(Rows::<5>(self, tiles)),
            6 => simd.isolate(Rows::<6>(self, tiles)),
            7 => simd.isolate(Rows::<7>(self, tiles)),
            8 => simd.isolate(Rows::<8>(self, tiles)),
            9 => simd.isolate(Rows::<9>(self, tiles)),
            10 => simd.isolate(Rows::<10>(self, tiles)),
            11 => simd.isolate(Rows::<11>(self, tiles)),
            MAX_ROWS => simd.isolate(Rows::<MAX_ROWS>(self, tiles)),
            _ => unreachable!("a tile has at most {MAX_ROWS} rows"),
        }
    }

    /// `R` rows of two vectors, all in registers.
    ///
    /// # Safety
    /// `a` readable for `R` rows of `k`, `panel` for `k` times the panel width, `bias` for it, `c` writable for `R` rows.
    #[inline(always)]
    unsafe fn tile<S: Simd, const R: usize>(self, simd: S) {
        let (zero, c, stride) = (simd.splat(0.0), self.c, self.stride);
        if self.k >= FAR {
            // The tile below is next; its lines arrive while this one is computed.
            for i in R..2 * R {
                simd.prefetch(c.wrapping_add(i * stride));
                simd.prefetch(c.wrapping_add(i * stride + panel_width::<S>() - 1));
            }
        }
        let mut sum = [[zero; 2]; R];
        // SAFETY: the contract covers every address below.
        unsafe {
            if self.carry {
                for (i, sum) in sum.iter_mut().enumerate() {
                    sum[0] = simd.load(c.add(i * stride));
                    sum[1] = simd.load(c.add(i * stride + S::LANES));
                }
            }
            let (mut panel, mut at) = (self.panel, 0);
            // One pointer a row: a chain of additions from row to row would take as long as the arithmetic.
            let a: [*const f32; R] = core::array::from_fn(|i| self.a.wrapping_add(i * self.a_row));
            for _ in 0..self.k {
                let b = [simd.load(panel), simd.load(panel.add(S::LANES))];
                for (sum, a) in sum.iter_mut().zip(a) {
                    let x = simd.splat(*a.add(at));
                    sum[0] = simd.fma(x, b[0], sum[0]);
                    sum[1] = simd.fma(x, b[1], sum[1]);
                }
                at += self.a_col;
                // The last step may leave the allocation, so the address is only formed.
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

/// Depth from which a tile takes long enough for the next one's lines to be fetched meanwhile.
const FAR: usize = 128;

/// Tiles of `R` rows, one below the other; only [`Call::rows`] makes it, under its contract.
struct Rows<const R: usize>(Call, usize);

impl<const R: usize> Op for Rows<R> {
    type Out = ();

    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        if R > S::ROWS {
            return;
        }
        let Self(mut call, tiles) = self;
        for _ in 0..tiles {
            // SAFETY: the contract of `Call::rows`.
            unsafe { call.tile::<S, R>(simd) };
            call = call.below(R);
        }
    }
}

/// Most rows any instruction set's tile has.
const MAX_ROWS: usize = 12;
