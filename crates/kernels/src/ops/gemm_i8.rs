//! `c = a·wᵀ + bias` with quantised weights: activations become bytes row by row and group by group on the fly.
//!
//! Invariant: an element is `Σ_g fma(sum_g, scale_a·scale_w, ·)` over the groups in order, each `sum_g` an exact 32-bit
//! sum of byte products, then the bias. It is therefore bit-identical whatever `m`, the threads, the batch and the
//! instruction set. A row with a number that is not finite gives NaN.

use std::ops::Range;

use rayon::prelude::*;

use crate::arch::{COLS, DEPTH, Dot, DotOp, WithDot};
use crate::dispatch::Level;
use crate::memory::{Grid, Scratch};
use crate::ops::quantize::{Layout, QuantizedWeights, Step};
use crate::parallel::{least_run, threads};
use crate::tile_i8::{Panel, Tile};

/// `c[m, n] = a[m, k] · w[n, k]ᵀ (+ bias[n])` with `w` quantised.
///
/// # Panics
/// If a slice length disagrees with the shape.
pub fn gemm_i8(a: &[f32], m: usize, w: &QuantizedWeights<'_>, bias: Option<&[f32]>, c: &mut [f32]) {
    let Layout { n, k, .. } = w.layout();
    assert_eq!(a.len(), m * k, "gemm_i8: a must be [m, k]");
    assert_eq!(c.len(), m * n, "gemm_i8: c must be [m, n]");
    if let Some(bias) = bias {
        assert_eq!(bias.len(), n, "gemm_i8: bias must be [n]");
    }
    if m > 0 && n > 0 {
        Level::active().with_bytes(Gemm { a, m, w, bias, c });
    }
}

struct Gemm<'a> {
    a: &'a [f32],
    m: usize,
    w: &'a QuantizedWeights<'a>,
    bias: Option<&'a [f32]>,
    c: &'a mut [f32],
}

impl WithDot for Gemm<'_> {
    type Out = ();

    fn with<D: Dot>(self, dot: D) {
        let (m, layout) = (self.m, self.w.layout());
        let mut data = Scratch::take(m.next_multiple_of(D::ROWS) * layout.depth());
        let mut scales = Scratch::take(m * layout.groups());
        let mut starts = Scratch::take(m * layout.groups());
        quantize_rows(dot, self.a, m, layout, data.slice(), scales.slice(), starts.slice());
        let acts =
            Acts::<D> { m, layout, data: data.slice(), scales: scales.slice(), starts: starts.slice() };
        let grid = Grid::new(self.c, layout.n);
        let cut = Cut::new::<D>(m, layout);
        let run = |index: usize| {
            let (rows, panels) = cut.task(index);
            dot.isolate_dot(Task { acts, w: self.w, bias: self.bias, rows, panels, c: grid });
        };
        if cut.count() == 1 {
            run(0);
        } else {
            (0..cut.count())
                .into_par_iter()
                .with_min_len(least_run())
                .with_max_len(least_run())
                .for_each(run);
        }
    }
}

/// Quantised rows in the order tiles read them: `[group][m / ROWS][steps of the group][ROWS][STEP]`, the rows filled up
/// to whole tiles, with scales and what sums start from `[group][m]`.
#[derive(Clone, Copy)]
struct Acts<'a, D: Dot> {
    m: usize,
    layout: Layout,
    data: &'a [D::Act],
    scales: &'a [f32],
    starts: &'a [i32],
}

/// Rows quantised by one task: whole tiles of every instruction set.
const QUANTIZE_ROWS: usize = 48;
/// Elements below which one thread quantises all of them.
const QUANTIZE_GRAIN: usize = 32 * 1024;

fn quantize_rows<D: Dot>(
    dot: D,
    a: &[f32],
    m: usize,
    layout: Layout,
    data: &mut [D::Act],
    scales: &mut [f32],
    starts: &mut [i32],
) {
    if layout.k == 0 {
        return;
    }
    let step = m.next_multiple_of(D::ROWS) * layout.group.next_multiple_of(DEPTH);
    let quantize = |group, first: usize, data, scales, starts| {
        let (a, depths) = (&a[first * layout.k..], layout.depths(group));
        dot.isolate_dot(Quantize { a, k: layout.k, depths, data, scales, starts });
    };
    if m * layout.k < QUANTIZE_GRAIN {
        // Handing so little to other threads would cost more than it.
        let groups = data.chunks_mut(step).zip(scales.chunks_mut(m)).zip(starts.chunks_mut(m));
        for (group, ((data, scales), starts)) in groups.enumerate() {
            quantize(group, 0, data, scales, starts);
        }
        return;
    }
    let groups = data.par_chunks_mut(step).zip(scales.par_chunks_mut(m)).zip(starts.par_chunks_mut(m));
    groups.enumerate().with_min_len(least_run()).for_each(|(group, ((data, scales), starts))| {
        let chunk = QUANTIZE_ROWS * layout.filled(group);
        let rows = data.par_chunks_mut(chunk).zip(scales.par_chunks_mut(QUANTIZE_ROWS));
        rows.zip(starts.par_chunks_mut(QUANTIZE_ROWS)).enumerate().with_min_len(least_run()).for_each(
            |(chunk, ((data, scales), starts))| quantize(group, chunk * QUANTIZE_ROWS, data, scales, starts),
        );
    });
}

