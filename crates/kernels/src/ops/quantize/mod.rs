//! Weights of eight or four bits: one scale per output row and group of depths, packed for the kernels.
//!
//! `w ≈ scale · q`, with four bits perhaps `scale · q + offset`. The packed form is what the kernels read, so a checkpoint
//! that stores it can be mapped and used without a copy: panels of 16 rows; in a panel, for each 4 depths, 16 rows of 4
//! bytes `q + 128`, or, for each 8 depths, 16 rows of 4 bytes whose low halves are `q + 8` of the first four depths and
//! whose high halves are those of the others. A group's depths are filled up to a multiple of 4 or 8 with `q = 0`, the
//! rows of the last panel likewise. Scales and offsets are `[panel][group][16]`. Four bits may have factors: before each 128
//! depths, 16 rows of 4 bytes, one for every 32 of them, `factor | zero << 4`, so that `w ≈ scale · factor · (n − zero)`.

mod bytes;
mod layout;
mod nibbles;
mod pack;
mod scaled;

use std::borrow::Cow;

pub(crate) use bytes::Step;
use half::f16;
pub(crate) use layout::{Layout, Places};
use thiserror::Error;

use crate::arch::generic::Generic;
use crate::arch::{COLS, Element, Simd};

/// A quantised `[n, k]` weight matrix in the packed form, owned or borrowed from a mapped file.
#[derive(Clone, Debug)]
pub struct QuantizedWeights<'a> {
    layout: Layout,
    packed: Cow<'a, [u8]>,
    scales: Scales<'a>,
}

/// Bits of a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bits {
    /// A byte, its scale in single precision.
    Eight,
    /// Half a byte, its scale in half precision.
    Four,
    /// Half a byte, its scale in half precision times a factor of 1 to 15 for every 32 depths; a group is a multiple of 128.
    FourScaled,
}

impl Bits {
    /// Weights in a byte.
    pub(crate) fn per_byte(self) -> usize {
        match self {
            Self::Eight => 1,
            Self::Four | Self::FourScaled => 2,
        }
    }

    /// A stored byte whose weights are zero.
    fn zero(self) -> u8 {
        match self {
            Self::Eight => 128,
            Self::Four | Self::FourScaled => 0x88,
        }
    }

    /// The bits of the first weight of a byte.
    fn mask(self) -> u8 {
        match self {
            Self::Eight => 255,
            Self::Four | Self::FourScaled => 15,
        }
    }
}

/// Packed scales and, in half precision, perhaps offsets.
#[derive(Clone, Debug)]
pub enum Scales<'a> {
    /// Of bytes.
    Single(Cow<'a, [f32]>),
    /// Of four bits.
    Half(Cow<'a, [f16]>, Option<Cow<'a, [f16]>>),
    /// Of four bits with factors, which lie among the packed bytes.
    Factored(Cow<'a, [f16]>),
}

impl Scales<'_> {
    /// Bits of the weights they belong to.
    fn bits(&self) -> Bits {
        match self {
            Self::Single(_) => Bits::Eight,
            Self::Half(..) => Bits::Four,
            Self::Factored(_) => Bits::FourScaled,
        }
    }
}

/// Why packed bytes were refused.
#[derive(Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum QuantizeError {
    /// No depths in a group, or so many that 32-bit sums could overflow.
    #[error("quantisation group {0} is not in 1..=65536")]
    Group(usize),
    /// Four bits with factors in a group that has no whole number of them in a block.
    #[error("quantisation group {0} of four bits with factors is not a multiple of 128")]
    Chunk(usize),
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

impl<'a> QuantizedWeights<'a> {
    /// The packed form as it was stored, of four or eight bits as its scales tell; not copied if borrowed.
    ///
    /// # Errors
    /// If the group is out of range or a slice has another length than [`packed_len`](Self::packed_len) or
    /// [`scales_len`](Self::scales_len).
    pub fn from_packed(
        packed: impl Into<Cow<'a, [u8]>>,
        scales: Scales<'a>,
        n: usize,
        k: usize,
        group: usize,
    ) -> Result<Self, QuantizeError> {
        let layout = Layout::new(n, k, group, scales.bits())?;
        let packed = packed.into();
        layout.expect("packed bytes", layout.packed_len(), packed.len())?;
        let (count, offsets) = match &scales {
            Scales::Single(scales) => (scales.len(), None),
            Scales::Half(scales, offsets) => (scales.len(), offsets.as_ref().map(|o| o.len())),
            Scales::Factored(scales) => (scales.len(), None),
        };
        layout.expect("packed scales", layout.scales_len(), count)?;
        layout.expect("packed offsets", layout.scales_len(), offsets.unwrap_or(layout.scales_len()))?;
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

    /// Bits of a weight.
    pub fn bits(&self) -> Bits {
        self.layout.bits
    }

    /// The packed bytes, to be stored.
    pub fn packed(&self) -> &[u8] {
        &self.packed
    }

    /// The packed scales, to be stored.
    pub fn scales(&self) -> &Scales<'a> {
        &self.scales
    }

