//! Byte products of AVX2, through 16-bit words, with half the multiplications (Winograd 1968, "A new algorithm for
//! inner product").
//!
//! `a₀w₀ + a₂w₂ = (a₀ + w₂)(a₂ + w₀) − a₀a₂ − w₀w₂`, and the last two products belong to one row or one column: they
//! are what sums start from. `VPMADDWD` takes two such products at a time. `VPMADDUBSW` would saturate, and a plain
//! `VPMADDWD` chain needs as many instructions, all of them multiplications, which only two of the four pipes take.
//! Everything wraps modulo 2³², and the sum itself fits, so it is exact.

use core::arch::x86_64::*;

use super::avx2::Avx2;
use super::{COLS, DEPTH, Dot, DotOp, round};

/// An instruction of the set [`Avx2`] proves.
macro_rules! proven {
    ($call:expr) => {
        // SAFETY: the token proves the CPU has the instruction; pointers are covered by the caller's contract.
        unsafe { $call }
    };
}

impl Dot for Avx2 {
    type Float = Self;
    type Act = i16;
    /// Still offset by 128.
    type Weight = i16;
    /// Depths 0 and 1, depths 2 and 3.
    type W = [__m256i; 2];
    type I = __m256i;
    const LANES: usize = 8;
    const VECTORS: usize = 2;
    const ROWS: usize = 4;
    const STEP: usize = DEPTH;
    const PREPARES: bool = true;
    const BLOCK_ROWS: usize = 512;
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

    #[inline(always)]
    fn quantize(self, x: &[f32], inverse: f32, out: &mut [i16]) {
        assert!(out.len() >= x.len());
        let whole = x.len() / 8 * 8;
        for i in (0..whole).step_by(8) {
            // SAFETY: eight values from `i` on are within both slices.
            unsafe {
                _mm_storeu_si128(out.as_mut_ptr().add(i).cast(), quantize8(x.as_ptr().add(i), inverse))
            };
        }
        for (q, &x) in out[whole..].iter_mut().zip(&x[whole..]) {
            *q = i16::from(round(x, inverse));
        }
    }

    #[inline(always)]
    fn row_start(self, acts: &[i16]) -> i32 {
        let blocks = acts.chunks_exact(16);
        let mut start = 0i32;
        for a in blocks.remainder().chunks_exact(DEPTH) {
            let [a0, a1, a2, a3] = core::array::from_fn(|d| i32::from(a[d]));
            start -= a0 * a2 + a1 * a3 + 128 * (a0 + a1 + a2 + a3);
        }
        let mut lanes = [[0i32; 8]; 2];
        proven!({
            let (mut twice, mut sums) = (_mm256_setzero_si256(), _mm256_setzero_si256());
            for a in blocks {
                let a = _mm256_loadu_si256(a.as_ptr().cast());
                let swapped = _mm256_shuffle_epi32::<0b10_11_00_01>(a);
                twice = _mm256_add_epi32(twice, _mm256_madd_epi16(a, swapped));
                sums = _mm256_add_epi32(sums, _mm256_madd_epi16(a, _mm256_set1_epi16(128)));
            }
            _mm256_storeu_si256(lanes[0].as_mut_ptr().cast(), twice);
            _mm256_storeu_si256(lanes[1].as_mut_ptr().cast(), sums);
        });
        start - lanes[0].iter().sum::<i32>() / 2 - lanes[1].iter().sum::<i32>()
    }

