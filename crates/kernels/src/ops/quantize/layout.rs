//! Shape and grouping of quantised weights, and where they put things.

use std::ops::Range;

use super::{Bits, QuantizeError};
use crate::arch::{CHUNK, COLS, DEPTH, NIBBLE_DEPTH, SUB};

/// An `[n, k]` matrix in groups of `group` depths, in panels of 16 rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) n: usize,
    pub(crate) k: usize,
    pub(crate) group: usize,
    pub(crate) bits: Bits,
}

impl Layout {
    pub(super) fn new(n: usize, k: usize, group: usize, bits: Bits) -> Result<Self, QuantizeError> {
        // 2^16 products of 127 x 255 stay within 32 bits.
        if group == 0 || group > 1 << 16 {
            return Err(QuantizeError::Group(group));
        }
        if bits == Bits::FourScaled && !group.is_multiple_of(CHUNK) {
            return Err(QuantizeError::Chunk(group));
        }
        Ok(Self { n, k, group, bits })
    }

    pub(super) fn expect(
        &self,
        what: &'static str,
        expected: usize,
        found: usize,
    ) -> Result<(), QuantizeError> {
        let Self { n, k, group, .. } = *self;
        if expected == found {
            Ok(())
        } else {
            Err(QuantizeError::Length { what, n, k, group, expected, found })
        }
    }

    /// Whether activations quantised for one are what the other multiplies by.
    pub(crate) fn shares_activations(&self, other: &Self) -> bool {
        (self.k, self.group, self.bits) == (other.k, other.group, other.bits)
    }

    /// Depths that are interleaved.
    fn unit(&self) -> usize {
        match self.bits {
            Bits::Eight => DEPTH,
            Bits::Four | Bits::FourScaled => NIBBLE_DEPTH,
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
        self.depths(group).len().next_multiple_of(self.unit())
    }

    /// Depths of the largest group, filled up.
    pub(crate) fn deepest(&self) -> usize {
        self.group.min(self.k).next_multiple_of(self.unit())
    }

    /// First depth of the group in the packed form.
    pub(crate) fn start(&self, group: usize) -> usize {
        group * self.group.next_multiple_of(self.unit())
    }

    /// Depths of the packed form.
    pub(crate) fn depth(&self) -> usize {
        self.groups().checked_sub(1).map_or(0, |last| self.start(last) + self.filled(last))
    }

    /// Where groups lie, worked out once.
    pub(crate) fn places(&self) -> Places {
        let groups = self.groups();
        let (whole, last) = (self.start(1), groups.checked_sub(1).map_or(0, |last| self.filled(last)));
        let (whole_bytes, last_bytes) = (self.bytes(whole), self.bytes(last));
        Places { groups, whole, last, whole_bytes, last_bytes, panel_bytes: self.bytes(self.depth()) }
    }

    /// Bytes that this many packed depths of a panel take.
    pub(super) fn bytes(&self, depths: usize) -> usize {
        let factors = if self.bits == Bits::FourScaled { depths.div_ceil(CHUNK) * COLS * DEPTH } else { 0 };
        depths * COLS / self.bits.per_byte() + factors
    }

    /// Factors of a group of this many depths and a column.
    pub(super) fn factors(&self, depths: usize) -> usize {
        if self.bits == Bits::FourScaled { depths.div_ceil(SUB) } else { 0 }
    }

    pub(super) fn packed_len(&self) -> usize {
        self.panels() * self.bytes(self.depth())
    }

    pub(super) fn scales_len(&self) -> usize {
        self.panels() * self.groups() * COLS
    }

    /// Where depth `depth` of the packed form of column `col` is in its panel: the byte, and by how much it is shifted.
    pub(super) fn place(&self, col: usize, depth: usize) -> (usize, u32) {
        let (block, within) = (depth / self.unit(), depth % self.unit());
        let before = if self.bits == Bits::FourScaled { depth / CHUNK + 1 } else { 0 };
        (((before + block) * COLS + col) * DEPTH + within % DEPTH, if within < DEPTH { 0 } else { 4 })
    }

    /// The byte of the panel that has the factor of a column for the [`SUB`] depths from `depth` on.
    pub(super) fn factor_place(&self, col: usize, depth: usize) -> usize {
        let chunk = depth / CHUNK * (1 + CHUNK / NIBBLE_DEPTH);
        (chunk * COLS + col) * DEPTH + depth % CHUNK / SUB
    }
}

/// Where the groups of a panel lie. The divisions that [`Layout`] makes to tell it would cost as much as the products of a
/// group with eight rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    groups: usize,
    /// Packed depths of the last group, and of every other.
    last: usize,
    whole: usize,
    last_bytes: usize,
    whole_bytes: usize,
    panel_bytes: usize,
}

impl Places {
    /// Packed depths of a group.
    #[inline(always)]
    pub(crate) fn filled(&self, group: usize) -> usize {
        if group + 1 == self.groups { self.last } else { self.whole }
    }

    /// First packed depth of a group.
    #[inline(always)]
    pub(crate) fn start(&self, group: usize) -> usize {
        group * self.whole
    }

    /// The bytes of a group among those of all panels.
    #[inline(always)]
    pub(super) fn bytes(&self, panel: usize, group: usize) -> Range<usize> {
        let start = panel * self.panel_bytes + group * self.whole_bytes;
        start..start + if group + 1 == self.groups { self.last_bytes } else { self.whole_bytes }
    }

    /// The scales of a group among those of all panels.
    #[inline(always)]
    pub(super) fn scales(&self, panel: usize, group: usize) -> Range<usize> {
        let start = (panel * self.groups + group) * COLS;
        start..start + COLS
    }
}
