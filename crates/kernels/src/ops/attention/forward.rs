//! The forward direction: scores and weighted values by the matrix micro-kernel, softmax online over key blocks.

use std::ops::Range;

use rayon::prelude::*;

use crate::arch::{Op, Simd};
use crate::dispatch::Level;
use crate::math::exp;
use crate::memory::{Grid, Scratch, Tile};
use crate::meter::{Work, counted};
use crate::ops::attention::{Heads, Segment, check};
use crate::ops::matmul::Strided;
use crate::pack::Right;
use crate::parallel::{least_run, threads};
use crate::tile::{Chain, multiply, panel_width, panels_len};

/// Keys of a block.
const KEYS: usize = 256;
/// Distance between rows of scores: not a power of two, so that a column of them does not share cache sets.
const STRIDE: usize = KEYS + 16;
/// Query rows whose scores are in cache together.
const QUERIES: usize = 24;
/// Query rows times heads below which a segment is not cut for other threads: each cut packs the keys again.
const CUT: usize = 128;

/// `out = softmax(q·kᵀ/√dim)·v` for each head and segment; `out` is `[q_rows, query * dim]`, `lse` (the logsumexp of
/// the scaled scores) `[q_rows, query]`. Rows outside every segment, or that see no key, are zero (`lse` −∞).
///
/// # Panics
/// If a slice disagrees with `heads`, a segment leaves its rows, or two segments share a query row.
pub fn attention(
    q: &[f32],
    k: &[f32],
    v: &[f32],
    heads: Heads,
    segments: &[Segment],
    out: &mut [f32],
    mut lse: Option<&mut [f32]>,
) {
    let rows = check(q, k, v, heads, segments);
    assert_eq!(out.len(), q.len(), "attention: out must have the shape of q");
    if let Some(lse) = &mut lse {
        assert_eq!(lse.len(), rows * heads.query, "attention: lse must be [q_rows, query heads]");
        lse.fill(f32::NEG_INFINITY);
    }
    if segments.iter().any(|s| s.k.is_empty()) || segments.iter().map(|s| s.q.len()).sum::<usize>() < rows {
        out.fill(0.0);
    }
    let level = Level::active();
    let out = Grid::new(out, heads.query * heads.dim);
    let lse = lse.map(|lse| Grid::new(lse, heads.query));
    // For causal segments this counts twice what is needed.
    let pairs: usize = segments.iter().map(|s| s.q.len() * s.k.len()).sum();
    counted(Work::Attention, 4 * pairs * heads.query * heads.dim, || {
        let tasks = cut(heads, segments).into_par_iter();
        tasks.with_min_len(least_run()).with_max_len(least_run()).for_each(|(segment, kv_head, queries)| {
            level.run(HeadForward { q, k, v, heads, segment, kv_head, queries, out, lse });
        });
    });
}

/// Tasks of (segment, key head, query rows counted from the segment's first); they partition the output.
fn cut(heads: Heads, segments: &[Segment]) -> Vec<(&Segment, usize, Range<usize>)> {
    let segments = segments.iter().filter(|segment| !segment.q.is_empty() && !segment.k.is_empty());
    let total: usize = segments.clone().map(|segment| segment.q.len()).sum();
    let wanted = 4 * threads();
    let most = (total * heads.kv).div_ceil(wanted).max(CUT / heads.group());
    let mut tasks = vec![];
    for segment in segments {
        let step = segment.q.len().div_ceil(segment.q.len().div_ceil(most));
        for kv_head in 0..heads.kv {
            for start in (0..segment.q.len()).step_by(step) {
                tasks.push((segment, kv_head, start..segment.q.len().min(start + step)));
            }
        }
    }
    tasks
}

/// Some query rows of the heads that share one key head.
struct HeadForward<'a> {
    q: &'a [f32],
    k: &'a [f32],
    v: &'a [f32],
    heads: Heads,
    segment: &'a Segment,
    kv_head: usize,
    /// Counted from the segment's first row.
    queries: Range<usize>,
    out: Grid<'a>,
    lse: Option<Grid<'a>>,
}

/// Running maximum and sum of a row's softmax.
#[derive(Clone, Copy)]
struct Running {
    max: f32,
    sum: f32,
}

