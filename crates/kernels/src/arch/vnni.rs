//! Byte products of `VPDPBUSD`, in its 256-bit (AVX-VNNI) and 512-bit (AVX-512-VNNI) forms: offset weights times signed
//! activations, four at a time, exact in 32 bits.
//!
//! The agree tests check them wherever the CPU that runs them has them.

use core::arch::x86_64::*;

use super::avx2::Avx2;
use super::avx512::Avx512;
use super::dot::offset_start;
use super::nibbles::{BLOCK, Unpack};
use super::scaled::{Multiply, Rescale, rescaled};
use super::{COLS, DEPTH, Dot, DotOp, madd};

/// Proof that the CPU has AVX-VNNI and everything [`Avx2`] proves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AvxVnni {
    float: Avx2,
}

impl AvxVnni {
    pub(crate) fn new() -> Option<Self> {
        Avx2::new().filter(|_| is_x86_feature_detected!("avxvnni")).map(|float| Self { float })
    }
}

/// Proof that the CPU has AVX-512-VNNI, AVX-512BW and everything [`Avx512`] proves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512Vnni {
    float: Avx512,
}

impl Avx512Vnni {
    pub(crate) fn new() -> Option<Self> {
        let has = is_x86_feature_detected!("avx512vnni") && is_x86_feature_detected!("avx512bw");
        if has { Avx512::new().map(|float| Self { float }) } else { None }
    }
}

/// An instruction of the set the implementing token proves.
macro_rules! proven {
    ($call:expr) => {
        // SAFETY: the token proves the CPU has the instruction; pointers are covered by the caller's contract.
        unsafe { $call }
    };
}

impl Dot for AvxVnni {
    type Float = Avx2;
    type Act = i8;
    type Weight = u8;
    type W = __m256i;
    type I = __m256i;
    const LANES: usize = 8;
    const VECTORS: usize = 2;
    const ROWS: usize = 6;
    const STEP: usize = DEPTH;
    const PREPARES: bool = false;
    const BLOCK_ROWS: usize = 96;
    const BLOCK_PANELS: usize = 4;

    #[inline(always)]
    fn isolate_dot<O: DotOp<Self>>(self, op: O) -> O::Out {
        #[target_feature(enable = "avxvnni,avx2,fma,f16c")]
        #[inline(never)]
        fn enabled<O: DotOp<AvxVnni>>(dot: AvxVnni, op: O) -> O::Out {
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
        offset_start(acts, 128)
    }

    #[inline(always)]
    fn prepare<'a>(self, panel: &'a [u8], _: &'a mut [u8], starts: &mut [i32; COLS]) -> &'a [u8] {
        starts.fill(0);
        panel
    }

    #[inline(always)]
    unsafe fn weights(self, p: *const u8) -> __m256i {
        proven!(_mm256_loadu_si256(p.cast()))
    }

    #[inline(always)]
    unsafe fn acts(self, p: *const i8) -> __m256i {
        proven!(_mm256_set1_epi32(p.cast::<i32>().read_unaligned()))
    }

    #[inline(always)]
    unsafe fn start(self, row: i32, cols: *const i32) -> __m256i {
        proven!(_mm256_add_epi32(_mm256_set1_epi32(row), _mm256_loadu_si256(cols.cast())))
    }

    #[inline(always)]
    fn dot(self, sum: __m256i, w: __m256i, a: __m256i) -> __m256i {
        proven!(_mm256_dpbusd_avx_epi32(sum, w, a))
    }

    #[inline(always)]
    fn float(self) -> Avx2 {
        self.float
    }

    #[inline(always)]
    fn widen(self, sum: __m256i) -> __m256 {
        proven!(_mm256_cvtepi32_ps(sum))
    }
}

impl Dot for Avx512Vnni {
    type Float = Avx512;
    type Act = i8;
    type Weight = u8;
    type W = __m512i;
    type I = __m512i;
    const LANES: usize = 16;
    const VECTORS: usize = 3;
    const ROWS: usize = 8;
    const STEP: usize = DEPTH;
    const PREPARES: bool = false;
    const BLOCK_ROWS: usize = 128;
    const BLOCK_PANELS: usize = 3;

