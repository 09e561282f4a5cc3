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
            // A product of depth zero still writes its bias: one group of nothing.
            let groups = layout.groups().max(1);
            let order = Order { groups, some, most, together };
            // Beyond the task's own panels it looks at the next ones, which the same thread will most likely have.
            let mut ahead = order.turns(self.panels.start, self.output.panels()).skip(AHEAD);
            for turn in order.turns(self.panels.start, self.panels.end) {
                let block = turn.block.clone();
                let sums = &mut sums.slice()[..rows.len() * block.len() * COLS];
                if turn.begins_block() {
                    sums.fill(0.0);
                }
                let start = (turn.unit.start - block.start) * COLS * rows.len();
                let mine = &mut sums[start..start + turn.unit.len() * COLS * rows.len()];
                if layout.groups() > 0 {
                    let next = ahead.next().map_or([[].as_slice(); MOST_VECTORS], |next| self.packed(&next));
                    self.group(dot, &turn, next, rows.clone(), buffer.slice(), mine);
                }
                if turn.ends_block(groups) {
                    match self.output.of {
                        Of::One(_) => self.write(rows.clone(), block, sums),
                        Of::Gated { .. } => self.write_gated(dot, rows.clone(), block, sums),
                    }
                }
            }
        }
    }
}

/// How many turns before theirs weights are fetched from memory.
const AHEAD: usize = 1;

/// The order in which a task takes groups and panels: block by block of panels; in a block some groups at a time, so that
/// their activations stay near; of these one column of tiles after the other, all groups of each in turn, so that its sums stay
/// in the first-level cache.
#[derive(Clone, Copy)]
struct Order {
    /// Groups of the depth, and how many are taken at a time.
    groups: usize,
    some: usize,
    /// Panels of a block and of a column of tiles.
    most: usize,
    together: usize,
}

/// One group of some panels.
#[derive(Clone)]
struct Turn {
    block: Range<usize>,
    groups: Range<usize>,
    unit: Range<usize>,
    group: usize,
}

impl Turn {
    /// Whether nothing was added to the sums of the block yet.
    #[inline(always)]
    fn begins_block(&self) -> bool {
        self.group == 0 && self.unit.start == self.block.start
    }

    /// Whether nothing is left to be added to the sums of the block.
    #[inline(always)]
    fn ends_block(&self, groups: usize) -> bool {
        self.group + 1 == groups && self.unit.end == self.block.end
    }
}

impl Order {
    /// All turns of the panels in `start..end`.
    #[inline(always)]
    fn turns(self, start: usize, end: usize) -> Turns {
        Turns { order: self, end, next: self.block(start, end) }
    }

    /// The first turn of the block from `start` on, if there is anything.
    #[inline(always)]
    fn block(&self, start: usize, end: usize) -> Option<Turn> {
        let block = start..end.min(start + self.most);
        let groups = 0..self.groups.min(self.some);
        (start < end).then(|| Turn { unit: self.unit(&block, start), block, groups, group: 0 })
    }

    /// The column of tiles from panel `start` on: as many panels together as fit a tile, the rest one by one.
    #[inline(always)]
    fn unit(&self, block: &Range<usize>, start: usize) -> Range<usize> {
        if start + self.together <= block.end { start..start + self.together } else { start..start + 1 }
    }
}

struct Turns {
    order: Order,
    end: usize,
    next: Option<Turn>,
}

impl Iterator for Turns {
    type Item = Turn;

    #[inline(always)]
    fn next(&mut self) -> Option<Turn> {
        let turn = self.next.take()?;
        let (order, Turn { block, groups, unit, group }) = (self.order, turn.clone());
        self.next = if group + 1 < groups.end {
            Some(Turn { group: group + 1, ..turn.clone() })
        } else if unit.end < block.end {
            Some(Turn { unit: order.unit(&block, unit.end), group: groups.start, ..turn.clone() })
        } else if groups.end < order.groups {
            let some = groups.end..order.groups.min(groups.end + order.some);
            Some(Turn { unit: order.unit(&block, block.start), group: some.start, groups: some, block })
        } else {
            order.block(block.end, self.end)
        };
        Some(turn)
    }
}

impl<D: Dot> RowsByPanels<'_, D> {
    /// The packed weights of a turn.
    #[inline(always)]
    fn packed(&self, turn: &Turn) -> [&[u8]; MOST_VECTORS] {
        let mut packed: [&[u8]; MOST_VECTORS] = [&[]; MOST_VECTORS];
        for (packed, panel) in packed.iter_mut().zip(turn.unit.clone()) {
            let (w, panel) = self.output.panel(panel);
            *packed = w.group_bytes(&self.acts.places, panel, turn.group);
        }
        packed
    }

    /// Adds one group's products to the sums of a column of tiles.
    #[inline(always)]
    fn group(
        &self,
        dot: D,
        turn: &Turn,
        next: [&[u8]; MOST_VECTORS],
        rows: Range<usize>,
        mut buffer: &mut [D::Weight],
        sums: &mut [f32],
    ) {
        let (group, panels) = (turn.group, turn.unit.clone());
        let Acts { m, ref places, data, scales, starts, .. } = self.acts;
        let filled = places.filled(group);
        let whole = |rows: usize| rows.next_multiple_of(D::ROWS);
        let acts =
            &data[places.start(group) * whole(m) + rows.start * filled..][..whole(rows.len()) * filled];
        let (at, count) = (group * m + rows.start, rows.len());

        let mut rooms = [[[0.0; COLS]; 2]; MOST_PANELS];
        let mut operands = [Panel::<D>::EMPTY; MOST_PANELS];
        for ((operand, room), panel) in operands.iter_mut().zip(&mut rooms).zip(panels.clone()) {
            let (w, panel) = self.output.panel(panel);
            let wanted = if D::PREPARES { filled * COLS } else { 0 };
            let (mine, rest) = std::mem::take(&mut buffer).split_at_mut(wanted);
            buffer = rest;
            operand.weights = dot.prepare(w.group_bytes(places, panel, group), mine, &mut operand.starts);
            (operand.scales, operand.offsets) = w.group_scales(dot.float(), places, panel, group, room);
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
