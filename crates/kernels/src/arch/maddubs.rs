//! Products of AVX2 with weights of four bits: `VPMADDUBSW`, which would saturate with whole bytes.
//!
//! A pair of products of 0..=15 and −127..=127 is at most 3810, so eight of them add up in a 16-bit word. Two instructions
//! for 32 products and two more every eighth time: about half of what [`super::madd`] needs for bytes.

use core::arch::x86_64::*;

use super::avx2::Avx2;
use super::dot::offset_start;
use super::nibbles::{self, BLOCK, OFFSET, Unpack};
use super::scaled::{self, Multiply, Rescale};
use super::{Ahead, COLS, DEPTH, Dot, DotOp, MOST_VECTORS, madd};
use crate::memory::Scratch;

/// Steps whose pairs of products fit a 16-bit word together: `8 · 2 · 15 · 127 < 2¹⁵`.
const SHORT: usize = 8;

/// Proof of AVX2, for its products with four bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Maddubs(pub(crate) Avx2);

/// An instruction of the set [`Avx2`] proves.
macro_rules! proven {
    ($call:expr) => {
        // SAFETY: the token proves the CPU has the instruction; pointers are covered by the caller's contract.
        unsafe { $call }
    };
}

impl Unpack for Avx2 {
    #[inline(always)]
    fn unpack(self, from: &[u8; BLOCK], to: &mut [u8; 2 * BLOCK]) {
        let low = proven!(_mm256_set1_epi8(15));
        for half in 0..2 {
            proven!({
                let bytes = _mm256_loadu_si256(from.as_ptr().add(32 * half).cast());
                let (first, last) =
                    (_mm256_and_si256(bytes, low), _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), low));
                let to = to.as_mut_ptr().add(32 * half);
                _mm256_storeu_si256(to.cast(), first);
                _mm256_storeu_si256(to.add(BLOCK).cast(), last);
            });
        }
    }
}

impl Multiply for Avx2 {
    /// Two neighbouring numbers times a factor are at most 225 each, so one product of words has both.
    #[inline(always)]
    fn multiply(self, factors: &[u8; BLOCK], which: usize, from: &[[u8; BLOCK]], to: &mut [[u8; 2 * BLOCK]]) {
        for half in 0..2 {
            proven!({
                let low = _mm256_set1_epi8(15);
                let shift = _mm_cvtsi32_si128(8 * which as i32);
                let both = _mm256_loadu_si256(factors.as_ptr().add(32 * half).cast());
                let both = _mm256_and_si256(_mm256_srl_epi32(both, shift), _mm256_set1_epi32(255));
                let both = _mm256_or_si256(both, _mm256_slli_epi32::<16>(both));
                let (factor, zero) = (_mm256_and_si256(both, low), _mm256_srli_epi16::<4>(both));
                let start = _mm256_sub_epi16(_mm256_set1_epi16(128), _mm256_mullo_epi16(factor, zero));
                let start = _mm256_and_si256(start, _mm256_set1_epi16(255));
                let start = _mm256_or_si256(start, _mm256_slli_epi16::<8>(start));
                for (from, to) in from.iter().zip(&mut *to) {
                    let bytes = _mm256_loadu_si256(from.as_ptr().add(32 * half).cast());
                    let first = _mm256_and_si256(bytes, low);
                    let last = _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), low);
                    let first = _mm256_add_epi8(_mm256_mullo_epi16(first, factor), start);
                    let last = _mm256_add_epi8(_mm256_mullo_epi16(last, factor), start);
                    let to = to.as_mut_ptr().add(32 * half);
                    _mm256_storeu_si256(to.cast(), first);
                    _mm256_storeu_si256(to.add(BLOCK).cast(), last);
                }
            });
        }
    }
}

impl Rescale for Avx2 {
    /// By way of bytes: words are made of them.
    #[inline(always)]
    fn rescaled<'a>(self, panel: &[u8], buffer: &'a mut [i16], starts: &mut [i32; COLS]) -> &'a [i16] {
        let mut bytes = Scratch::take(buffer.len());
        let bytes: &mut [u8] = bytes.slice();
        scaled::unpack(self, panel, bytes);
        self.prepare(bytes, &mut *buffer, starts);
        buffer
    }
}

impl Dot for Maddubs {
    type Float = Avx2;
    type Act = i8;
    type Weight = u8;
    type W = __m256i;
    type I = __m256i;
    const LANES: usize = 8;
    const VECTORS: usize = 2;
    const ROWS: usize = 4;
    const STEP: usize = DEPTH;
    const PREPARES: bool = true;
    const PER_BYTE: usize = 2;
    const BLOCK_ROWS: usize = 512;
    const BLOCK_PANELS: usize = 4;

