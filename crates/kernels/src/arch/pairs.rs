//! AVX-512-BF16: a lane holds two neighbouring depths as `bf16`, and one instruction multiplies and adds both.
//!
//! To the algorithms it is [`Avx512`] whose `fma` is a product of pairs: a product over words (see
//! [`crate::ops::matmul_bf16`]) is a product of half the depth. Everything else is passed on.

use core::arch::x86_64::*;

use half::bf16;

use super::{Element, Evaluate, Op, Simd, avx512::Avx512};
use crate::dispatch::{Isa, isa};

/// Proof that the CPU has AVX-512-BF16 and AVX-512BW besides what [`Avx512`] proves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pairs(Avx512);

impl Pairs {
    /// If the CPU has it and no lesser instruction set was forced.
    pub(crate) fn active() -> Option<Self> {
        if isa() < Isa::Avx512 {
            return None;
        }
        let has = is_x86_feature_detected!("avx512bf16") && is_x86_feature_detected!("avx512bw");
        if has { Avx512::new().map(Self) } else { None }
    }

    /// Rounds neighbouring depths to words: `to[p]` holds `from[2p]` and `from[2p + 1]`, zero beyond the end.
    pub(crate) fn words(self, from: &[f32], to: &mut [f32]) {
        assert_eq!(to.len(), from.len().div_ceil(2), "two depths make a word");
        // SAFETY: `self` proves the features.
        unsafe { words(from, to) }
    }

    /// Rounds two rows of one width to words: `to[j]` holds `even[j]` and `odd[j]`.
    pub(crate) fn zip(self, even: &[f32], odd: &[f32], to: &mut [f32]) {
        assert!(even.len() == to.len() && odd.len() == to.len(), "rows of one width make words");
        // SAFETY: `self` proves the features.
        unsafe { zip(even, odd, to) }
    }
}

/// Two depths in the bits of one lane, the first in the lower half.
fn word(first: f32, second: f32) -> f32 {
    let half = |x: f32| u32::from(bf16::from_f32(x).to_bits());
    f32::from_bits(half(first) | half(second) << 16)
}

/// Thirty-two neighbours, rounded, are sixteen words in order.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
fn words(from: &[f32], to: &mut [f32]) {
    let mut pairs = from.chunks_exact(32).zip(to.chunks_exact_mut(16));
    for (from, to) in &mut pairs {
        // SAFETY: the chunks are as long as what is read and written.
        unsafe {
            let (low, high) = (_mm512_loadu_ps(from.as_ptr()), _mm512_loadu_ps(from.as_ptr().add(16)));
            let both: __m512i = core::mem::transmute(_mm512_cvtne2ps_pbh(high, low));
            _mm512_storeu_ps(to.as_mut_ptr(), _mm512_castsi512_ps(both));
        }
    }
    let done = from.len() / 32;
    for (from, to) in from[done * 32..].chunks(2).zip(&mut to[done * 16..]) {
        *to = word(from[0], from.get(1).copied().unwrap_or(0.0));
    }
}

/// Sixteen of each row, rounded side by side, and dealt out in turn.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
fn zip(even: &[f32], odd: &[f32], to: &mut [f32]) {
    const TURNS: [u16; 32] = {
        let mut turns = [0; 32];
        let mut i = 0;
        while i < 16 {
            turns[2 * i] = i as u16;
            turns[2 * i + 1] = i as u16 + 16;
            i += 1;
        }
        turns
    };
    // SAFETY: the table has the size of what is read.
    let turns = unsafe { _mm512_loadu_si512(TURNS.as_ptr().cast()) };
    let whole = to.len() / 16 * 16;
    for j in (0..whole).step_by(16) {
        // SAFETY: sixteen values at `j` are inside all three rows, whose lengths agree.
        unsafe {
            let (low, high) = (_mm512_loadu_ps(even.as_ptr().add(j)), _mm512_loadu_ps(odd.as_ptr().add(j)));
            let both: __m512i = core::mem::transmute(_mm512_cvtne2ps_pbh(high, low));
            let dealt = _mm512_permutexvar_epi16(turns, both);
            _mm512_storeu_ps(to.as_mut_ptr().add(j), _mm512_castsi512_ps(dealt));
        }
    }
    for j in whole..to.len() {
        to[j] = word(even[j], odd[j]);
    }
}

