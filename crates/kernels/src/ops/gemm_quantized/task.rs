//! One rectangle of a product with quantised weights: blocks of sums that stay in cache, group by group.

use std::ops::Range;

use super::acts::Acts;
use super::{Of, Output};
use crate::arch::{COLS, Dot, DotOp, MOST_VECTORS, Op, Simd};
use crate::memory::Scratch;
use crate::ops::silu_gate::gated;
use crate::tile_bytes::{Panel, Tile};

/// Most panels in a register tile of any instruction set.
const MOST_PANELS: usize = MOST_VECTORS;

/// Depths whose activations stay in the second-level cache while a block's panels pass over them.
const BLOCK_DEPTHS: usize = 256;
/// Activations of a block that stay in the first-level cache: the fewer the rows, the more depths.
const NEAR: usize = 8 * 1024;

/// One rectangle of an output.
pub(super) struct RowsByPanels<'a, D: Dot> {
    pub(super) acts: Acts<'a, D>,
    pub(super) output: Output<'a>,
    pub(super) rows: Range<usize>,
    /// Of all matrices of the output.
    pub(super) panels: Range<usize>,
}

impl<D: Dot> DotOp<D> for RowsByPanels<'_, D> {
    type Out = ();

    #[inline(always)]
    fn eval(self, dot: D) {
        let layout = self.acts.layout;
        let together = D::VECTORS * D::LANES / COLS;
        let most = self.output.block_panels::<D>();
        let mut sums = Scratch::take(D::BLOCK_ROWS.min(self.rows.len()) * most * COLS);
        let mut buffer = Scratch::take(if D::PREPARES { together * layout.deepest() * COLS } else { 0 });
        for i in self.rows.clone().step_by(D::BLOCK_ROWS) {
            let rows = i..self.rows.end.min(i + D::BLOCK_ROWS);
            let some = (BLOCK_DEPTHS.max(NEAR / rows.len()) / layout.group).max(1);
            for p in self.panels.clone().step_by(most) {
                let panels = p..self.panels.end.min(p + most);
                let sums = &mut sums.slice()[..rows.len() * panels.len() * COLS];
                sums.fill(0.0);
                for first in (0..layout.groups()).step_by(some) {
                    let groups = first..layout.groups().min(first + some);
                    self.groups(dot, groups, rows.clone(), panels.clone(), buffer.slice(), sums);
                }
                match self.output.of {
                    Of::One(_) => self.write(rows.clone(), panels, sums),
                    Of::Gated { .. } => self.write_gated(dot, rows.clone(), panels, sums),
                }
            }
        }
    }
}

/// A group of some panels, and the packed weights that are read after it.
struct Turn<'a> {
    group: usize,
    panels: Range<usize>,
    next: [&'a [u8]; MOST_VECTORS],
}

