//! Weights as bytes: symmetric, one scale per output row and group of depths, packed for the int8 product.
//!
//! `w ≈ scale · q` with `q` in −127..=127 and `scale = max|w| / 127` over the group. The packed form is what the
//! kernels read, so a checkpoint that stores it can be mapped and used without a copy:
//! panels of 16 rows; in a panel, for each 4 depths, 16 rows of 4 bytes `q + 128`. A group's depths are filled up to a
//! multiple of 4 with `q = 0`, the rows of the last panel likewise. Scales are `[panel][group][16]`.

use std::borrow::Cow;
use std::ops::Range;

use rayon::prelude::*;
use thiserror::Error;

use crate::arch::{COLS, DEPTH, round};
use crate::ops::gemm::Weights;

/// A quantised `[n, k]` weight matrix in the packed form, owned or borrowed from a mapped file.
#[derive(Clone, Debug)]
pub struct QuantizedWeights<'a> {
    layout: Layout,
    packed: Cow<'a, [u8]>,
    scales: Cow<'a, [f32]>,
}

/// Why packed bytes were refused.
#[derive(Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum QuantizeError {
    /// No depths in a group, or so many that 32-bit sums could overflow.
    #[error("quantisation group {0} is not in 1..=65536")]
    Group(usize),
    /// A slice that does not fit the shape.
    #[error(
        "{what} of a quantised [{n}, {k}] matrix in groups of {group} must have {expected} elements, not {found}"
    )]
    Length {
        /// Which slice.
        what: &'static str,
        /// Output rows.
        n: usize,
        /// Depth.
        k: usize,
        /// Depths of a group.
        group: usize,
        /// Elements the shape needs.
        expected: usize,
        /// Elements there are.
        found: usize,
    },
}

impl QuantizedWeights<'static> {
    /// Quantises `w` (`[n, k]`) in groups of `group` depths.
    ///
    /// # Errors
    /// If the group is out of range or `w` has another length.
    pub fn quantize(w: Weights<'_>, n: usize, k: usize, group: usize) -> Result<Self, QuantizeError> {
        let layout = Layout::new(n, k, group)?;
        layout.expect("weights", n * k, w.len())?;
        Ok(Self::pack(layout, |row, depths, q| {
            let at = row * k + depths.start..row * k + depths.end;
            let group: Cow<'_, [f32]> = match w {
                Weights::F32(w) => Cow::Borrowed(&w[at]),
                Weights::Bf16(w) => w[at].iter().map(|w| w.to_f32()).collect(),
                Weights::F16(w) => w[at].iter().map(|w| w.to_f32()).collect(),
            };
            let step = Step::of(&group);
            for (q, &w) in q.iter_mut().zip(group.iter()) {
                *q = step.round(w);
            }
            step.scale
        }))
    }

    /// Packs bytes quantised elsewhere: `q` is `[n, k]`, `scales` `[n, k / group]` (rounded up). Q8_0 is group 32.
    ///
    /// # Errors
    /// If the group is out of range or a slice has another length.
    pub fn from_rows(
        q: &[i8],
        scales: &[f32],
        n: usize,
        k: usize,
        group: usize,
    ) -> Result<Self, QuantizeError> {
        let layout = Layout::new(n, k, group)?;
        layout.expect("bytes", n * k, q.len())?;
        layout.expect("scales", n * layout.groups(), scales.len())?;
        Ok(Self::pack(layout, |row, depths, to| {
            to.copy_from_slice(&q[row * k + depths.start..row * k + depths.end]);
            scales[row * layout.groups() + depths.start / group]
        }))
    }

    /// The packed bytes and scales.
    pub fn into_parts(self) -> (Vec<u8>, Vec<f32>) {
        (self.packed.into_owned(), self.scales.into_owned())
    }

    /// Packs what `fill` writes for each row and range of depths; it returns the scale.
    fn pack(layout: Layout, fill: impl Fn(usize, Range<usize>, &mut [i8]) -> f32 + Sync) -> Self {
        let mut packed = vec![128u8; layout.packed_len()];
        let mut scales = vec![0.0f32; layout.scales_len()];
        if layout.k > 0 {
            let panels =
                packed.par_chunks_mut(layout.panel_len()).zip(scales.par_chunks_mut(layout.groups() * COLS));
            panels.enumerate().for_each(|(panel, (packed, scales))| {
                let mut q = vec![0i8; layout.group.min(layout.k)];
                for group in 0..layout.groups() {
                    let (depths, start) = (layout.depths(group), layout.start(group));
                    for (col, row) in (panel * COLS..layout.n.min((panel + 1) * COLS)).enumerate() {
                        scales[group * COLS + col] = fill(row, depths.clone(), &mut q[..depths.len()]);
                        for (d, &q) in q[..depths.len()].iter().enumerate() {
                            let depth = start + d;
                            packed[(depth / DEPTH * COLS + col) * DEPTH + depth % DEPTH] =
                                q.wrapping_add(-128) as u8;
                        }
                    }
                }
            });
        }
        Self { layout, packed: Cow::Owned(packed), scales: Cow::Owned(scales) }
    }
}

impl<'a> QuantizedWeights<'a> {
    /// The packed form as it was stored: no copy if borrowed.
    ///
    /// # Errors
    /// If the group is out of range or a slice has another length than [`packed_len`](Self::packed_len) or
    /// [`scales_len`](Self::scales_len).
    pub fn from_packed(
        packed: impl Into<Cow<'a, [u8]>>,
        scales: impl Into<Cow<'a, [f32]>>,
        n: usize,
        k: usize,
        group: usize,
    ) -> Result<Self, QuantizeError> {
        let layout = Layout::new(n, k, group)?;
        let (packed, scales) = (packed.into(), scales.into());
        layout.expect("packed bytes", layout.packed_len(), packed.len())?;
        layout.expect("packed scales", layout.scales_len(), scales.len())?;
        Ok(Self { layout, packed, scales })
    }