impl Evaluate for Pairs {
    #[inline]
    fn evaluate<O: Op>(self, op: O) -> O::Out {
        self.isolate(op)
    }
}

impl Simd for Pairs {
    const LANES: usize = Avx512::LANES;
    const ROWS: usize = Avx512::ROWS;
    type F = __m512;

    #[inline(always)]
    fn isolate<O: Op>(self, op: O) -> O::Out {
        #[target_feature(enable = "avx512f,avx512bw,avx512bf16,avx2,fma,f16c")]
        #[inline(never)]
        fn enabled<O: Op>(simd: Pairs, op: O) -> O::Out {
            op.eval(simd)
        }
        // SAFETY: `self` proves the features.
        unsafe { enabled(self, op) }
    }

    /// `c` plus the products of both halves of the words `a` and `b`.
    #[inline(always)]
    fn fma(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        // SAFETY: the token proves the instruction; a word is two `bf16`.
        unsafe {
            let pairs = |x: __m512| core::mem::transmute::<__m512, __m512bh>(x);
            _mm512_dpbf16_ps(c, pairs(a), pairs(b))
        }
    }

    #[inline(always)]
    fn fnma(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        self.0.fnma(a, b, c)
    }

    #[inline(always)]
    fn prefetch(self, p: *const f32) {
        self.0.prefetch(p);
    }

    #[inline(always)]
    fn splat(self, x: f32) -> __m512 {
        self.0.splat(x)
    }

    #[inline(always)]
    unsafe fn load(self, p: *const f32) -> __m512 {
        // SAFETY: same contract.
        unsafe { self.0.load(p) }
    }

    #[inline(always)]
    unsafe fn store(self, p: *mut f32, x: __m512) {
        // SAFETY: same contract.
        unsafe { self.0.store(p, x) }
    }

    #[inline(always)]
    fn add(self, a: __m512, b: __m512) -> __m512 {
        self.0.add(a, b)
    }

    #[inline(always)]
    fn sub(self, a: __m512, b: __m512) -> __m512 {
        self.0.sub(a, b)
    }

    #[inline(always)]
    fn mul(self, a: __m512, b: __m512) -> __m512 {
        self.0.mul(a, b)
    }

    #[inline(always)]
    fn div(self, a: __m512, b: __m512) -> __m512 {
        self.0.div(a, b)
    }

    #[inline(always)]
    fn min(self, a: __m512, b: __m512) -> __m512 {
        self.0.min(a, b)
    }

    #[inline(always)]
    fn max(self, a: __m512, b: __m512) -> __m512 {
        self.0.max(a, b)
    }

    #[inline(always)]
    fn abs(self, a: __m512) -> __m512 {
        self.0.abs(a)
    }

    #[inline(always)]
    fn round(self, a: __m512) -> __m512 {
        self.0.round(a)
    }

    #[inline(always)]
    fn scale2(self, a: __m512, n: __m512) -> __m512 {
        self.0.scale2(a, n)
    }

    #[inline(always)]
    fn sum(self, a: __m512) -> f32 {
        self.0.sum(a)
    }

    #[inline(always)]
    unsafe fn copy8<T: Element>(self, src: *const T, dst: *mut f32) {
        // SAFETY: same contract.
        unsafe { self.0.copy8(src, dst) }
    }

    #[inline(always)]
    unsafe fn transpose8<T: Element>(self, src: *const T, stride: usize, dst: *mut f32, to: usize) {
        // SAFETY: same contract.
        unsafe { self.0.transpose8(src, stride, dst, to) }
    }
}
