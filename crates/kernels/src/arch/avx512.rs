//! AVX-512F: sixteen lanes, thirty-two registers.
//!
//! A thin instantiation of the same algorithms; the agree tests check it wherever the CPU that runs them has it.

use core::arch::x86_64::*;

use super::{Element, Op, Simd, avx2};

/// Proof that the CPU has AVX-512F and everything [`avx2::Avx2`] proves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512 {
    _proof: (),
}

impl Avx512 {
    pub(crate) fn new() -> Option<Self> {
        let has = is_x86_feature_detected!("avx512f") && avx2::Avx2::new().is_some();
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

impl Simd for Avx512 {
    const LANES: usize = 16;
    const ROWS: usize = 12;
    type F = __m512;

    #[inline(always)]
    fn isolate<O: Op>(self, op: O) -> O::Out {
        #[target_feature(enable = "avx512f,avx2,fma,f16c")]
        #[inline(never)]
        fn enabled<O: Op>(simd: Avx512, op: O) -> O::Out {
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
    fn splat(self, x: f32) -> __m512 {
        proven!(_mm512_set1_ps(x))
    }

    #[inline(always)]
    unsafe fn load(self, p: *const f32) -> __m512 {
        proven!(_mm512_loadu_ps(p))
    }

    #[inline(always)]
    unsafe fn store(self, p: *mut f32, x: __m512) {
        proven!(_mm512_storeu_ps(p, x))
    }

    #[inline(always)]
    fn add(self, a: __m512, b: __m512) -> __m512 {
        proven!(_mm512_add_ps(a, b))
    }

    #[inline(always)]
    fn sub(self, a: __m512, b: __m512) -> __m512 {
        proven!(_mm512_sub_ps(a, b))
    }

    #[inline(always)]
    fn mul(self, a: __m512, b: __m512) -> __m512 {
        proven!(_mm512_mul_ps(a, b))
    }

    #[inline(always)]
    fn div(self, a: __m512, b: __m512) -> __m512 {
        proven!(_mm512_div_ps(a, b))
    }

    #[inline(always)]
    fn fma(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        proven!(_mm512_fmadd_ps(a, b, c))
    }

    #[inline(always)]
    fn fnma(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        proven!(_mm512_fnmadd_ps(a, b, c))
    }

    #[inline(always)]
    fn min(self, a: __m512, b: __m512) -> __m512 {
        proven!(_mm512_min_ps(a, b))
    }

    #[inline(always)]
    fn max(self, a: __m512, b: __m512) -> __m512 {
        proven!(_mm512_max_ps(a, b))
    }

    #[inline(always)]
    fn abs(self, a: __m512) -> __m512 {
        proven!(_mm512_abs_ps(a))
    }

    #[inline(always)]
    fn round(self, a: __m512) -> __m512 {
        proven!(_mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a))
    }

    #[inline(always)]
    fn scale2(self, a: __m512, n: __m512) -> __m512 {
        proven!(_mm512_scalef_ps(a, n))
    }

    #[inline(always)]
    fn sum(self, a: __m512) -> f32 {
        let lanes = self.lanes(a);
        let eight: [f32; 8] = core::array::from_fn(|i| lanes[i] + lanes[i + 8]);
        let four: [f32; 4] = core::array::from_fn(|i| eight[i] + eight[i + 4]);
        (four[0] + four[2]) + (four[1] + four[3])
    }

    #[inline(always)]
    unsafe fn copy8<T: Element>(self, src: *const T, dst: *mut f32) {
        proven!(_mm256_storeu_ps(dst, T::widen8(src)))
    }

    #[inline(always)]
    unsafe fn transpose8<T: Element>(self, src: *const T, stride: usize, dst: *mut f32, to: usize) {
        proven!(avx2::transpose8(src, stride, dst, to))
    }
}
