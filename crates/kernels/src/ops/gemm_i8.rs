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
use crate::tile_i8::Tile;

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
        let mut data = Scratch::take(m * layout.depth());
        let mut scales = Scratch::take(m * layout.groups());
        let mut sums = Scratch::take(m * layout.groups());
        quantize_rows(dot, self.a, m, layout, data.slice(), scales.slice(), sums.slice());
        let acts = Acts::<D> { m, layout, data: data.slice(), scales: scales.slice(), sums: sums.slice() };
        let grid = Grid::new(self.c, layout.n);
        let cut = Cut::new::<D>(m, layout);
        let run = |index: usize| {
            let (rows, panels) = cut.task(index);
            dot.isolate_dot(Task { acts, w: self.w, bias: self.bias, rows, panels, c: grid });
        };
        if cut.count() == 1 {
            run(0);
        } else {
            (0..cut.count()).into_par_iter().with_max_len(1).for_each(run);
        }
    }
}

/// Quantised rows, group by group so that what a tile reads together lies together: `[group][m][depth of the group]`,
/// with scales and sums `[group][m]`.
#[derive(Clone, Copy)]
struct Acts<'a, D: Dot> {
    m: usize,
    layout: Layout,
    data: &'a [D::Act],
    scales: &'a [f32],
    sums: &'a [i32],
}

/// Rows quantised by one task.
const QUANTIZE_ROWS: usize = 64;

fn quantize_rows<D: Dot>(
    dot: D,
    a: &[f32],
    m: usize,
    layout: Layout,
    data: &mut [D::Act],
    scales: &mut [f32],
    sums: &mut [i32],
) {
    if layout.k == 0 {
        return;
    }
    let step = m * layout.group.next_multiple_of(DEPTH);
    let groups = data.par_chunks_mut(step).zip(scales.par_chunks_mut(m)).zip(sums.par_chunks_mut(m));
    groups.enumerate().for_each(|(group, ((data, scales), sums))| {
        let filled = layout.filled(group);
        let rows = data.par_chunks_mut(QUANTIZE_ROWS * filled).zip(scales.par_chunks_mut(QUANTIZE_ROWS));
        rows.zip(sums.par_chunks_mut(QUANTIZE_ROWS)).enumerate().for_each(
            |(chunk, ((data, scales), sums))| {
                let a = &a[chunk * QUANTIZE_ROWS * layout.k..];
                dot.isolate_dot(Quantize {
                    a,
                    k: layout.k,
                    depths: layout.depths(group),
                    data,
                    scales,
                    sums,
                });
            },
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
    sums: &'a mut [i32],
}

impl<D: Dot> DotOp<D> for Quantize<'_, D> {
    type Out = ();

    #[inline(always)]
    fn eval(self, _: D) {
        let filled = self.depths.len().next_multiple_of(DEPTH);
        let outputs = self.scales.iter_mut().zip(self.sums);
        for (i, (data, (scale, sum))) in self.data.chunks_exact_mut(filled).zip(outputs).enumerate() {
            let row = &self.a[i * self.k..][self.depths.clone()];
            let (data, filling) = data.split_at_mut(row.len());
            let step = Step::of(row);
            let mut total = 0i32;
            for (data, &x) in data.iter_mut().zip(row) {
                let q = step.round(x);
                total += i32::from(q);
                *data = D::act(q);
            }
            filling.fill(D::act(0));
            (*scale, *sum) = (step.scale, total);
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
        while cut.count() < 4 * rayon::current_num_threads() {
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
        let deepest = layout.group.min(layout.k).next_multiple_of(DEPTH) * COLS;
        let mut sums = Scratch::take(D::BLOCK_ROWS * D::BLOCK_PANELS * COLS);
        let mut buffer = Scratch::take(if D::OFFSET == 0 { D::BLOCK_PANELS * deepest } else { 0 });
        for i in self.rows.clone().step_by(D::BLOCK_ROWS) {
            let rows = i..self.rows.end.min(i + D::BLOCK_ROWS);
            for p in self.panels.clone().step_by(D::BLOCK_PANELS) {
                let panels = p..self.panels.end.min(p + D::BLOCK_PANELS);
                let sums = &mut sums.slice()[..rows.len() * panels.len() * COLS];
                sums.fill(0.0);
                for group in 0..layout.groups() {
                    self.group(dot, group, rows.clone(), panels.clone(), buffer.slice(), sums);
                }
                self.write(rows.clone(), panels, sums);
            }
        }
    }
}

impl<D: Dot> Task<'_, D> {
    /// Adds one group's products to the sums of a block.
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
        let Acts { m, layout, data, scales, sums: act_sums } = self.acts;
        let filled = layout.filled(group);
        let acts = &data[layout.start(group) * m + rows.start * filled..][..rows.len() * filled];
        let (at, count) = (group * m + rows.start, rows.len());
        let (scales, act_sums) = (&scales[at..at + count], &act_sums[at..at + count]);

        let mut operands: [(&[D::Weight], &[f32]); MOST_PANELS] = [(&[], &[]); MOST_PANELS];
        for (operand, panel) in operands.iter_mut().zip(panels.clone()) {
            let bytes = self.w.group_bytes(panel, group);
            let wanted = if D::OFFSET == 0 { bytes.len() } else { 0 };
            let (mine, rest) = std::mem::take(&mut buffer).split_at_mut(wanted);
            buffer = rest;
            *operand = (dot.prepare(bytes, mine), self.w.group_scales(panel, group));
            assert!(operand.0.len() == filled * COLS);
        }
        let mut start = 0;
        for unit in units::<D>(panels.len()) {
            let width = unit.len() * COLS;
            let sums = &mut sums[start * count..][..count * width];
            start += width;
            let tile = Tile {
                steps: filled / D::STEP,
                acts,
                filled,
                scales,
                sums: act_sums,
                panels: &operands[unit],
                c: sums,
            };
            tile.run(dot);
        }
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

/// Most panels in a block of any instruction set.
const MOST_PANELS: usize = 4;

/// The panels of a block as register tiles take them: as many together as fit, the rest one by one.
#[inline(always)]
fn units<D: Dot>(panels: usize) -> impl Iterator<Item = Range<usize>> {
    let together = D::VECTORS * D::LANES / COLS;
    let whole = panels / together;
    (0..whole)
        .map(move |u| u * together..(u + 1) * together)
        .chain((whole * together..panels).map(|p| p..p + 1))
}
