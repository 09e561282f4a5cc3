//! Weights of four bits, unpacked into the bytes that [`Dot`] multiplies.
//!
//! A panel holds, for each [`NIBBLE_DEPTH`] depths, [`COLS`] columns of [`DEPTH`] bytes: the low half of byte `d` is depth
//! `d`, the high half depth `d + 4`, each `w + 8` (0..=15). Two halves are therefore two blocks of a byte panel.

use super::dot::offset_start;
use super::{Ahead, COLS, DEPTH, Dot, DotOp, MOST_VECTORS};
use crate::arch::generic::Generic;

/// Depths interleaved in a panel.
pub(crate) const NIBBLE_DEPTH: usize = 2 * DEPTH;
/// What four bits are offset by.
pub(super) const OFFSET: i32 = 8;
/// Bytes of a block of [`NIBBLE_DEPTH`] depths.
pub(super) const BLOCK: usize = COLS * DEPTH;

/// Splits bytes into halves.
pub(crate) trait Unpack: Copy {
    /// Low halves to the first half of `to`, high halves to the second.
    fn unpack(self, from: &[u8; BLOCK], to: &mut [u8; 2 * BLOCK]);
}

impl Unpack for Generic {
    #[inline(always)]
    fn unpack(self, from: &[u8; BLOCK], to: &mut [u8; 2 * BLOCK]) {
        let (low, high) = to.split_at_mut(BLOCK);
        for ((low, high), byte) in low.iter_mut().zip(high).zip(from) {
            (*low, *high) = (byte & 15, byte >> 4);
        }
    }
}

/// The body of [`Dot::prepare`] for instruction sets that multiply the bytes as they are.
#[inline(always)]
pub(super) fn prepare<'a>(
    unpack: impl Unpack,
    panel: &[u8],
    buffer: &'a mut [u8],
    starts: &mut [i32; COLS],
) -> &'a [u8] {
    assert!(2 * panel.len() == buffer.len());
    starts.fill(0);
    let (blocks, _) = panel.as_chunks::<BLOCK>();
    let (to, _) = buffer.as_chunks_mut::<{ 2 * BLOCK }>();
    for (from, to) in blocks.iter().zip(to) {
        unpack.unpack(from, to);
    }
    buffer
}

/// The products of `D` with weights of four bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nibbles<D>(pub(crate) D);

/// An operation that was told of `Nibbles<D>`, evaluated where `D`'s instructions are enabled.
struct Within<O>(O);

impl<D: Dot, O: DotOp<Nibbles<D>>> DotOp<D> for Within<O> {
    type Out = O::Out;

    #[inline(always)]
    fn eval(self, dot: D) -> O::Out {
        self.0.eval(Nibbles(dot))
    }
}

/// What a form of packed weights takes over from the products `D` of the bytes it is unpacked to; `$within` evaluates an
/// operation that was told of the form where `D`'s instructions are enabled.
macro_rules! bytes_once_unpacked {
    ($within:ident) => {
        type Float = D::Float;
        type Act = D::Act;
        type Weight = D::Weight;
        type W = D::W;
        type I = D::I;
        const LANES: usize = D::LANES;
        const VECTORS: usize = D::VECTORS;
        const ROWS: usize = D::ROWS;
        const STEP: usize = D::STEP;
        const PREPARES: bool = true;
        const PER_BYTE: usize = 2;
        const BLOCK_ROWS: usize = D::BLOCK_ROWS;
        const BLOCK_PANELS: usize = D::BLOCK_PANELS;

        #[inline(always)]
        fn isolate_dot<O: DotOp<Self>>(self, op: O) -> O::Out {
            self.0.isolate_dot($within(op))
        }

        #[inline(always)]
        fn act(q: i8) -> D::Act {
            D::act(q)
        }

        #[inline(always)]
        fn quantize(self, x: &[f32], inverse: f32, out: &mut [D::Act]) {
            self.0.quantize(x, inverse, out);
        }

        #[inline(always)]
        unsafe fn weights(self, p: *const D::Weight) -> D::W {
            // SAFETY: same contract.
            unsafe { self.0.weights(p) }
        }

        #[inline(always)]
        unsafe fn acts(self, p: *const D::Act) -> D::W {
            // SAFETY: same contract.
            unsafe { self.0.acts(p) }
        }

        #[inline(always)]
        unsafe fn start(self, row: i32, cols: *const i32) -> D::I {
            // SAFETY: same contract.
            unsafe { self.0.start(row, cols) }
        }

        #[inline(always)]
        fn dot(self, sum: D::I, w: D::W, a: D::W) -> D::I {
            self.0.dot(sum, w, a)
        }

        #[inline(always)]
        fn float(self) -> D::Float {
            self.0.float()
        }

        #[inline(always)]
        fn widen(self, sum: D::I) -> <D::Float as $crate::arch::Simd>::F {
            self.0.widen(sum)
        }

        #[inline(always)]
        unsafe fn steps<const R: usize, const V: usize>(
            self,
            sum: &mut [[D::I; V]; R],
            acts: *const D::Act,
            weights: [*const D::Weight; MOST_VECTORS],
            steps: usize,
            ahead: Ahead,
        ) {
            // SAFETY: same contract.
            unsafe { self.0.steps(sum, acts, weights, steps, ahead) }
        }
    };
}
pub(super) use bytes_once_unpacked;

impl<D: Dot<Act = i8, Weight = u8> + Unpack> Dot for Nibbles<D> {
    bytes_once_unpacked!(Within);

    #[inline(always)]
    fn row_start(self, acts: &[i8]) -> i32 {
        offset_start(acts, OFFSET)
    }

    #[inline(always)]
    fn prepare<'a>(self, panel: &'a [u8], buffer: &'a mut [u8], starts: &mut [i32; COLS]) -> &'a [u8] {
        prepare(self.0, panel, buffer, starts)
    }
}