impl Op for HeadForward<'_> {
    type Out = ();

    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        let Heads { kv, dim, .. } = self.heads;
        let (group, keys) = (self.heads.group(), self.segment.k.len());
        let block = KEYS.min(keys);
        let (k_len, v_len) = (panels_len::<S>(block, dim), panels_len::<S>(dim, block));
        let mut scratch = Scratch::take(k_len + v_len + QUERIES * STRIDE);
        let (k_panels, rest) = scratch.slice().split_at_mut(k_len);
        let (v_panels, scores) = rest.split_at_mut(v_len);
        let from = (self.segment.k.start * kv + self.kv_head) * dim;
        let k = Right::new(&self.k[from..], 1, kv * dim, dim, keys);
        let v = Right::new(&self.v[from..], kv * dim, 1, keys, dim);
        let mut running = vec![Running { max: f32::NEG_INFINITY, sum: 0.0 }; group * self.queries.len()];

        let last_seen = self.segment.visible(self.queries.end - 1);
        for start in (0..last_seen).step_by(KEYS) {
            let block = start..keys.min(start + KEYS);
            k.pack(simd, 0..dim, block.clone(), k_panels);
            v.pack(simd, block.clone(), 0..dim, v_panels);
            for head in 0..group {
                let running = &mut running[head * self.queries.len()..][..self.queries.len()];
                for (index, running) in running.chunks_mut(QUERIES).enumerate() {
                    let first = self.queries.start + index * QUERIES;
                    self.visit(simd, head, first, &block, running, (k_panels, v_panels), scores);
                }
            }
        }
        for head in 0..group {
            for i in 0..self.queries.len() {
                self.finish(head, self.queries.start + i, running[head * self.queries.len() + i]);
            }
        }
    }
}

impl<'a> HeadForward<'a> {
    /// Adds the keys of `block` to the query rows from `first` on.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "the state of the blocked loop")]
    fn visit<S: Simd>(
        &self,
        simd: S,
        head: usize,
        first: usize,
        block: &Range<usize>,
        running: &mut [Running],
        (k_panels, v_panels): (&[f32], &[f32]),
        scores: &mut [f32],
    ) {
        let Heads { query, dim, .. } = self.heads;
        let rows = running.len();
        // Whole panels: what they hold beyond the block is zero, and softmax hides it.
        let padded = block.len().next_multiple_of(panel_width::<S>());
        if self.segment.visible(first + rows - 1) <= block.start {
            return;
        }
        let from = ((self.segment.q.start + first) * query + self.kv_head * self.heads.group() + head) * dim;
        let q = Strided { data: &self.q[from..], row: query * dim, col: 1 };
        multiply(simd, q, dim, k_panels, Tile::new(scores, rows, padded, STRIDE), Chain::FRESH);

        let mut out = self.tile(head, first..first + rows);
        let fresh = block.start == 0;
        for (i, running) in running.iter_mut().enumerate() {
            let seen = self.segment.visible(first + i).saturating_sub(block.start).min(block.len());
            let row = &mut scores[i * STRIDE..][..padded];
            let old = *running;
            softmax(simd, row, seen, self.heads.scale(), running);
            if !fresh && running.max > old.max {
                let shrink = (old.max - running.max).exp();
                out.row(i).iter_mut().for_each(|x| *x *= shrink);
            }
        }
        let p = Strided { data: scores, row: STRIDE, col: 1 };
        multiply(simd, p, block.len(), v_panels, out, if fresh { Chain::FRESH } else { Chain::CARRY });
    }

    /// Divides by the softmax sum and notes the logsumexp.
    #[inline(always)]
    fn finish(&self, head: usize, i: usize, running: Running) {
        let inverse = 1.0 / running.sum;
        self.tile(head, i..i + 1).row(0).iter_mut().for_each(|x| *x *= inverse);
        if let Some(lse) = &self.lse {
            let (row, head) = (self.segment.q.start + i, self.kv_head * self.heads.group() + head);
            // SAFETY: this task alone has this row and head.
            unsafe { lse.tile(row..row + 1, head..head + 1) }.row(0)[0] = running.max + running.sum.ln();
        }
    }

    /// The output of query rows of one head.
    #[inline(always)]
    fn tile(&self, head: usize, queries: Range<usize>) -> Tile<'a> {
        let start = self.segment.q.start;
        let cols = self.heads.cols(self.kv_head * self.heads.group() + head);
        // SAFETY: segments share no query row and tasks of a segment no row or head; a task holds one tile at a time.
        unsafe { self.out.tile(start + queries.start..start + queries.end, cols) }
    }
}

/// Turns the first `seen` of a row of scores into `e^{scale·s − max}` for the maximum so far, zeroes the others, and
/// brings the running sum up to date. The row is whole vectors.
#[inline(always)]
fn softmax<S: Simd>(simd: S, row: &mut [f32], seen: usize, scale: f32, running: &mut Running) {
    let (row, hidden) = row.split_at_mut(seen.next_multiple_of(S::LANES));
    row[seen..].fill(f32::NEG_INFINITY);
    hidden.fill(0.0);
    let mut max = simd.splat(f32::NEG_INFINITY);
    for x in row.chunks_exact(S::LANES) {
        max = simd.max(simd.read(x), max);
    }
    let max = (simd.max_lane(max) * scale).max(running.max);
    let (scale, shift) = (simd.splat(scale), simd.splat(-max));
    let mut sum = simd.splat(0.0);
    for x in row.chunks_exact_mut(S::LANES) {
        let e = exp(simd, simd.fma(simd.read(x), scale, shift));
        sum = simd.add(sum, e);
        simd.write(x, e);
    }
    let shrink = if running.sum == 0.0 { 0.0 } else { (running.max - max).exp() };
    *running = Running { max, sum: running.sum * shrink + simd.sum(sum) };
}