impl<D: Dot> RowsByPanels<'_, D> {
    /// Adds some groups' products to the sums of a block: one column of tiles after the other, all groups of each in
    /// turn, so that its sums stay in the first-level cache.
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
                // What is read next: the group after, or the first of the panels after.
                let next = if group + 1 < groups.end {
                    (unit.clone(), group + 1)
                } else if unit.end < panels.end {
                    (unit.end..panels.end.min(unit.end + unit.len()), groups.start)
                } else {
                    (panels.start..panels.end.min(panels.start + unit.len()), groups.end)
                };
                let turn = Turn { group, panels: unit.clone(), next: self.packed(next.0, next.1) };
                self.group(dot, turn, rows.clone(), buffer, mine);
            }
        }
    }

    /// The packed weights of a group of some panels; none beyond the last group.
    #[inline(always)]
    fn packed(&self, panels: Range<usize>, group: usize) -> [&[u8]; MOST_VECTORS] {
        let mut packed: [&[u8]; MOST_VECTORS] = [&[]; MOST_VECTORS];
        if group < self.acts.layout.groups() {
            for (packed, panel) in packed.iter_mut().zip(panels) {
                let (w, panel) = self.output.panel(panel);
                *packed = w.group_bytes(panel, group);
            }
        }
        packed
    }

    /// Adds one group's products to the sums of a column of tiles.
    #[inline(always)]
    fn group(
        &self,
        dot: D,
        turn: Turn<'_>,
        rows: Range<usize>,
        mut buffer: &mut [D::Weight],
        sums: &mut [f32],
    ) {
        let Turn { group, panels, next } = turn;
        let Acts { m, layout, data, scales, starts } = self.acts;
        let filled = layout.filled(group);
        let whole = |rows: usize| rows.next_multiple_of(D::ROWS);
        let acts =
            &data[layout.start(group) * whole(m) + rows.start * filled..][..whole(rows.len()) * filled];
        let (at, count) = (group * m + rows.start, rows.len());

        let mut operands = [Panel::<D>::EMPTY; MOST_PANELS];
        for (operand, panel) in operands.iter_mut().zip(panels.clone()) {
            let (w, panel) = self.output.panel(panel);
            let wanted = if D::PREPARES { filled * COLS } else { 0 };
            let (mine, rest) = std::mem::take(&mut buffer).split_at_mut(wanted);
            buffer = rest;
            operand.weights = dot.prepare(w.group_bytes(panel, group), mine, &mut operand.starts);
            (operand.scales, operand.offsets) = w.group_scales(dot.float(), panel, group);
        }
        let tile = Tile {
            steps: filled / D::STEP,
            acts,
            filled,
            scales: &scales[at..at + count],
            starts: &starts[at..at + count],
            panels: &operands[..panels.len()],
            next,
            c: sums,
        };
        tile.run(dot);
    }

    /// Adds the bias and writes a block of `c`.
    #[inline(always)]
    fn write(&self, rows: Range<usize>, panels: Range<usize>, sums: &[f32]) {
        let (n, mut start) = (self.output.layout().n, 0);
        for unit in units::<D>(panels.len()) {
            let width = unit.len() * COLS;
            let first = (panels.start + unit.start) * COLS;
            let cols = first..n.min(first + width);
            // SAFETY: tasks are the cells of one partition of c, and this one writes its blocks one after another.
            let mut c = unsafe { self.output.c.tile(rows.clone(), cols.clone()) };
            let block = &sums[start * rows.len()..][..rows.len() * width];
            for (i, sums) in block.chunks_exact(width).enumerate() {
                let row = c.row(i);
                row.copy_from_slice(&sums[..cols.len()]);
                if let Some(bias) = self.output.bias {
                    row.iter_mut().zip(&bias[cols.clone()]).for_each(|(c, bias)| *c += bias);
                }
            }
            start += width;
        }
    }

    /// Writes a block of gated units: gates and what they gate alternate.
    #[inline(always)]
    fn write_gated(&self, dot: D, rows: Range<usize>, panels: Range<usize>, sums: &[f32]) {
        let n = self.output.layout().n;
        for pair in (0..panels.len()).step_by(2) {
            let first = (panels.start + pair) / 2 * COLS;
            let cols = first..n.min(first + COLS);
            // SAFETY: tasks are the cells of one partition of c, and this one writes its blocks one after another.
            let mut c = unsafe { self.output.c.tile(rows.clone(), cols) };
            let [gate, up] = [pair, pair + 1].map(|panel| place::<D>(panels.len(), panel, rows.len()));
            for i in 0..rows.len() {
                let gate = &sums[gate.0 + i * gate.1..][..COLS];
                let up = &sums[up.0 + i * up.1..][..COLS];
                let out = &mut [0.0; COLS];
                dot.float().isolate(Gate { gate, up, out });
                let row = c.row(i);
                row.copy_from_slice(&out[..row.len()]);
            }
        }
    }
}

/// `silu(gate) · up` of a panel's row, as [`crate::ops::silu_gate`] computes it.
struct Gate<'a> {
    gate: &'a [f32],
    up: &'a [f32],
    out: &'a mut [f32; COLS],
}

impl Op for Gate<'_> {
    type Out = ();

    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        for at in (0..COLS).step_by(S::LANES) {
            let (gate, up) = (simd.read(&self.gate[at..]), simd.read(&self.up[at..]));
            simd.write(&mut self.out[at..], gated(simd, gate, up));
        }
    }
}

/// The panels of a block as register tiles take them: as many together as fit, the rest one by one.
#[inline(always)]
fn units<D: Dot>(panels: usize) -> impl Iterator<Item = Range<usize>> {
    let together = D::VECTORS * D::LANES / COLS;
    let whole = panels / together;
    (0..whole)
        .map(move |u| u * together..(u + 1) * together)
        .chain((whole * together..panels).map(|p| p..p + 1))
}

/// Where panel `panel` of a block of `panels` begins among its sums of `rows` rows, and how far its rows are apart.
#[inline(always)]
fn place<D: Dot>(panels: usize, panel: usize, rows: usize) -> (usize, usize) {
    let together = D::VECTORS * D::LANES / COLS;
    let whole = panels / together * together;
    if panel < whole {
        let unit = panel / together * together;
        (unit * COLS * rows + (panel - unit) * COLS, together * COLS)
    } else {
        (panel * COLS * rows, COLS)
    }
}