    #[inline(always)]
    fn isolate_dot<O: DotOp<Self>>(self, op: O) -> O::Out {
        #[target_feature(enable = "avx2,fma,f16c")]
        #[inline(never)]
        fn enabled<O: DotOp<Maddubs>>(dot: Maddubs, op: O) -> O::Out {
            op.eval(dot)
        }
        // SAFETY: `self` proves the features.
        unsafe { enabled(self, op) }
    }

    #[inline(always)]
    fn act(q: i8) -> i8 {
        q
    }

    #[inline(always)]
    fn quantize(self, x: &[f32], inverse: f32, out: &mut [i8]) {
        proven!(madd::quantize_bytes(x, inverse, out))
    }

    #[inline(always)]
    fn row_start(self, acts: &[i8]) -> i32 {
        offset_start(acts, OFFSET)
    }

    #[inline(always)]
    fn prepare<'a>(self, panel: &'a [u8], buffer: &'a mut [u8], starts: &mut [i32; COLS]) -> &'a [u8] {
        nibbles::prepare(self.0, panel, buffer, starts)
    }

    #[inline(always)]
    unsafe fn weights(self, p: *const u8) -> __m256i {
        proven!(_mm256_loadu_si256(p.cast()))
    }

    #[inline(always)]
    unsafe fn acts(self, p: *const i8) -> __m256i {
        proven!(_mm256_set1_epi32(p.cast::<i32>().read_unaligned()))
    }

    /// Columns add nothing.
    #[inline(always)]
    unsafe fn start(self, row: i32, _: *const i32) -> __m256i {
        proven!(_mm256_set1_epi32(row))
    }

    /// A single step, for [`crate::ops::peak`]'s rates of single instructions and as the specification of [`Self::steps`].
    #[inline(always)]
    fn dot(self, sum: __m256i, w: __m256i, a: __m256i) -> __m256i {
        proven!({
            let pairs = _mm256_maddubs_epi16(w, a);
            _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
        })
    }

    #[inline(always)]
    fn float(self) -> Avx2 {
        self.0
    }

    #[inline(always)]
    fn widen(self, sum: __m256i) -> __m256 {
        proven!(_mm256_cvtepi32_ps(sum))
    }

    #[inline(always)]
    unsafe fn steps<const R: usize, const V: usize>(
        self,
        sum: &mut [[__m256i; V]; R],
        mut acts: *const i8,
        mut weights: [*const u8; MOST_VECTORS],
        steps: usize,
        mut ahead: Ahead,
    ) {
        // SAFETY: the contract covers `steps` steps; pointers are only formed beyond the last.
        unsafe {
            for _ in 0..steps / SHORT {
                for _ in 0..SHORT / Ahead::STEPS {
                    ahead.fetch(self.0, V);
                }
                self.short::<R, V>(sum, acts, weights, SHORT);
                acts = acts.add(SHORT * Self::ROWS * DEPTH);
                weights = weights.map(|w| w.wrapping_add(SHORT * COLS * DEPTH));
            }
            if !steps.is_multiple_of(SHORT) {
                self.short::<R, V>(sum, acts, weights, steps % SHORT);
            }
        }
    }
}

impl Maddubs {
    /// At most [`SHORT`] steps, summed in words first.
    ///
    /// # Safety
    /// As [`Dot::steps`].
    #[inline(always)]
    unsafe fn short<const R: usize, const V: usize>(
        self,
        sum: &mut [[__m256i; V]; R],
        acts: *const i8,
        weights: [*const u8; MOST_VECTORS],
        steps: usize,
    ) {
        // SAFETY: the contract covers every address below.
        unsafe {
            let mut short = [[_mm256_setzero_si256(); V]; R];
            for step in 0..steps {
                let w: [__m256i; V] =
                    core::array::from_fn(|v| self.weights(weights[v].add(step * COLS * DEPTH)));
                for (i, short) in short.iter_mut().enumerate() {
                    let a = self.acts(acts.add((step * Self::ROWS + i) * DEPTH));
                    for (short, w) in short.iter_mut().zip(w) {
                        *short = _mm256_add_epi16(*short, _mm256_maddubs_epi16(w, a));
                    }
                }
            }
            // Loop by loop: flattened, the words would be kept in memory.
            for (sum, short) in sum.iter_mut().zip(short) {
                for (sum, short) in sum.iter_mut().zip(short) {
                    *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(short, _mm256_set1_epi16(1)));
                }
            }
        }
    }
}
