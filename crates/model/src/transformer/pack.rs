//! Rows of a batch packed one canvas after another, and which of them see which keys.
//!
//! Under block-causal attention a canvas has one segment per block, whose rows see every key up to the block's end; rows
//! behind the last block that somebody wants are not computed at all.

use std::ops::Range;
use std::sync::Arc;

use demask_kernels::Segment;

use crate::backbone::Query;
use crate::config::Spec;
use crate::error::{Error, Result};
use crate::layer::ShadowKeys;

/// Packed rows of a batch: the tokens of every canvas one after another.
#[derive(Debug, Clone)]
pub struct Packed {
    /// Token of each row.
    pub tokens: Vec<u32>,
    /// Absolute position of each row in its canvas.
    pub positions: Arc<[u32]>,
    /// Which rows see which.
    pub segments: Arc<[Segment]>,
    /// What the last rows see, which are shadows; none in training.
    pub shadows: Arc<[ShadowKeys]>,
}

impl Packed {
    /// Packs whole canvases, each attending to itself only.
    pub fn new<'a>(canvases: impl IntoIterator<Item = &'a [u32]>, causal: bool) -> Self {
        let (mut tokens, mut positions, mut segments) = (Vec::new(), Vec::new(), Vec::new());
        for canvas in canvases {
            let rows = tokens.len()..tokens.len() + canvas.len();
            tokens.extend_from_slice(canvas);
            positions.extend(0..canvas.len() as u32);
            segments.push(Segment { q: rows.clone(), k: rows, causal_offset: causal.then_some(0) });
        }
        Self { tokens, positions: positions.into(), segments: segments.into(), shadows: [].into() }
    }
}

/// The rows of the last layer that somebody wants, with the geometry of their attention.
pub(super) struct Wanted {
    pub(super) rows: Vec<u32>,
    pub(super) positions: Arc<[u32]>,
    pub(super) segments: Arc<[Segment]>,
}

/// Where a canvas lies in a batch.
#[derive(Debug, Clone)]
pub(super) struct Placed {
    /// Its fresh rows among the packed ones.
    pub(super) fresh: Range<usize>,
    /// Its keys, kept ones included, among those of all canvases.
    pub(super) keys: Range<usize>,
}

/// Restricts the packed geometry to `rows` (ascending packed indices).
pub(super) fn select(packed: &Packed, rows: &[u32]) -> Wanted {
    let mut segments = Vec::with_capacity(packed.segments.len());
    let mut start = 0;
    for segment in packed.segments.iter() {
        let inside = rows[start..].iter().take_while(|&&r| (r as usize) < segment.q.end).count();
        // Causal rows are selected one by one: their offsets into the keys differ.
        match segment.causal_offset {
            None if inside > 0 => {
                segments.push(Segment {
                    q: start..start + inside,
                    k: segment.k.clone(),
                    causal_offset: None,
                });
            }
            None => {}
            Some(offset) => {
                for (i, &row) in rows[start..start + inside].iter().enumerate() {
                    let local = row as usize - segment.q.start;
                    let q = start + i..start + i + 1;
                    segments.push(Segment { q, k: segment.k.clone(), causal_offset: Some(local + offset) });
                }
            }
        }
        start += inside;
    }
    let positions = rows.iter().map(|&r| packed.positions[r as usize]).collect();
    Wanted { rows: rows.to_vec(), positions, segments: segments.into() }
}

/// Packs the fresh rows of every canvas, then the shadows of all; `needs` are the rows wanted of each.
pub(super) fn pack(spec: &Spec, batch: &[Query<'_>], needs: &[Vec<usize>]) -> (Packed, Vec<Placed>) {
    let (mut tokens, mut positions, mut segments, mut placed) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::<Placed>::new());
    for (query, need) in batch.iter().zip(needs) {
        let (start, extent) = (tokens.len(), extent(spec, query, need));
        match &query.cache {
            None => {
                tokens.extend_from_slice(&query.tokens[..extent]);
                positions.extend(0..extent as u32);
            }
            Some(reuse) => {
                tokens.extend(reuse.rows.iter().map(|&r| query.tokens[r]));
                positions.extend(reuse.rows.iter().map(|&r| r as u32));
            }
        }
        let fresh = start..tokens.len();
        let before = placed.last().map_or(0, |p| p.keys.end);
        let keys = before..before + extent;
        match query.grid(spec) {
            None => segments.push(Segment { q: fresh.clone(), k: keys.clone(), causal_offset: None }),
            Some(grid) => {
                let mut row = fresh.start;
                while row < fresh.end {
                    let end = grid.end(positions[row] as usize);
                    let after = positions[row..fresh.end].partition_point(|&p| (p as usize) < end);
                    let q = row..row + after;
                    segments.push(Segment { q, k: before..before + end.min(extent), causal_offset: None });
                    row += after;
                }
            }
        }
        placed.push(Placed { fresh, keys });
    }
    let shadows = shadows(spec, batch, &placed, &mut tokens, &mut positions);
    (
        Packed { tokens, positions: positions.into(), segments: segments.into(), shadows: shadows.into() },
        placed,
    )
}

fn shadows(
    spec: &Spec,
    batch: &[Query<'_>],
    placed: &[Placed],
    tokens: &mut Vec<u32>,
    positions: &mut Vec<u32>,
) -> Vec<ShadowKeys> {
    let keys = placed.last().map_or(0, |p| p.keys.end);
    let mut shadows = Vec::new();
    for (query, placed) in batch.iter().zip(placed) {
        let Some(shadow) = &query.shadow else { continue };
        let own = keys + shadows.len()..keys + shadows.len() + shadow.block.len();
        for position in shadow.block.clone() {
            tokens.push(spec.ids.mask);
            positions.push(spec.predicting_row(position) as u32);
            let start = placed.keys.start;
            let end = query.grid(spec).map_or(placed.keys.end, |grid| start + grid.end(position));
            let canvas = start..end.min(placed.keys.end);
            shadows.push(ShadowKeys { hidden: start + position, canvas, shadows: own.clone() });
        }
    }
    shadows
}

/// Rows from the first that take part: all, or under block-causal attention those up to the end of the last block that
/// somebody wants.
fn extent(spec: &Spec, query: &Query<'_>, need: &[usize]) -> usize {
    let len = query.tokens.len();
    let Some(grid) = query.grid(spec) else { return len };
    let last = match &query.cache {
        Some(reuse) => reuse.rows.last().copied(),
        None if query.attention_layers > 0 => None,
        None => need.last().copied().max(query.shadow.as_ref().map(|s| s.block.end.saturating_sub(1))),
    };
    last.map_or(len, |row| grid.end(row).min(len))
}

/// Needed rows as indices into the packed fresh rows.
pub(super) fn packed_rows(batch: &[Query<'_>], placed: &[Placed], needs: &[Vec<usize>]) -> Result<Vec<u32>> {
    let mut rows = Vec::new();
    for ((query, placed), need) in batch.iter().zip(placed).zip(needs) {
        for &row in need {
            let local = match &query.cache {
                None => row,
                Some(reuse) => reuse.rows.binary_search(&row).map_err(|_| {
                    Error::Query(format!("row {row} is wanted but is not among the rows to recompute"))
                })?,
            };
            rows.push((placed.fresh.start + local) as u32);
        }
    }
    Ok(rows)
}
