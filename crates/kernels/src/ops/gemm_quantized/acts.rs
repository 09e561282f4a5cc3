//! Activations as bytes: each row and group of depths with its own scale, in the order the tiles read them.

use std::ops::Range;

use rayon::prelude::*;

use crate::arch::{Dot, DotOp};
use crate::memory::Scratch;
use crate::ops::quantize::{Layout, Places, Step};
use crate::parallel::least_run;

/// Quantised rows in the order tiles read them: `[group][m / ROWS][steps of the group][ROWS][STEP]`, the rows filled up
/// to whole tiles, with scales and what sums start from `[group][m]`.
#[derive(Clone, Copy)]
pub(super) struct Acts<'a, D: Dot> {
    pub(super) m: usize,
    pub(super) layout: Layout,
    /// Those of the layout.
    pub(super) places: Places,
    pub(super) data: &'a [D::Act],
    pub(super) scales: &'a [f32],
    pub(super) starts: &'a [i32],
}

/// Rows quantised by one task: whole tiles of every instruction set.
const QUANTIZE_ROWS: usize = 48;
/// Elements below which one thread quantises all of them.
const QUANTIZE_GRAIN: usize = 32 * 1024;

pub(super) fn quantize_rows<D: Dot>(
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
    let step = m.next_multiple_of(D::ROWS) * layout.start(1);
    let quantize = |group, first: usize, data, scales, starts| {
        let (a, depths) = (&a[first * layout.k..], layout.depths(group));
        dot.isolate_dot(Quantize {
            a,
            k: layout.k,
            depths,
            filled: layout.filled(group),
            data,
            scales,
            starts,
        });
    };
    if m * layout.k < QUANTIZE_GRAIN {
        // Handing so little to other threads would cost more than it saves.
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
    filled: usize,
    data: &'a mut [D::Act],
    scales: &'a mut [f32],
    starts: &'a mut [i32],
}

impl<D: Dot> DotOp<D> for Quantize<'_, D> {
    type Out = ();

    #[inline(always)]
    fn eval(self, dot: D) {
        let filled = self.filled;
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
