//! The gradient: with `p = e^{s − lse}` recomputed block by block,
//! `dV = pᵀ·dO`, `dS = p ∘ (dO·vᵀ − rowsum(dO ∘ O)) / √dim`, `dQ = dS·k`, `dK = dSᵀ·q`.

use std::ops::Range;

use rayon::prelude::*;

use crate::arch::{Op, Simd};
use crate::dispatch::Level;
use crate::math::{dot, exp};
use crate::memory::{Grid, Scratch, Tile};
use crate::meter::{Work, counted};
use crate::ops::attention::{Heads, Segment, check, disjoint};
use crate::ops::matmul::Strided;
use crate::pack::Right;
use crate::tile::{Chain, multiply, panel_width, panels_len};

/// Keys of a block.
const KEYS: usize = 256;
/// Distance between rows of scores: not a power of two, so that a column of them does not share cache sets.
const STRIDE: usize = KEYS + 16;
/// Query rows of a block: the depth of the products that give `dK` and `dV`.
const QUERIES: usize = 96;

/// Gradient of [`attention`](crate::attention) given its output and `lse`: writes `grad_q`, `grad_k`, `grad_v` (zero
/// where nothing flows).
///
/// # Panics
/// As [`attention`](crate::attention).
#[expect(clippy::too_many_arguments, reason = "the gradient needs every input and output of the forward")]
pub fn attention_backward(
    q: &[f32],
    k: &[f32],
    v: &[f32],
    out: &[f32],
    lse: &[f32],
    grad_out: &[f32],
    heads: Heads,
    segments: &[Segment],
    grad_q: &mut [f32],
    grad_k: &mut [f32],
    grad_v: &mut [f32],
) {
    let rows = check(q, k, v, heads, segments);
    assert_eq!(out.len(), q.len(), "attention_backward: out must have the shape of q");
    assert_eq!(grad_out.len(), q.len(), "attention_backward: grad_out must have the shape of q");
    assert_eq!(grad_q.len(), q.len(), "attention_backward: grad_q must have the shape of q");
    assert_eq!(grad_k.len(), k.len(), "attention_backward: grad_k must have the shape of k");
    assert_eq!(grad_v.len(), v.len(), "attention_backward: grad_v must have the shape of v");
    assert_eq!(lse.len(), rows * heads.query, "attention_backward: lse must be [q_rows, query heads]");
    grad_q.fill(0.0);
    grad_k.fill(0.0);
    grad_v.fill(0.0);
    let level = Level::active();
    let grad_q = Grid::new(grad_q, heads.query * heads.dim);
    let grad_k = Grid::new(grad_k, heads.kv * heads.dim);
    let grad_v = Grid::new(grad_v, heads.kv * heads.dim);
    // Segments that share keys add to the same gradient, so they then stay on one thread, in order.
    let together = if disjoint(segments.iter().map(|s| &s.k)) { 1 } else { segments.len() };
    let units: Vec<_> =
        segments.chunks(together.max(1)).flat_map(|s| (0..heads.kv).map(move |h| (s, h))).collect();
    // Scores again, then the gradients of probabilities, values, queries and keys.
    let pairs: usize = segments.iter().map(|s| s.q.len() * s.k.len()).sum();
    counted(Work::Attention, 10 * pairs * heads.query * heads.dim, || {
        units.into_par_iter().with_max_len(1).for_each(|(segments, kv_head)| {
            for segment in segments.iter().filter(|segment| !segment.q.is_empty() && !segment.k.is_empty()) {
                let forward = Forward { q, k, v, out, lse, grad_out };
                level.run(HeadBackward { forward, heads, segment, kv_head, grad_q, grad_k, grad_v });
            }
        });
    });
}

/// What the forward pass saw and returned, and the gradient of the latter.
#[derive(Clone, Copy)]
struct Forward<'a> {
    q: &'a [f32],
    k: &'a [f32],
    v: &'a [f32],
    out: &'a [f32],
    lse: &'a [f32],
    grad_out: &'a [f32],
}

