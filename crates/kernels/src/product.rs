//! Blocked parallel matrix product: cuts `c` into independent tiles and runs the micro-kernel over packed panels.
//!
//! Tasks own whole tiles of `c` over the full depth and pack what they read themselves, so there is no barrier. The
//! cut depends on the thread count, the chains of [`crate::tile`] do not.

use std::ops::Range;

use rayon::prelude::*;

use crate::arch::{Element, Evaluate, Op, Simd};
use crate::dispatch::Level;
use crate::memory::{Grid, Scratch, Tile};
use crate::ops::matmul::{Shape, Strided};
use crate::pack::Right;
use crate::parallel::{least_run, threads};
use crate::tile::{Chain, multiply, panels_len};

/// Depth of a block: a panel of it about fills the first-level cache.
const DEPTH: usize = 512;
/// Rows of `a` and columns of `b` that share the second-level cache at that depth.
const ROWS: usize = 96;
const COLS: usize = 128;
/// Distance between packed rows of `a`: not a power of two, so that they do not share cache sets.
const LEFT_STRIDE: usize = DEPTH + 16;
/// Most rows and columns of a task: each packs its rows of `a` and columns of `b` once.
const TASK_ROWS: usize = 768;
const TASK_COLS: usize = 768;
/// Multiply-adds below which a task is not worth handing to another thread.
const GRAIN: usize = 1 << 19;

/// `c = a · b`, begun and ended as `chain` says.
pub(crate) fn product<T: Element>(
    shape: Shape,
    a: Strided<'_>,
    b: Right<'_, T>,
    c: &mut [f32],
    chain: Chain<'_>,
) {
    product_with(Level::active(), shape, a, b, c, chain);
}

/// [`product`] with the instructions of `with`.
pub(crate) fn product_with<T: Element>(
    with: impl Evaluate,
    shape: Shape,
    a: Strided<'_>,
    b: Right<'_, T>,
    c: &mut [f32],
    chain: Chain<'_>,
) {
    let Shape { m, n, .. } = shape;
    if m == 0 || n == 0 {
        return;
    }
    let grid = Grid::new(c, n);
    let cut = Cut::new(shape, threads());
    let run = |index: usize| {
        let (rows, cols) = cut.task(index);
        // SAFETY: tasks are the cells of one partition of c.
        let c = unsafe { grid.tile(rows.clone(), cols.clone()) };
        with.evaluate(FloatTiles { k: shape.k, a: a.skip(rows.start, 0), b, cols, c, chain });
    };
    if cut.count() == 1 {
        run(0);
    } else {
        (0..cut.count()).into_par_iter().with_min_len(least_run()).with_max_len(least_run()).for_each(run);
    }
}

/// A partition of `c` into equal rectangles.
struct Cut {
    shape: Shape,
    rows: usize,
    cols: usize,
}

impl Cut {
    fn new(shape: Shape, threads: usize) -> Self {
        let Shape { m, n, k } = shape;
        let even = |total: usize, most: usize, unit: usize| {
            total.div_ceil(total.div_ceil(most)).next_multiple_of(unit)
        };
        let mut cut = Self { shape, rows: even(m, TASK_ROWS, 12), cols: even(n, TASK_COLS, 32) };
        // Enough tasks that the last one to finish does not leave the others idle for long.
        while threads > 1 && cut.count() < 4 * threads && cut.rows * cut.cols * k > 2 * GRAIN {
            if cut.cols >= cut.rows && cut.cols > 32 {
                cut.cols = (cut.cols / 2).next_multiple_of(32);
            } else if cut.rows > 12 {
                cut.rows = (cut.rows / 2).next_multiple_of(12);
            } else {
                break;
            }
        }
        cut
    }

    fn across(&self) -> usize {
        self.shape.n.div_ceil(self.cols)
    }

    fn count(&self) -> usize {
        self.across() * self.shape.m.div_ceil(self.rows)
    }

    fn task(&self, index: usize) -> (Range<usize>, Range<usize>) {
        let (i, j) = (index / self.across() * self.rows, index % self.across() * self.cols);
        (i..self.shape.m.min(i + self.rows), j..self.shape.n.min(j + self.cols))
    }
}

/// One tile of `c` over the full depth.
struct FloatTiles<'a, T> {
    k: usize,
    /// From the tile's first row.
    a: Strided<'a>,
    b: Right<'a, T>,
    cols: Range<usize>,
    c: Tile<'a>,
    chain: Chain<'a>,
}

impl<T: Element> Op for FloatTiles<'_, T> {
    type Out = ();

    #[inline(always)]
    fn eval<S: Simd>(mut self, simd: S) {
        let (m, n, k) = (self.c.rows(), self.c.cols(), self.k);
        let panels = panels_len::<S>(COLS.min(n), DEPTH.min(k));
        // Short whole rows already lie densely in cache; others are copied so that they do.
        let direct = self.a.col == 1 && k <= DEPTH;
        let left = if direct { 0 } else { m * LEFT_STRIDE };
        let mut scratch = Scratch::take(panels + left);
        let (panels, left) = scratch.slice().split_at_mut(panels);
        // A product of depth zero still writes c, hence the single empty block.
        for start in (0..k.max(1)).step_by(DEPTH) {
            let depth = start..k.min(start + DEPTH);
            let mut a = self.a.skip(0, start);
            if !direct {
                a = pack_left(simd, a, m, depth.len(), left);
            }
            for j in (0..n).step_by(COLS) {
                let cols = j..n.min(j + COLS);
                let in_b = self.cols.start + cols.start..self.cols.start + cols.end;
                self.b.pack(simd, depth.clone(), in_b.clone(), panels);
                let mut chain = Chain { carry: self.chain.carry || start > 0, bias: None };
                if let Some(bias) = self.chain.bias
                    && depth.end == k
                {
                    chain.bias = Some(&bias[in_b]);
                }
                for i in (0..m).step_by(ROWS) {
                    let c = self.c.part(i..m.min(i + ROWS), cols.clone());
                    multiply(simd, a.skip(i, 0), depth.len(), panels, c, chain);
                }
            }
        }
    }
}

/// Copies `[rows, k]` of `a` to dense rows.
#[inline(always)]
fn pack_left<'s, S: Simd>(simd: S, a: Strided<'_>, rows: usize, k: usize, to: &'s mut [f32]) -> Strided<'s> {
    assert!(a.covers(rows, k) && k <= LEFT_STRIDE && rows * LEFT_STRIDE <= to.len());
    if a.col == 1 {
        for (i, to) in to.chunks_exact_mut(LEFT_STRIDE).enumerate().take(rows) {
            to[..k].copy_from_slice(&a.data[i * a.row..][..k]);
        }
    } else {
        let (whole_rows, whole_k) = if a.row == 1 { (rows / 8 * 8, k / 8 * 8) } else { (0, 0) };
        for p in (0..whole_k).step_by(8) {
            for i in (0..whole_rows).step_by(8) {
                // SAFETY: an 8x8 block inside the `[rows, k]` that was checked on both sides.
                unsafe {
                    let source = a.data.as_ptr().add(p * a.col + i);
                    simd.transpose8(source, a.col, to.as_mut_ptr().add(i * LEFT_STRIDE + p), LEFT_STRIDE);
                }
            }
        }
        for i in 0..rows {
            let done = if i < whole_rows { whole_k } else { 0 };
            for p in done..k {
                to[i * LEFT_STRIDE + p] = a.data[i * a.row + p * a.col];
            }
        }
    }
    Strided { data: to, row: LEFT_STRIDE, col: 1 }
}