    /// Output rows.
    pub fn n(&self) -> usize {
        self.layout.n
    }

    /// Depth.
    pub fn k(&self) -> usize {
        self.layout.k
    }

    /// Depths of a group.
    pub fn group(&self) -> usize {
        self.layout.group
    }

    /// The packed bytes, to be stored.
    pub fn packed(&self) -> &[u8] {
        &self.packed
    }

    /// The packed scales, to be stored.
    pub fn scales(&self) -> &[f32] {
        &self.scales
    }

    /// Bytes the packed form of a shape takes.
    ///
    /// # Errors
    /// If the group is out of range.
    pub fn packed_len(n: usize, k: usize, group: usize) -> Result<usize, QuantizeError> {
        Ok(Layout::new(n, k, group)?.packed_len())
    }

    /// Scales the packed form of a shape has.
    ///
    /// # Errors
    /// If the group is out of range.
    pub fn scales_len(n: usize, k: usize, group: usize) -> Result<usize, QuantizeError> {
        Ok(Layout::new(n, k, group)?.scales_len())
    }

    /// Row `row` as floats, `[k]`.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn row(&self, row: usize) -> Vec<f32> {
        let layout = self.layout;
        assert!(row < layout.n, "row {row} of {}", layout.n);
        let (panel, col) = (row / COLS, row % COLS);
        let mut out = Vec::with_capacity(layout.k);
        for group in 0..layout.groups() {
            let bytes = self.group_bytes(panel, group);
            let scale = self.group_scales(panel, group)[col];
            for d in 0..layout.depths(group).len() {
                let q = i16::from(bytes[(d / DEPTH * COLS + col) * DEPTH + d % DEPTH]) - 128;
                out.push(scale * f32::from(q));
            }
        }
        out
    }

    pub(crate) fn layout(&self) -> Layout {
        self.layout
    }

    pub(crate) fn group_bytes(&self, panel: usize, group: usize) -> &[u8] {
        let start = panel * self.layout.panel_len() + self.layout.start(group) * COLS;
        &self.packed[start..start + self.layout.filled(group) * COLS]
    }

    pub(crate) fn group_scales(&self, panel: usize, group: usize) -> &[f32] {
        &self.scales[(panel * self.layout.groups() + group) * COLS..][..COLS]
    }
}

/// Shape and grouping, and where they put things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) n: usize,
    pub(crate) k: usize,
    pub(crate) group: usize,
}

impl Layout {
    fn new(n: usize, k: usize, group: usize) -> Result<Self, QuantizeError> {
        // 2^16 products of 127 x 255 stay within 32 bits.
        if group == 0 || group > 1 << 16 {
            return Err(QuantizeError::Group(group));
        }
        Ok(Self { n, k, group })
    }

    fn expect(&self, what: &'static str, expected: usize, found: usize) -> Result<(), QuantizeError> {
        let Self { n, k, group } = *self;
        if expected == found {
            Ok(())
        } else {
            Err(QuantizeError::Length { what, n, k, group, expected, found })
        }
    }

    pub(crate) fn groups(&self) -> usize {
        self.k.div_ceil(self.group)
    }

    pub(crate) fn panels(&self) -> usize {
        self.n.div_ceil(COLS)
    }

    /// Depths of group `group` of the matrix.
    pub(crate) fn depths(&self, group: usize) -> Range<usize> {
        group * self.group..self.k.min((group + 1) * self.group)
    }

    /// The same, filled up to whole interleaved depths.
    pub(crate) fn filled(&self, group: usize) -> usize {
        self.depths(group).len().next_multiple_of(DEPTH)
    }

    /// First depth of the group in the packed form.
    pub(crate) fn start(&self, group: usize) -> usize {
        group * self.group.next_multiple_of(DEPTH)
    }

    /// Depths of the packed form.
    pub(crate) fn depth(&self) -> usize {
        self.groups().checked_sub(1).map_or(0, |last| self.start(last) + self.filled(last))
    }

    fn panel_len(&self) -> usize {
        self.depth() * COLS
    }

    fn packed_len(&self) -> usize {
        self.panels() * self.panel_len()
    }

    fn scales_len(&self) -> usize {
        self.panels() * self.groups() * COLS
    }
}

/// How a group of numbers becomes bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// What a byte is worth: NaN if a number is not finite, zero if all are zero or too small to divide by.
    pub(crate) scale: f32,
    pub(crate) inverse: f32,
}

impl Step {
    #[inline(always)]
    pub(crate) fn of(group: &[f32]) -> Self {
        // As bits, NaN is above infinity and infinity above every number, so nothing is lost on the way.
        let bits = group.iter().fold(0u32, |most, x| most.max(x.to_bits() & 0x7fff_ffff));
        let most = f32::from_bits(bits);
        if !most.is_finite() {
            Self { scale: f32::NAN, inverse: 0.0 }
        } else if most < 1e-36 {
            Self { scale: 0.0, inverse: 0.0 }
        } else {
            Self { scale: most / 127.0, inverse: 127.0 / most }
        }
    }

    /// The byte nearest to `x`, ties to even.
    #[inline(always)]
    pub(crate) fn round(self, x: f32) -> i8 {
        round(x, self.inverse)
    }
}
