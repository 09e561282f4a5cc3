//! Byte products of AVX2, through 16-bit words: `VPMADDUBSW` would saturate, `VPMADDWD` is exact and as fast.

use core::arch::x86_64::*;

use super::avx2::Avx2;
use super::{COLS, DEPTH, Dot, DotOp};

/// An instruction of the set [`Avx2`] proves.
macro_rules! proven {
    ($call:expr) => {
        // SAFETY: the token proves the CPU has the instruction; pointers are covered by the caller's contract.
        unsafe { $call }
    };
}

impl Dot for Avx2 {
    type Act = i16;
    type Weight = i16;
    type W = __m256i;
    type I = __m256i;
    const LANES: usize = 8;
    const VECTORS: usize = 2;
    const ROWS: usize = 6;
    const STEP: usize = 2;
    const OFFSET: i32 = 0;
    const BLOCK_ROWS: usize = 48;
    const BLOCK_PANELS: usize = 4;

    #[inline(always)]
    fn isolate_dot<O: DotOp<Self>>(self, op: O) -> O::Out {
        #[target_feature(enable = "avx2,fma,f16c")]
        #[inline(never)]
        fn enabled<O: DotOp<Avx2>>(dot: Avx2, op: O) -> O::Out {
            op.eval(dot)
        }
        // SAFETY: `self` proves the features.
        unsafe { enabled(self, op) }
    }

    #[inline(always)]
    fn act(q: i8) -> i16 {
        i16::from(q)
    }

    /// Words less their offset, in pairs of depths: sixteen columns of the first two depths, then of the last two.
    #[inline(always)]
    fn prepare<'a>(self, panel: &'a [u8], buffer: &'a mut [i16]) -> &'a [i16] {
        const BLOCK: usize = COLS * DEPTH;
        for (from, to) in panel.chunks_exact(BLOCK).zip(buffer.chunks_exact_mut(BLOCK)) {
            proven!({
                let pairs = _mm256_broadcastsi128_si256(_mm_setr_epi8(
                    0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15,
                ));
                let offset = _mm256_set1_epi16(128);
                for half in 0..2 {
                    let bytes = _mm256_loadu_si256(from.as_ptr().add(half * BLOCK / 2).cast());
                    let sorted = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_shuffle_epi8(bytes, pairs));
                    let first = _mm256_cvtepu8_epi16(_mm256_castsi256_si128(sorted));
                    let last = _mm256_cvtepu8_epi16(_mm256_extracti128_si256::<1>(sorted));
                    let to = to.as_mut_ptr().add(half * 16);
                    _mm256_storeu_si256(to.cast(), _mm256_sub_epi16(first, offset));
                    _mm256_storeu_si256(to.add(BLOCK / 2).cast(), _mm256_sub_epi16(last, offset));
                }
            });
        }
        buffer
    }

    #[inline(always)]
    unsafe fn weights(self, p: *const i16) -> __m256i {
        proven!(_mm256_loadu_si256(p.cast()))
    }

    #[inline(always)]
    unsafe fn acts(self, p: *const i16) -> __m256i {
        proven!(_mm256_set1_epi32(p.cast::<i32>().read_unaligned()))
    }

    #[inline(always)]
    fn all(self, x: i32) -> __m256i {
        proven!(_mm256_set1_epi32(x))
    }

    #[inline(always)]
    fn dot(self, sum: __m256i, w: __m256i, a: __m256i) -> __m256i {
        proven!(_mm256_add_epi32(sum, _mm256_madd_epi16(w, a)))
    }

    #[inline(always)]
    unsafe fn accumulate(self, sum: __m256i, scale: f32, scales: *const f32, c: *mut f32) {
        proven!(accumulate(sum, scale, scales, c))
    }
}

/// Body of [`Dot::accumulate`] for eight lanes, shared with AVX-VNNI.
///
/// # Safety
/// That contract, and AVX2 with FMA.
#[inline(always)]
pub(super) unsafe fn accumulate(sum: __m256i, scale: f32, scales: *const f32, c: *mut f32) {
    proven!({
        let scale = _mm256_mul_ps(_mm256_set1_ps(scale), _mm256_loadu_ps(scales));
        _mm256_storeu_ps(c, _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), scale, _mm256_loadu_ps(c)));
    })
}
