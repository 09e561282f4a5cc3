//! The fused attention kernel of NVIDIA devices (feature `flash-attn`): the packed segments are the sequences of its
//! variable-length form, so all canvases of a pass are one call and no score is ever in memory.
//!
//! Which segments it takes is decided here without a device, and tested; the call itself is compiled with the feature only.

use std::ops::Range;

use demask_kernels::Segment;

/// Segments as the kernel's sequences: rows of queries and keys, and where each sequence ends in them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sequences {
    pub(super) queries: Range<usize>,
    pub(super) keys: Range<usize>,
    pub(super) query_ends: Vec<u32>,
    pub(super) key_ends: Vec<u32>,
    pub(super) most_queries: usize,
    pub(super) most_keys: usize,
}

impl Sequences {
    /// Of segments that see all of their keys and follow one another without a gap; others have to be computed apart.
    pub(super) fn of(segments: &[Segment]) -> Option<Self> {
        let (first, last) = (segments.first()?, segments.last()?);
        let follows = |pair: &[Segment]| pair[0].q.end == pair[1].q.start && pair[0].k.end == pair[1].k.start;
        if segments.iter().any(|s| s.causal_offset.is_some()) || !segments.windows(2).all(follows) {
            return None;
        }
        let ends = |start: usize, end: &dyn Fn(&Segment) -> usize| -> Vec<u32> {
            std::iter::once(0).chain(segments.iter().map(|s| (end(s) - start) as u32)).collect()
        };
        Some(Self {
            queries: first.q.start..last.q.end,
            keys: first.k.start..last.k.end,
            query_ends: ends(first.q.start, &|s| s.q.end),
            key_ends: ends(first.k.start, &|s| s.k.end),
            most_queries: segments.iter().map(|s| s.q.len()).max()?,
            most_keys: segments.iter().map(|s| s.k.len()).max()?,
        })
    }
}

/// Attention of all segments, `[queries, heads·dim]`, where the device has the kernel and the numbers are of its kind.
#[cfg(feature = "flash-attn")]
pub(super) fn attend(
    shape: &super::Attention,
    q: &candle_core::Tensor,
    k: &candle_core::Tensor,
    v: &candle_core::Tensor,
    segments: &[Segment],
) -> candle_core::Result<Option<candle_core::Tensor>> {
    use candle_core::{DType, Tensor};
    let half = matches!(q.dtype(), DType::F16 | DType::BF16);
    let Some(sequences) = Sequences::of(segments).filter(|_| q.device().is_cuda() && half) else {
        return Ok(None);
    };
    let rows = |x: &Tensor, range: &Range<usize>, heads: usize| {
        x.narrow(0, range.start, range.len())?.reshape((range.len(), heads, shape.head_dim))
    };
    let out = candle_flash_attn::flash_attn_varlen(
        &rows(q, &sequences.queries, shape.heads)?,
        &rows(k, &sequences.keys, shape.kv_heads)?,
        &rows(v, &sequences.keys, shape.kv_heads)?,
        &Tensor::new(sequences.query_ends.as_slice(), q.device())?,
        &Tensor::new(sequences.key_ends.as_slice(), q.device())?,
        sequences.most_queries,
        sequences.most_keys,
        1.0 / (shape.head_dim as f32).sqrt(),
        false,
    )?;
    Ok(Some(out.reshape((sequences.queries.len(), shape.heads * shape.head_dim))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(q: Range<usize>, k: Range<usize>) -> Segment {
        Segment { q, k, causal_offset: None }
    }

    #[test]
    fn packed_canvases_are_the_sequences_of_one_call() {
        let found = Sequences::of(&[segment(4..6, 10..15), segment(6..9, 15..17)]).unwrap();
        assert_eq!((found.queries, found.keys), (4..9, 10..17));
        assert_eq!((found.query_ends, found.key_ends), (vec![0, 2, 5], vec![0, 5, 7]));
        assert_eq!((found.most_queries, found.most_keys), (3, 5));
    }

    #[test]
    fn what_it_cannot_take_is_left_to_others() {
        assert_eq!(Sequences::of(&[]), None);
        assert_eq!(Sequences::of(&[segment(0..2, 0..4), segment(2..3, 0..4)]), None, "keys are shared");
        assert_eq!(Sequences::of(&[segment(0..2, 0..4), segment(3..4, 4..5)]), None, "a query is left out");
        let causal = Segment { causal_offset: Some(0), ..segment(0..2, 0..2) };
        assert_eq!(Sequences::of(&[causal]), None);
    }
}