/// One group of some rows.
struct Quantize<'a, D: Dot> {
    /// From the first row on.
    a: &'a [f32],
    k: usize,
    depths: Range<usize>,
    data: &'a mut [D::Act],
    scales: &'a mut [f32],
    starts: &'a mut [i32],
}

impl<D: Dot> DotOp<D> for Quantize<'_, D> {
    type Out = ();

    #[inline(always)]
    fn eval(self, dot: D) {
        let filled = self.depths.len().next_multiple_of(DEPTH);
        let mut line = Scratch::take(filled);
        let line = line.slice();
        line[self.depths.len()..].fill(D::act(0));
        let outputs = self.scales.iter_mut().zip(self.starts);
        for (i, (scale, start)) in outputs.enumerate() {
            let row = &self.a[i * self.k..][self.depths.clone()];
            let step = Step::of(row);
            dot.quantize(row, step.inverse, line);
            (*scale, *start) = (step.scale, dot.row_start(line));
            let tile = &mut self.data[i / D::ROWS * D::ROWS * filled..][..D::ROWS * filled];
            let steps = tile.chunks_exact_mut(D::ROWS * D::STEP).zip(line.chunks_exact(D::STEP));
            for (to, from) in steps {
                to[i % D::ROWS * D::STEP..][..D::STEP].copy_from_slice(from);
            }
        }
    }
}

/// A partition of `c` into rectangles of whole panels.
struct Cut {
    m: usize,
    layout: Layout,
    rows: usize,
    panels: usize,
}

/// Bytes of weights that pass over several blocks of rows from the second-level cache.
const WEIGHT_BYTES: usize = 256 * 1024;
/// Byte products below which a task is not worth handing to another thread.
const GRAIN: usize = 1 << 20;

impl Cut {
    fn new<D: Dot>(m: usize, layout: Layout) -> Self {
        let unit = D::BLOCK_PANELS;
        let most = (WEIGHT_BYTES / (COLS * layout.depth().max(1))).max(1).next_multiple_of(unit);
        let mut cut = Self { m, layout, rows: m.min(8 * D::BLOCK_ROWS), panels: most.min(layout.panels()) };
        while threads() > 1 && cut.count() < 4 * threads() {
            if cut.rows * cut.panels * COLS * layout.k < 2 * GRAIN {
                break;
            } else if cut.panels > unit {
                cut.panels = (cut.panels / 2).next_multiple_of(unit);
            } else if cut.rows > D::BLOCK_ROWS {
                cut.rows = (cut.rows / 2).next_multiple_of(D::ROWS);
            } else {
                break;
            }
        }
        cut
    }

    fn across(&self) -> usize {
        self.layout.panels().div_ceil(self.panels)
    }

    fn count(&self) -> usize {
        self.across() * self.m.div_ceil(self.rows)
    }

    fn task(&self, index: usize) -> (Range<usize>, Range<usize>) {
        let (i, p) = (index / self.across() * self.rows, index % self.across() * self.panels);
        (i..self.m.min(i + self.rows), p..self.layout.panels().min(p + self.panels))
    }
}

/// One rectangle of `c`.
struct Task<'a, D: Dot> {
    acts: Acts<'a, D>,
    w: &'a QuantizedWeights<'a>,
    bias: Option<&'a [f32]>,
    rows: Range<usize>,
    panels: Range<usize>,
    c: Grid<'a>,
}