/// One segment and the heads that share one key head.
struct HeadBackward<'a> {
    forward: Forward<'a>,
    heads: Heads,
    segment: &'a Segment,
    kv_head: usize,
    grad_q: Grid<'a>,
    grad_k: Grid<'a>,
    grad_v: Grid<'a>,
}

/// Scratch of one task, cut up.
struct Buffers<'s> {
    /// `kᵀ`, `vᵀ` and `k` of the key block.
    k_turned: &'s mut [f32],
    v_turned: &'s mut [f32],
    k: &'s mut [f32],
    /// `q` and `grad_out` of the query block.
    q: &'s mut [f32],
    grad_out: &'s mut [f32],
    /// `[QUERIES, STRIDE]` each: probabilities, then the gradient of the scores.
    p: &'s mut [f32],
    grad_s: &'s mut [f32],
}

impl<'s> Buffers<'s> {
    fn sizes<S: Simd>(dim: usize) -> [usize; 7] {
        let (turned, k, q) =
            (panels_len::<S>(KEYS, dim), panels_len::<S>(dim, KEYS), panels_len::<S>(dim, QUERIES));
        [turned, turned, k, q, q, QUERIES * STRIDE, QUERIES * STRIDE]
    }

    fn cut<S: Simd>(dim: usize, mut scratch: &'s mut [f32]) -> Self {
        let [k_turned, v_turned, k, q, grad_out, p, grad_s] = Self::sizes::<S>(dim).map(|len| {
            let (part, rest) = std::mem::take(&mut scratch).split_at_mut(len);
            scratch = rest;
            part
        });
        Self { k_turned, v_turned, k, q, grad_out, p, grad_s }
    }
}

impl Op for HeadBackward<'_> {
    type Out = ();

    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        let Heads { query, kv, dim } = self.heads;
        let (queries, keys) = (self.segment.q.len(), self.segment.k.len());
        let mut scratch = Scratch::take(Buffers::sizes::<S>(dim).iter().sum());
        let mut buffers = Buffers::cut::<S>(dim, scratch.slice());
        let from = (self.segment.k.start * kv + self.kv_head) * dim;
        let (k, v) = (&self.forward.k[from..], &self.forward.v[from..]);
        for start in (0..keys).step_by(KEYS) {
            let block = start..keys.min(start + KEYS);
            Right::new(k, 1, kv * dim, dim, keys).pack(simd, 0..dim, block.clone(), buffers.k_turned);
            Right::new(v, 1, kv * dim, dim, keys).pack(simd, 0..dim, block.clone(), buffers.v_turned);
            Right::new(k, kv * dim, 1, keys, dim).pack(simd, block.clone(), 0..dim, buffers.k);
            for head in self.kv_head * self.heads.group()..(self.kv_head + 1) * self.heads.group() {
                let from = (self.segment.q.start * query + head) * dim;
                let q = Right::new(&self.forward.q[from..], query * dim, 1, queries, dim);
                let grad_out = Right::new(&self.forward.grad_out[from..], query * dim, 1, queries, dim);
                for first in (0..queries).step_by(QUERIES) {
                    let rows = first..queries.min(first + QUERIES);
                    if self.segment.visible(rows.end - 1) <= block.start {
                        continue;
                    }
                    q.pack(simd, rows.clone(), 0..dim, buffers.q);
                    grad_out.pack(simd, rows.clone(), 0..dim, buffers.grad_out);
                    self.visit(simd, head, rows, block.clone(), &mut buffers);
                }
            }
        }
    }
}

