//! Copies a block of the right-hand matrix into the panels [`crate::tile`] reads, widening to `f32` on the way.
//!
//! Panel `j` holds columns `j·width ..`, depth by depth, zero beyond the last column.

use std::ops::Range;

use crate::arch::{Element, Simd};
use crate::tile::panel_width;

/// The right-hand matrix `b[k, n]`: element `(p, j)` is `data[p * row + j * col]`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Right<'a, T> {
    data: &'a [T],
    row: usize,
    col: usize,
}

impl<'a, T: Element> Right<'a, T> {
    /// # Panics
    /// If `[k, n]` leaves the data.
    pub(crate) fn new(data: &'a [T], row: usize, col: usize, k: usize, n: usize) -> Self {
        let covers = k == 0 || n == 0 || (k - 1) * row + (n - 1) * col < data.len();
        assert!(covers, "the right-hand matrix does not cover [{k}, {n}]");
        Self { data, row, col }
    }

    /// Packs `depth` x `cols` into `panels`.
    ///
    /// # Panics
    /// If the block leaves the data or the panels are too short.
    #[inline(always)]
    pub(crate) fn pack<S: Simd>(&self, simd: S, depth: Range<usize>, cols: Range<usize>, panels: &mut [f32]) {
        let width = panel_width::<S>();
        let k = depth.len();
        if k == 0 || cols.is_empty() {
            return;
        }
        assert!((depth.end - 1) * self.row + (cols.end - 1) * self.col < self.data.len());
        if self.col == 1 {
            self.copy_rows(simd, depth, cols, panels);
            return;
        }
        for (panel, j) in panels.chunks_exact_mut(k * width).zip(cols.clone().step_by(width)) {
            let count = width.min(cols.end - j);
            let from = depth.start * self.row + j * self.col;
            if self.row == 1 {
                self.transpose(simd, from, k, count, panel);
            } else {
                self.gather::<S>(from, k, 0..count, 0..k, panel);
            }
            clear::<S>(panel, count);
        }
    }

    /// Columns are neighbours: each row is read once from end to end and dealt out to the panels.
    #[inline(always)]
    fn copy_rows<S: Simd>(&self, simd: S, depth: Range<usize>, cols: Range<usize>, panels: &mut [f32]) {
        let (width, k) = (panel_width::<S>(), depth.len());
        assert!(panels.len() >= cols.len().next_multiple_of(width) * k);
        for p in 0..k {
            let row = &self.data[(depth.start + p) * self.row..][cols.clone()];
            let blocks = row.chunks_exact(width);
            let tail = blocks.remainder();
            for (j, block) in blocks.enumerate() {
                let line = &mut panels[(j * k + p) * width..][..width];
                for i in (0..width).step_by(8) {
                    // SAFETY: block and line are `width` long, a multiple of eight.
                    unsafe { simd.copy8(block.as_ptr().add(i), line.as_mut_ptr().add(i)) };
                }
            }
            if !tail.is_empty() {
                let line = &mut panels[(cols.len() / width * k + p) * width..][..width];
                line[tail.len()..].fill(0.0);
                for (to, x) in line.iter_mut().zip(tail) {
                    *to = x.widen();
                }
            }
        }
    }

    /// Depths are neighbours (PyTorch's `[n, k]`): 8x8 blocks are turned in registers.
    #[inline(always)]
    fn transpose<S: Simd>(&self, simd: S, from: usize, k: usize, count: usize, panel: &mut [f32]) {
        let width = panel_width::<S>();
        let (blocks, whole) = (count / 8, k / 8 * 8);
        for p in (0..whole).step_by(8) {
            for block in 0..blocks {
                // SAFETY: eight columns of eight depths, all inside the block whose end `pack` checked against the data;
                // the panel holds `k` lines of `width`, of which these are eight lines at `p`.
                unsafe {
                    let source = self.data.as_ptr().add(from + p + block * 8 * self.col);
                    simd.transpose8(source, self.col, panel.as_mut_ptr().add(p * width + block * 8), width);
                }
            }
        }
        self.gather::<S>(from, k, 0..blocks * 8, whole..k, panel);
        self.gather::<S>(from, k, blocks * 8..count, 0..k, panel);
    }

    /// One element at a time.
    #[inline(always)]
    fn gather<S: Simd>(
        &self,
        from: usize,
        k: usize,
        cols: Range<usize>,
        depth: Range<usize>,
        panel: &mut [f32],
    ) {
        let width = panel_width::<S>();
        assert!(panel.len() == k * width);
        for j in cols {
            for p in depth.clone() {
                panel[p * width + j] = self.data[from + p * self.row + j * self.col].widen();
            }
        }
    }
}

/// Zeroes the columns from `count` on.
#[inline(always)]
fn clear<S: Simd>(panel: &mut [f32], count: usize) {
    let width = panel_width::<S>();
    if count < width {
        for line in panel.chunks_exact_mut(width) {
            line[count..].fill(0.0);
        }
    }
}
