//! Grouped-query attention over packed segments: `out = softmax(q·kᵀ/√dim)·v`, and its gradient.
//!
//! Rows of all canvases are packed; a [`Segment`] says which query rows see which key rows, so there is no padding.
//! Keys are taken in fixed blocks from the segment's start, so a row's result does not depend on what else is in the
//! call, and no score matrix larger than one block is ever in memory.

mod backward;
mod forward;

use std::ops::Range;

pub use backward::attention_backward;
pub use forward::attention;

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

impl Segment {
    /// How many of the segment's keys its `i`-th query sees.
    fn visible(&self, i: usize) -> usize {
        match self.causal_offset {
            None => self.k.len(),
            Some(offset) => self.k.len().min((i + 1).saturating_add(offset)),
        }
    }
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

impl Heads {
    /// Query heads that share a key head.
    fn group(&self) -> usize {
        self.query / self.kv
    }

    fn scale(&self) -> f32 {
        1.0 / (self.dim as f32).sqrt()
    }

    /// Columns of query head `head`.
    fn cols(&self, head: usize) -> Range<usize> {
        head * self.dim..(head + 1) * self.dim
    }
}

/// Checks what both directions share and returns the number of query rows.
fn check(q: &[f32], k: &[f32], v: &[f32], heads: Heads, segments: &[Segment]) -> usize {
    let Heads { query, kv, dim } = heads;
    let grouped = dim > 0 && kv > 0 && query > 0 && query.is_multiple_of(kv);
    assert!(grouped, "attention: {heads:?} must have query heads in whole groups per key head");
    assert!(
        q.len().is_multiple_of(query * dim),
        "attention: q ({}) must be rows of {query} x {dim}",
        q.len()
    );
    assert!(k.len().is_multiple_of(kv * dim), "attention: k ({}) must be rows of {kv} x {dim}", k.len());
    assert_eq!(k.len(), v.len(), "attention: k and v must have the same shape");
    let (q, k) = (q.len() / (query * dim), k.len() / (kv * dim));
    for segment in segments {
        let inside = |range: &Range<usize>, rows| range.start <= range.end && range.end <= rows;
        assert!(inside(&segment.q, q), "attention: {segment:?} leaves the {q} query rows");
        assert!(inside(&segment.k, k), "attention: {segment:?} leaves the {k} key rows");
    }
    assert!(disjoint(segments.iter().map(|s| &s.q)), "attention: two segments share a query row");
    q
}

/// Whether no two ranges share an element.
fn disjoint<'a>(ranges: impl Iterator<Item = &'a Range<usize>>) -> bool {
    let mut ranges: Vec<_> = ranges.filter(|range| !range.is_empty()).collect();
    ranges.sort_by_key(|range| range.start);
    ranges.windows(2).all(|pair| pair[0].end <= pair[1].start)
}
