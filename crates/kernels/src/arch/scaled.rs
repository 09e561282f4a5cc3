//! Weights of four bits whose scale has two levels: a group has one in half precision, and every [`SUB`] depths of it a
//! whole factor of that one. Factor times four bits is a byte, so once unpacked they are multiplied as bytes are, a scale
//! of the group at a time.
//!
//! A panel holds, for each [`CHUNK`] depths, a block of [`COLS`] columns of four bytes, one for each [`SUB`] depths, and then
//! the blocks of [`super::nibbles`]. Such a byte is `factor | zero << 4`: four bits `n` stand for `factor · (n − zero)`,
//! which whoever packs them keeps within −128..=127.

use super::nibbles::{BLOCK, NIBBLE_DEPTH, bytes_once_unpacked};
use super::{Ahead, COLS, DEPTH, Dot, DotOp, MOST_VECTORS};
use crate::arch::generic::Generic;

/// Depths that share a factor.
pub(crate) const SUB: usize = 32;
/// Depths whose factors make up a block.
pub(crate) const CHUNK: usize = SUB * DEPTH;
/// Blocks of four bits that share a factor.
pub(super) const SUB_BLOCKS: usize = SUB / NIBBLE_DEPTH;
/// Bytes of a chunk: its factors and its bits.
const CHUNK_BYTES: usize = BLOCK + CHUNK / NIBBLE_DEPTH * BLOCK;

/// Byte products that can take such weights.
pub(crate) trait Rescale: Dot {
    /// The operand of a group: the bytes `128 + factor · (n − zero)`, in the form [`Dot::prepare`] gives them.
    fn rescaled<'a>(
        self,
        panel: &[u8],
        buffer: &'a mut [Self::Weight],
        starts: &mut [i32; COLS],
    ) -> &'a [Self::Weight];
}

/// Unpacks the blocks of one factor: `factors` is the block of the chunk, `which` the place among its four.
pub(super) trait Multiply: Copy {
    fn multiply(self, factors: &[u8; BLOCK], which: usize, from: &[[u8; BLOCK]], to: &mut [[u8; 2 * BLOCK]]);
}

impl Multiply for Generic {
    #[inline(always)]
    fn multiply(self, factors: &[u8; BLOCK], which: usize, from: &[[u8; BLOCK]], to: &mut [[u8; 2 * BLOCK]]) {
        for (from, to) in from.iter().zip(to) {
            let (low, high) = to.split_at_mut(BLOCK);
            for (place, byte) in from.iter().enumerate() {
                let factor = factors[place / DEPTH * DEPTH + which];
                let start = 128u8.wrapping_sub((factor & 15).wrapping_mul(factor >> 4));
                low[place] = start.wrapping_add((byte & 15) * (factor & 15));
                high[place] = start.wrapping_add((byte >> 4) * (factor & 15));
            }
        }
    }
}

/// Unpacks all blocks of a group to bytes.
#[inline(always)]
pub(super) fn unpack(with: impl Multiply, panel: &[u8], to: &mut [u8]) {
    let (mut to, _) = to.as_chunks_mut::<{ 2 * BLOCK }>();
    for chunk in panel.chunks(CHUNK_BYTES) {
        let (blocks, _) = chunk.as_chunks::<BLOCK>();
        let Some((factors, blocks)) = blocks.split_first() else { return };
        for (which, from) in blocks.chunks(SUB_BLOCKS).enumerate() {
            let (mine, rest) = std::mem::take(&mut to).split_at_mut(from.len());
            to = rest;
            with.multiply(factors, which, from, mine);
        }
    }
}

/// The products of `D` with weights of four bits and factors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scaled<D>(pub(crate) D);

/// An operation that was told of `Scaled<D>`, evaluated where `D`'s instructions are enabled.
struct Within<O>(O);

impl<D: Rescale, O: DotOp<Scaled<D>>> DotOp<D> for Within<O> {
    type Out = O::Out;

    #[inline(always)]
    fn eval(self, dot: D) -> O::Out {
        self.0.eval(Scaled(dot))
    }
}

impl<D: Rescale> Dot for Scaled<D> {
    bytes_once_unpacked!(Within);

    #[inline(always)]
    fn row_start(self, acts: &[D::Act]) -> i32 {
        self.0.row_start(acts)
    }

    #[inline(always)]
    fn prepare<'a>(
        self,
        panel: &'a [u8],
        buffer: &'a mut [D::Weight],
        starts: &mut [i32; COLS],
    ) -> &'a [D::Weight] {
        self.0.rescaled(panel, buffer, starts)
    }
}

/// [`Rescale::rescaled`] where bytes are multiplied as they are.
#[inline(always)]
pub(super) fn rescaled<'a>(
    with: impl Multiply,
    panel: &[u8],
    buffer: &'a mut [u8],
    starts: &mut [i32; COLS],
) -> &'a [u8] {
    starts.fill(0);
    unpack(with, panel, buffer);
    buffer
}

impl Rescale for Generic {
    #[inline(always)]
    fn rescaled<'a>(self, panel: &[u8], buffer: &'a mut [u8], starts: &mut [i32; COLS]) -> &'a [u8] {
        rescaled(self, panel, buffer, starts)
    }
}