    #[inline(always)]
    fn isolate_dot<O: DotOp<Self>>(self, op: O) -> O::Out {
        #[target_feature(enable = "avx512vnni,avx512bw,avx512f,avx2,fma,f16c")]
        #[inline(never)]
        fn enabled<O: DotOp<Avx512Vnni>>(dot: Avx512Vnni, op: O) -> O::Out {
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
        offset_start(acts, 128)
    }

    #[inline(always)]
    fn prepare<'a>(self, panel: &'a [u8], _: &'a mut [u8], starts: &mut [i32; COLS]) -> &'a [u8] {
        starts.fill(0);
        panel
    }

    #[inline(always)]
    unsafe fn weights(self, p: *const u8) -> __m512i {
        proven!(_mm512_loadu_si512(p.cast()))
    }

    #[inline(always)]
    unsafe fn acts(self, p: *const i8) -> __m512i {
        proven!(_mm512_set1_epi32(p.cast::<i32>().read_unaligned()))
    }

    #[inline(always)]
    unsafe fn start(self, row: i32, cols: *const i32) -> __m512i {
        proven!(_mm512_add_epi32(_mm512_set1_epi32(row), _mm512_loadu_si512(cols.cast())))
    }

    #[inline(always)]
    fn dot(self, sum: __m512i, w: __m512i, a: __m512i) -> __m512i {
        proven!(_mm512_dpbusd_epi32(sum, w, a))
    }

    #[inline(always)]
    fn float(self) -> Avx512 {
        self.float
    }

    #[inline(always)]
    fn widen(self, sum: __m512i) -> __m512 {
        proven!(_mm512_cvtepi32_ps(sum))
    }
}

impl Unpack for AvxVnni {
    #[inline(always)]
    fn unpack(self, from: &[u8; BLOCK], to: &mut [u8; 2 * BLOCK]) {
        self.float.unpack(from, to);
    }
}

impl Unpack for Avx512Vnni {
    #[inline(always)]
    fn unpack(self, from: &[u8; BLOCK], to: &mut [u8; 2 * BLOCK]) {
        proven!({
            let low = _mm512_set1_epi32(0x0f0f_0f0f);
            let bytes = _mm512_loadu_si512(from.as_ptr().cast());
            _mm512_storeu_si512(to.as_mut_ptr().cast(), _mm512_and_si512(bytes, low));
            let high = _mm512_and_si512(_mm512_srli_epi32::<4>(bytes), low);
            _mm512_storeu_si512(to.as_mut_ptr().add(BLOCK).cast(), high);
        });
    }
}

impl Rescale for AvxVnni {
    #[inline(always)]
    fn rescaled<'a>(self, panel: &[u8], buffer: &'a mut [u8], starts: &mut [i32; COLS]) -> &'a [u8] {
        rescaled(self.float, panel, buffer, starts)
    }
}

impl Rescale for Avx512Vnni {
    #[inline(always)]
    fn rescaled<'a>(self, panel: &[u8], buffer: &'a mut [u8], starts: &mut [i32; COLS]) -> &'a [u8] {
        rescaled(self, panel, buffer, starts)
    }
}

impl Multiply for Avx512Vnni {
    /// Two neighbouring numbers times a factor are at most 225 each, so one product of words has both.
    #[inline(always)]
    fn multiply(self, factors: &[u8; BLOCK], which: usize, from: &[[u8; BLOCK]], to: &mut [[u8; 2 * BLOCK]]) {
        proven!({
            let low = _mm512_set1_epi8(15);
            let shift = _mm_cvtsi32_si128(8 * which as i32);
            let both = _mm512_srl_epi32(_mm512_loadu_si512(factors.as_ptr().cast()), shift);
            let both = _mm512_and_si512(both, _mm512_set1_epi32(255));
            let both = _mm512_or_si512(both, _mm512_slli_epi32::<16>(both));
            let (factor, zero) = (_mm512_and_si512(both, low), _mm512_srli_epi16::<4>(both));
            let start = _mm512_sub_epi16(_mm512_set1_epi16(128), _mm512_mullo_epi16(factor, zero));
            let start = _mm512_and_si512(start, _mm512_set1_epi16(255));
            let start = _mm512_or_si512(start, _mm512_slli_epi16::<8>(start));
            for (from, to) in from.iter().zip(to) {
                let bytes = _mm512_loadu_si512(from.as_ptr().cast());
                let first = _mm512_and_si512(bytes, low);
                let last = _mm512_and_si512(_mm512_srli_epi16::<4>(bytes), low);
                let first = _mm512_add_epi8(_mm512_mullo_epi16(first, factor), start);
                let last = _mm512_add_epi8(_mm512_mullo_epi16(last, factor), start);
                _mm512_storeu_si512(to.as_mut_ptr().cast(), first);
                _mm512_storeu_si512(to.as_mut_ptr().add(BLOCK).cast(), last);
            }
        });
    }
}