impl HeadBackward<'_> {
    /// The gradient that flows between some queries of one head and one block of keys.
    #[inline(always)]
    fn visit<S: Simd>(
        &self,
        simd: S,
        head: usize,
        queries: Range<usize>,
        keys: Range<usize>,
        buffers: &mut Buffers<'_>,
    ) {
        let Heads { query, dim, .. } = self.heads;
        let (rows, cols) = (queries.len(), keys.len());
        // Whole panels: what they hold beyond the block is zero, and stays so.
        let padded = cols.next_multiple_of(panel_width::<S>());
        let at = ((self.segment.q.start + queries.start) * query + head) * dim;
        let width = query * dim;
        let q = Strided { data: &self.forward.q[at..], row: width, col: 1 };
        let grad_out = Strided { data: &self.forward.grad_out[at..], row: width, col: 1 };
        multiply(simd, q, dim, buffers.k_turned, Tile::new(buffers.p, rows, padded, STRIDE), Chain::FRESH);
        let grad_p = Tile::new(buffers.grad_s, rows, padded, STRIDE);
        multiply(simd, grad_out, dim, buffers.v_turned, grad_p, Chain::FRESH);
        for i in 0..rows {
            let from = at + i * width;
            let grad_out = &self.forward.grad_out[from..from + dim];
            let row = Row {
                seen: self.segment.visible(queries.start + i).saturating_sub(keys.start).min(cols),
                scale: self.heads.scale(),
                lse: self.forward.lse[(self.segment.q.start + queries.start + i) * query + head],
                delta: dot(simd, grad_out, &self.forward.out[from..from + dim]),
            };
            row.scores_gradient(
                simd,
                &mut buffers.p[i * STRIDE..][..padded],
                &mut buffers.grad_s[i * STRIDE..][..padded],
            );
        }
        let by_query = |data| Strided { data, row: STRIDE, col: 1 };
        let q_rows = self.segment.q.start + queries.start..self.segment.q.start + queries.end;
        let k_rows = self.segment.k.start + keys.start..self.segment.k.start + keys.end;
        // SAFETY: no other task has these query rows of this head.
        let grad_q = unsafe { self.grad_q.tile(q_rows, self.heads.cols(head)) };
        multiply(simd, by_query(buffers.grad_s), cols, buffers.k, grad_q, Chain::CARRY);
        // SAFETY: no other task has these keys of this key head, or they are taken in turn on one thread.
        let grad_k = unsafe { self.grad_k.tile(k_rows.clone(), self.heads.cols(self.kv_head)) };
        multiply(simd, by_query(buffers.grad_s).t(), rows, buffers.q, grad_k, Chain::CARRY);
        // SAFETY: as above.
        let grad_v = unsafe { self.grad_v.tile(k_rows, self.heads.cols(self.kv_head)) };
        multiply(simd, by_query(buffers.p).t(), rows, buffers.grad_out, grad_v, Chain::CARRY);
    }
}

/// One query's row of a block.
struct Row {
    /// Keys of the block it sees.
    seen: usize,
    scale: f32,
    lse: f32,
    /// `Σ dO ∘ O`.
    delta: f32,
}

impl Row {
    /// Turns scores into probabilities in `p`, and the gradient of the probabilities into that of the scores; both are
    /// whole vectors and zero where nothing is seen.
    #[inline(always)]
    fn scores_gradient<S: Simd>(&self, simd: S, p: &mut [f32], grad: &mut [f32]) {
        let (scale, lse, delta) = (simd.splat(self.scale), simd.splat(-self.lse), simd.splat(self.delta));
        let whole = self.seen.next_multiple_of(S::LANES);
        p[self.seen..whole].fill(f32::NEG_INFINITY);
        p[whole..].fill(0.0);
        grad[self.seen..].fill(0.0);
        for (p, grad) in p[..whole].chunks_exact_mut(S::LANES).zip(grad.chunks_exact_mut(S::LANES)) {
            let e = exp(simd, simd.fma(simd.read(p), scale, lse));
            simd.write(grad, simd.mul(simd.mul(e, simd.sub(simd.read(grad), delta)), scale));
            simd.write(p, e);
        }
    }
}