    /// Eight columns of depths 0 and 1, the same columns of depths 2 and 3, then the next eight.
    #[inline(always)]
    fn prepare<'a>(self, panel: &'a [u8], buffer: &'a mut [i16], starts: &mut [i32; COLS]) -> &'a [i16] {
        const BLOCK: usize = COLS * DEPTH;
        assert!(panel.len() == buffer.len());
        proven!({
            // Depths 0, 2, 1, 3 of a column: the low bytes of its words are then depths 0 and 1.
            let order = _mm256_broadcastsi128_si256(_mm_setr_epi8(
                0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15,
            ));
            let low = _mm256_set1_epi16(0xff);
            let mut start = [_mm256_setzero_si256(); 2];
            for (from, to) in panel.chunks_exact(BLOCK).zip(buffer.chunks_exact_mut(BLOCK)) {
                for (half, start) in start.iter_mut().enumerate() {
                    let bytes = _mm256_loadu_si256(from.as_ptr().add(half * BLOCK / 2).cast());
                    let bytes = _mm256_shuffle_epi8(bytes, order);
                    let (first, last) = (_mm256_and_si256(bytes, low), _mm256_srli_epi16::<8>(bytes));
                    let to = to.as_mut_ptr().add(half * BLOCK / 2).cast::<__m256i>();
                    _mm256_storeu_si256(to, first);
                    _mm256_storeu_si256(to.add(1), last);
                    *start = _mm256_sub_epi32(*start, _mm256_madd_epi16(first, last));
                }
            }
            for (half, start) in start.into_iter().enumerate() {
                _mm256_storeu_si256(starts.as_mut_ptr().add(half * COLS / 2).cast(), start);
            }
        });
        buffer
    }

    #[inline(always)]
    unsafe fn weights(self, p: *const i16) -> [__m256i; 2] {
        proven!([_mm256_loadu_si256(p.cast()), _mm256_loadu_si256(p.add(16).cast())])
    }

    #[inline(always)]
    unsafe fn acts(self, p: *const i16) -> [__m256i; 2] {
        let p = p.cast::<i32>();
        proven!([_mm256_set1_epi32(p.read_unaligned()), _mm256_set1_epi32(p.add(1).read_unaligned())])
    }

    #[inline(always)]
    unsafe fn start(self, row: i32, cols: *const i32) -> __m256i {
        proven!(_mm256_add_epi32(_mm256_set1_epi32(row), _mm256_loadu_si256(cols.cast())))
    }

    #[inline(always)]
    fn dot(self, sum: __m256i, w: [__m256i; 2], a: [__m256i; 2]) -> __m256i {
        proven!({
            let (first, last) = (_mm256_add_epi16(a[0], w[1]), _mm256_add_epi16(a[1], w[0]));
            _mm256_add_epi32(sum, _mm256_madd_epi16(first, last))
        })
    }

    #[inline(always)]
    fn float(self) -> Self {
        self
    }

    #[inline(always)]
    fn widen(self, sum: __m256i) -> __m256 {
        proven!(_mm256_cvtepi32_ps(sum))
    }
}

/// Body of [`Dot::quantize`] for eight values, shared with the VNNI sets: words in −127..=127.
///
/// # Safety
/// Eight values must be readable at `x`; AVX2.
#[inline(always)]
pub(super) unsafe fn quantize8(x: *const f32, inverse: f32) -> __m128i {
    proven!({
        let wide = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x), _mm256_set1_ps(inverse)));
        let words = _mm_packs_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256::<1>(wide));
        // What is not a number became the least word, and its row is not a number whatever the byte.
        _mm_max_epi16(words, _mm_set1_epi16(-127))
    })
}

/// [`Dot::quantize`] to bytes.
///
/// # Safety
/// AVX2.
#[inline(always)]
pub(super) unsafe fn quantize_bytes(x: &[f32], inverse: f32, out: &mut [i8]) {
    assert!(out.len() >= x.len());
    let whole = x.len() / 8 * 8;
    for i in (0..whole).step_by(8) {
        // SAFETY: eight values from `i` on are within both slices; the caller has AVX2.
        unsafe {
            let words = quantize8(x.as_ptr().add(i), inverse);
            _mm_storel_epi64(out.as_mut_ptr().add(i).cast(), _mm_packs_epi16(words, words));
        }
    }
    for (q, &x) in out[whole..].iter_mut().zip(&x[whole..]) {
        *q = round(x, inverse);
    }
}
