//! Grouped-query attention over packed segments, and its gradient.
//!
//! Rows of all canvases are packed; a `Segment` says which query rows see which key rows, so there is no padding.

use std::ops::Range;

use rayon::prelude::*;

/// Query rows `q` attend to key rows `k`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Rows of `q` (and of the output). The query ranges of the segments of one call must not overlap.
    pub q: Range<usize>,
    /// Rows of `k` and `v`.
    pub k: Range<usize>,
    /// `None`: every key; `Some(o)`: the `i`-th query of the segment sees its keys `≤ i + o`.
    pub causal_offset: Option<usize>,
}

/// Head counts and size; `query` is a multiple of `kv`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heads {
    /// Query heads.
    pub query: usize,
    /// Key and value heads.
    pub kv: usize,
    /// Dimensions of a head.
    pub dim: usize,
}

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
    lse: Option<&mut [f32]>,
) {
    let rows = Rows::check(q, k, v, heads, segments);
    assert_eq!(out.len(), q.len(), "attention: out must have the shape of q");
    let mut unused = vec![];
    let lse = match lse {
        Some(lse) => {
            assert_eq!(lse.len(), rows.q * heads.query, "attention: lse must be [q_rows, query heads]");
            lse
        }
        None => {
            unused.resize(rows.q * heads.query, 0.0);
            &mut unused
        }
    };
    out.fill(0.0);
    lse.fill(f32::NEG_INFINITY);
    let owner = rows.owners(segments);
    out.par_chunks_mut(heads.dim).zip(lse).enumerate().for_each(|(index, (out, lse))| {
        let (row, head) = (index / heads.query, index % heads.query);
        let Some(segment) = owner[row].map(|s| &segments[s]) else {
            return;
        };
        let keys = visible(segment, row);
        let (scores, norm) = scores(&q[index * heads.dim..][..heads.dim], k, heads, head, keys.clone());
        *lse = norm;
        for (key, score) in keys.zip(scores) {
            let v = &v[(key * heads.kv + head / (heads.query / heads.kv)) * heads.dim..][..heads.dim];
            let p = (score - norm).exp();
            out.iter_mut().zip(v).for_each(|(out, v)| *out += p * v);
        }
    });
}

/// Gradient of [`attention`] given its output and `lse`: writes `grad_q`, `grad_k`, `grad_v` (zero where nothing flows).
///
/// # Panics
/// As [`attention`].
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
    let rows = Rows::check(q, k, v, heads, segments);
    assert_eq!(out.len(), q.len(), "attention_backward: out must have the shape of q");
    assert_eq!(grad_out.len(), q.len(), "attention_backward: grad_out must have the shape of q");
    assert_eq!(grad_q.len(), q.len(), "attention_backward: grad_q must have the shape of q");
    assert_eq!(grad_k.len(), k.len(), "attention_backward: grad_k must have the shape of k");
    assert_eq!(grad_v.len(), v.len(), "attention_backward: grad_v must have the shape of v");
    assert_eq!(lse.len(), rows.q * heads.query, "attention_backward: lse must be [q_rows, query heads]");
    grad_q.fill(0.0);
    grad_k.fill(0.0);
    grad_v.fill(0.0);
    let (dim, group) = (heads.dim, heads.query / heads.kv);
    let scale = 1.0 / (dim as f32).sqrt();
    for segment in segments {
        for row in segment.q.clone() {
            for head in 0..heads.query {
                let at = (row * heads.query + head) * dim;
                let (q, grad_out, out) = (&q[at..at + dim], &grad_out[at..at + dim], &out[at..at + dim]);
                let delta: f32 = grad_out.iter().zip(out).map(|(g, o)| g * o).sum();
                for key in visible(segment, row) {
                    let to = (key * heads.kv + head / group) * dim;
                    let (k, v) = (&k[to..to + dim], &v[to..to + dim]);
                    let score: f32 = q.iter().zip(k).map(|(q, k)| q * k).sum::<f32>() * scale;
                    let p = (score - lse[row * heads.query + head]).exp();
                    let grad_p: f32 = grad_out.iter().zip(v).map(|(g, v)| g * v).sum();
                    let grad_score = p * (grad_p - delta) * scale;
                    for d in 0..dim {
                        grad_v[to + d] += p * grad_out[d];
                        grad_k[to + d] += grad_score * q[d];
                        grad_q[at + d] += grad_score * k[d];
                    }
                }
            }
        }
    }
}

/// Checked row counts of a call.
struct Rows {
    q: usize,
}

impl Rows {
    fn check(q: &[f32], k: &[f32], v: &[f32], heads: Heads, segments: &[Segment]) -> Self {
        let Heads { query, kv, dim } = heads;
        assert!(
            dim > 0 && kv > 0 && query > 0 && query.is_multiple_of(kv),
            "attention: heads {heads:?} must be a whole grouping"
        );
        assert!(
            q.len().is_multiple_of(query * dim),
            "attention: q ({}) must be rows of {query} x {dim}",
            q.len()
        );
        assert!(k.len().is_multiple_of(kv * dim), "attention: k ({}) must be rows of {kv} x {dim}", k.len());
        assert_eq!(k.len(), v.len(), "attention: k and v must have one shape");
        let (q, k) = (q.len() / (query * dim), k.len() / (kv * dim));
        for segment in segments {
            assert!(
                segment.q.start <= segment.q.end && segment.q.end <= q,
                "attention: {segment:?} leaves the {q} query rows"
            );
            assert!(
                segment.k.start <= segment.k.end && segment.k.end <= k,
                "attention: {segment:?} leaves the {k} key rows"
            );
        }
        Self { q }
    }

    fn owners(&self, segments: &[Segment]) -> Vec<Option<usize>> {
        let mut owner = vec![None; self.q];
        for (index, segment) in segments.iter().enumerate() {
            for row in segment.q.clone() {
                assert!(owner[row].is_none(), "attention: query row {row} is in two segments");
                owner[row] = Some(index);
            }
        }
        owner
    }
}

/// The keys that query row `row` sees.
fn visible(segment: &Segment, row: usize) -> Range<usize> {
    let all = segment.k.clone();
    match segment.causal_offset {
        None => all,
        Some(offset) => all.start..all.end.min(all.start + (row - segment.q.start) + offset + 1),
    }
}

/// Scaled scores of one query over its keys and their logsumexp.
fn scores(q: &[f32], k: &[f32], heads: Heads, head: usize, keys: Range<usize>) -> (Vec<f32>, f32) {
    let (dim, group) = (heads.dim, heads.query / heads.kv);
    let scale = 1.0 / (dim as f32).sqrt();
    let scores: Vec<f32> = keys
        .map(|key| {
            let k = &k[(key * heads.kv + head / group) * dim..][..dim];
            q.iter().zip(k).map(|(q, k)| q * k).sum::<f32>() * scale
        })
        .collect();
    let max = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    if scores.is_empty() {
        return (scores, f32::NEG_INFINITY);
    }
    let sum: f32 = scores.iter().map(|s| (s - max).exp()).sum();
    (scores, max + sum.ln())
}