    /// The packed bytes and scales.
    pub fn into_parts(self) -> (Cow<'a, [u8]>, Scales<'a>) {
        (self.packed, self.scales)
    }

    /// Bytes of all parts, which one product reads.
    pub fn size_in_bytes(&self) -> usize {
        let scales = match &self.scales {
            Scales::Single(scales) => size_of_val(&**scales),
            Scales::Half(scales, offsets) => {
                size_of_val(&**scales) + offsets.as_ref().map_or(0, |offsets| size_of_val(&**offsets))
            }
            Scales::Factored(scales) => size_of_val(&**scales),
        };
        self.packed.len() + scales
    }

    /// Bytes the packed form of a shape takes.
    ///
    /// # Errors
    /// If the group is out of range.
    pub fn packed_len(n: usize, k: usize, group: usize, bits: Bits) -> Result<usize, QuantizeError> {
        Ok(Layout::new(n, k, group, bits)?.packed_len())
    }

    /// Scales (and as many offsets, if any) the packed form of a shape has.
    ///
    /// # Errors
    /// If the group is out of range.
    pub fn scales_len(n: usize, k: usize, group: usize) -> Result<usize, QuantizeError> {
        Ok(Layout::new(n, k, group, Bits::Eight)?.scales_len())
    }

    /// Row `row` as floats, `[k]`.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn row(&self, row: usize) -> Vec<f32> {
        let layout = self.layout;
        assert!(row < layout.n, "row {row} of {}", layout.n);
        let (panel, col) = (row / COLS, row % COLS);
        let zero = f32::from(layout.bits.zero() & layout.bits.mask());
        let (places, mut out) = (layout.places(), Vec::with_capacity(layout.k));
        for group in 0..layout.groups() {
            let bytes = self.group_bytes(&places, panel, group);
            let room = &mut [[0.0; COLS]; 2];
            let (scales, offsets) = self.group_scales(Generic, &places, panel, group, room);
            for d in 0..layout.depths(group).len() {
                let (byte, shift) = layout.place(col, d);
                let n = f32::from(bytes[byte] >> shift & layout.bits.mask());
                let w = if layout.bits == Bits::FourScaled {
                    let factor = bytes[layout.factor_place(col, d)];
                    scales[col] * (f32::from(factor & 15) * (n - f32::from(factor >> 4)))
                } else {
                    scales[col] * (n - zero)
                };
                out.push(offsets.map_or(w, |offsets| w + offsets[col]));
            }
        }
        out
    }

    pub(crate) fn layout(&self) -> Layout {
        self.layout
    }

    /// The packed weights of a group, whose places are those of the layout.
    #[inline(always)]
    pub(crate) fn group_bytes(&self, places: &Places, panel: usize, group: usize) -> &[u8] {
        &self.packed[places.bytes(panel, group)]
    }

    /// Scales and offsets of a group's columns: where they are if they are in single precision, else widened to `room`.
    #[inline(always)]
    pub(crate) fn group_scales<'s, S: Simd>(
        &'s self,
        simd: S,
        places: &Places,
        panel: usize,
        group: usize,
        room: &'s mut [[f32; COLS]; 2],
    ) -> (&'s [f32; COLS], Option<&'s [f32; COLS]>) {
        let at = places.scales(panel, group);
        let [scales_room, offsets_room] = room;
        match &self.scales {
            Scales::Single(scales) => (scales[at].first_chunk().expect("scales of all columns"), None),
            Scales::Half(scales, None) | Scales::Factored(scales) => {
                (widen(simd, &scales[at], scales_room), None)
            }
            Scales::Half(scales, Some(offsets)) => {
                let scales = widen(simd, &scales[at.clone()], scales_room);
                (scales, Some(widen(simd, &offsets[at], offsets_room)))
            }
        }
    }
}

/// The numbers of a group's columns in single precision.
#[inline(always)]
fn widen<'s, S: Simd, T: Element>(simd: S, of: &[T], to: &'s mut [f32; COLS]) -> &'s [f32; COLS] {
    assert!(of.len() == COLS);
    for i in (0..COLS).step_by(8) {
        // SAFETY: both have `COLS` elements, a multiple of eight.
        unsafe { simd.copy8(of.as_ptr().add(i), to.as_mut_ptr().add(i)) };
    }
    to
}
