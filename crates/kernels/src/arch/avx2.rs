//! AVX2 with FMA and F16C: eight lanes, sixteen registers.

use core::arch::x86_64::*;

use half::{bf16, f16};

use super::{Element, Op, Simd};

/// Proof that the CPU has AVX2, FMA and F16C.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2 {
    _proof: (),
}

impl Avx2 {
    pub(crate) fn new() -> Option<Self> {
        let has = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c");
        has.then_some(Self { _proof: () })
    }
}

/// An instruction of the set this file's token proves.
macro_rules! proven {
    ($call:expr) => {
        // SAFETY: the token proves the CPU has the instruction; pointers are covered by the caller's contract.
        unsafe { $call }
    };
}

impl Simd for Avx2 {
    const LANES: usize = 8;
    const ROWS: usize = 6;
    type F = __m256;

    #[inline(always)]
    fn isolate<O: Op>(self, op: O) -> O::Out {
        #[target_feature(enable = "avx2,fma,f16c")]
        #[inline(never)]
        fn enabled<O: Op>(simd: Avx2, op: O) -> O::Out {
            op.eval(simd)
        }
        // SAFETY: `self` proves the features.
        unsafe { enabled(self, op) }
    }

    #[inline(always)]
    fn prefetch(self, p: *const f32) {
        proven!(_mm_prefetch::<_MM_HINT_T0>(p.cast()))
    }

    #[inline(always)]
    fn splat(self, x: f32) -> __m256 {
        proven!(_mm256_set1_ps(x))
    }

    #[inline(always)]
    unsafe fn load(self, p: *const f32) -> __m256 {
        proven!(_mm256_loadu_ps(p))
    }

    #[inline(always)]
    unsafe fn store(self, p: *mut f32, x: __m256) {
        proven!(_mm256_storeu_ps(p, x))
    }

    #[inline(always)]
    fn add(self, a: __m256, b: __m256) -> __m256 {
        proven!(_mm256_add_ps(a, b))
    }

    #[inline(always)]
    fn sub(self, a: __m256, b: __m256) -> __m256 {
        proven!(_mm256_sub_ps(a, b))
    }

    #[inline(always)]
    fn mul(self, a: __m256, b: __m256) -> __m256 {
        proven!(_mm256_mul_ps(a, b))
    }

    #[inline(always)]
    fn div(self, a: __m256, b: __m256) -> __m256 {
        proven!(_mm256_div_ps(a, b))
    }

    #[inline(always)]
    fn fma(self, a: __m256, b: __m256, c: __m256) -> __m256 {
        proven!(_mm256_fmadd_ps(a, b, c))
    }

    #[inline(always)]
    fn fnma(self, a: __m256, b: __m256, c: __m256) -> __m256 {
        proven!(_mm256_fnmadd_ps(a, b, c))
    }

    #[inline(always)]
    fn min(self, a: __m256, b: __m256) -> __m256 {
        proven!(_mm256_min_ps(a, b))
    }

    #[inline(always)]
    fn max(self, a: __m256, b: __m256) -> __m256 {
        proven!(_mm256_max_ps(a, b))
    }

    #[inline(always)]
    fn abs(self, a: __m256) -> __m256 {
        proven!(_mm256_andnot_ps(_mm256_set1_ps(-0.0), a))
    }

    #[inline(always)]
    fn round(self, a: __m256) -> __m256 {
        proven!(_mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a))
    }

    #[inline(always)]
    fn scale2(self, a: __m256, n: __m256) -> __m256 {
        proven!({
            // In two factors, because 2^n alone leaves the normal range before the product does.
            let (n, bias) = (_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
            let half = _mm256_srai_epi32::<1>(n);
            let rest = _mm256_sub_epi32(n, half);
            let low = _mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_add_epi32(half, bias)));
            let high = _mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_add_epi32(rest, bias)));
            _mm256_mul_ps(_mm256_mul_ps(a, low), high)
        })
    }

    #[inline(always)]
    fn sum(self, a: __m256) -> f32 {
        proven!({
            let four = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
        })
    }

    #[inline(always)]
    unsafe fn copy8<T: Element>(self, src: *const T, dst: *mut f32) {
        proven!(_mm256_storeu_ps(dst, T::widen8(src)))
    }

    #[inline(always)]
    unsafe fn transpose8<T: Element>(self, src: *const T, stride: usize, dst: *mut f32, to: usize) {
        proven!(transpose8(src, stride, dst, to))
    }
}

/// Body of [`Simd::transpose8`], shared with the sets that include AVX2.
///
/// # Safety
/// That contract, and AVX2 with F16C.
#[inline(always)]
pub(super) unsafe fn transpose8<T: Element>(src: *const T, stride: usize, dst: *mut f32, to: usize) {
    proven!({
        let row: [__m256; 8] = core::array::from_fn(|i| T::widen8(src.add(i * stride)));
        let pair: [__m256; 8] = core::array::from_fn(|i| {
            let (a, b) = (row[i / 2 * 2], row[i / 2 * 2 + 1]);
            if i % 2 == 0 { _mm256_unpacklo_ps(a, b) } else { _mm256_unpackhi_ps(a, b) }
        });
        let quad: [__m256; 8] = core::array::from_fn(|i| {
            let (a, b) = (pair[i / 4 * 4 + i % 4 / 2], pair[i / 4 * 4 + i % 4 / 2 + 2]);
            if i % 2 == 0 { _mm256_shuffle_ps::<0x44>(a, b) } else { _mm256_shuffle_ps::<0xee>(a, b) }
        });
        for i in 0..4 {
            let (a, b) = (quad[i], quad[i + 4]);
            _mm256_storeu_ps(dst.add(i * to), _mm256_permute2f128_ps::<0x20>(a, b));
            _mm256_storeu_ps(dst.add((i + 4) * to), _mm256_permute2f128_ps::<0x31>(a, b));
        }
    })
}

/// # Safety
/// Eight values readable at `p`; AVX.
#[inline(always)]
pub(super) unsafe fn widen8_f32(p: *const f32) -> __m256 {
    proven!(_mm256_loadu_ps(p))
}

/// # Safety
/// Eight values readable at `p`; AVX2.
#[inline(always)]
pub(super) unsafe fn widen8_bf16(p: *const bf16) -> __m256 {
    proven!(_mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(_mm_loadu_si128(p.cast())))))
}

/// # Safety
/// Eight values readable at `p`; F16C.
#[inline(always)]
pub(super) unsafe fn widen8_f16(p: *const f16) -> __m256 {
    proven!(_mm256_cvtph_ps(_mm_loadu_si128(p.cast())))
}