impl<D: Dot> DotOp<D> for Task<'_, D> {
    type Out = ();

    #[inline(always)]
    fn eval(self, dot: D) {
        let layout = self.acts.layout;
        let together = D::VECTORS * D::LANES / COLS;
        let deepest = layout.group.min(layout.k).next_multiple_of(DEPTH) * COLS;
        let mut sums = Scratch::take(D::BLOCK_ROWS * D::BLOCK_PANELS * COLS);
        let mut buffer = Scratch::take(if D::PREPARES { together * deepest } else { 0 });
        for i in self.rows.clone().step_by(D::BLOCK_ROWS) {
            let rows = i..self.rows.end.min(i + D::BLOCK_ROWS);
            for p in self.panels.clone().step_by(D::BLOCK_PANELS) {
                let panels = p..self.panels.end.min(p + D::BLOCK_PANELS);
                let sums = &mut sums.slice()[..rows.len() * panels.len() * COLS];
                sums.fill(0.0);
                let some = (BLOCK_DEPTHS / layout.group).max(1);
                for first in (0..layout.groups()).step_by(some) {
                    let groups = first..layout.groups().min(first + some);
                    self.groups(dot, groups, rows.clone(), panels.clone(), buffer.slice(), sums);
                }
                self.write(rows.clone(), panels, sums);
            }
        }
    }
}

impl<D: Dot> Task<'_, D> {
    /// Adds some groups' products to the sums of a block: one column of tiles after the other, each group after group,
    /// so that its sums stay in the first-level cache.
    #[inline(always)]
    fn groups(
        &self,
        dot: D,
        groups: Range<usize>,
        rows: Range<usize>,
        panels: Range<usize>,
        buffer: &mut [D::Weight],
        mut sums: &mut [f32],
    ) {
        for unit in units::<D>(panels.len()) {
            let (mine, rest) = std::mem::take(&mut sums).split_at_mut(rows.len() * unit.len() * COLS);
            sums = rest;
            let unit = panels.start + unit.start..panels.start + unit.end;
            for group in groups.clone() {
                self.group(dot, group, rows.clone(), unit.clone(), buffer, mine);
            }
        }
    }

    /// Adds one group's products to the sums of a column of tiles.
    #[inline(always)]
    fn group(
        &self,
        dot: D,
        group: usize,
        rows: Range<usize>,
        panels: Range<usize>,
        mut buffer: &mut [D::Weight],
        sums: &mut [f32],
    ) {
        let Acts { m, layout, data, scales, starts } = self.acts;
        let filled = layout.filled(group);
        let whole = |rows: usize| rows.next_multiple_of(D::ROWS);
        let acts =
            &data[layout.start(group) * whole(m) + rows.start * filled..][..whole(rows.len()) * filled];
        let (at, count) = (group * m + rows.start, rows.len());

        let mut operands = [Panel::<D> { weights: &[], scales: &[], starts: [0; COLS] }; MOST_PANELS];
        for (operand, panel) in operands.iter_mut().zip(panels.clone()) {
            let bytes = self.w.group_bytes(panel, group);
            let wanted = if D::PREPARES { bytes.len() } else { 0 };
            let (mine, rest) = std::mem::take(&mut buffer).split_at_mut(wanted);
            buffer = rest;
            operand.weights = dot.prepare(bytes, mine, &mut operand.starts);
            operand.scales = self.w.group_scales(panel, group);
        }
        let tile = Tile {
            steps: filled / D::STEP,
            acts,
            filled,
            scales: &scales[at..at + count],
            starts: &starts[at..at + count],
            panels: &operands[..panels.len()],
            c: sums,
        };
        tile.run(dot);
    }

    /// Adds the bias and writes a block of `c`.
    #[inline(always)]
    fn write(&self, rows: Range<usize>, panels: Range<usize>, sums: &[f32]) {
        let (n, mut start) = (self.acts.layout.n, 0);
        for unit in units::<D>(panels.len()) {
            let width = unit.len() * COLS;
            let first = (panels.start + unit.start) * COLS;
            let cols = first..n.min(first + width);
            // SAFETY: tasks are the cells of one partition of c, and this one writes its blocks one after another.
            let mut c = unsafe { self.c.tile(rows.clone(), cols.clone()) };
            let block = &sums[start * rows.len()..][..rows.len() * width];
            for (i, sums) in block.chunks_exact(width).enumerate() {
                let row = c.row(i);
                row.copy_from_slice(&sums[..cols.len()]);
                if let Some(bias) = self.bias {
                    row.iter_mut().zip(&bias[cols.clone()]).for_each(|(c, bias)| *c += bias);
                }
            }
            start += width;
        }
    }
}

/// Most panels in a register tile of any instruction set.
const MOST_PANELS: usize = 3;

/// Depths whose activations stay in the second-level cache while a block's panels pass over them.
const BLOCK_DEPTHS: usize = 256;

/// The panels of a block as register tiles take them: as many together as fit, the rest one by one.
#[inline(always)]
fn units<D: Dot>(panels: usize) -> impl Iterator<Item = Range<usize>> {
    let together = D::VECTORS * D::LANES / COLS;
    let whole = panels / together;
    (0..whole)
        .map(move |u| u * together..(u + 1) * together)
        .chain((whole * together..panels).map(|p| p..p + 1))
}
