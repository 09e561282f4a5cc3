//! The thin instruction layer: one trait of vector operations, one implementation per instruction set.
//!
//! An algorithm is written once as an [`Op`] over `S: Simd`. A value of a [`Simd`] type is the proof that the CPU has
//! its instructions, so only this module needs to know when an instruction may be used. [`generic`] is plain Rust and
//! the specification of every operation here: the other sets must return the same bits lane by lane.

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;
mod dot;
pub(crate) mod generic;
#[cfg(target_arch = "x86_64")]
mod madd;
#[cfg(target_arch = "x86_64")]
mod maddubs;
mod nibbles;
#[cfg(target_arch = "x86_64")]
pub(crate) mod pairs;
mod scaled;
#[cfg(target_arch = "x86_64")]
pub(crate) mod vnni;

pub(crate) use dot::{Ahead, COLS, DEPTH, Dot, DotOp, MOST_ROWS, MOST_VECTORS, WithDot, round};
use half::{bf16, f16};
#[cfg(target_arch = "x86_64")]
pub(crate) use maddubs::Maddubs;
pub(crate) use nibbles::{NIBBLE_DEPTH, Nibbles};
pub(crate) use scaled::{CHUNK, SUB, Scaled};

/// Most lanes any instruction set has.
pub(crate) const MAX_LANES: usize = 16;

/// A computation that can be evaluated with any instruction set.
///
/// `eval` and what it calls must be `#[inline(always)]`: the instructions are enabled by the function it is inlined in.
pub(crate) trait Op {
    type Out;
    fn eval<S: Simd>(self, simd: S) -> Self::Out;
}

/// Who evaluates computations: one instruction set, or the one chosen for this process.
pub(crate) trait Evaluate: Copy + Send + Sync {
    fn evaluate<O: Op>(self, op: O) -> O::Out;
}

/// Lanes of `f32` and the operations on them.
pub(crate) trait Simd: Copy + Send + Sync {
    /// Number of lanes, 8 or 16.
    const LANES: usize;
    /// Rows of the matrix tile whose accumulators fit the registers at two vectors a row.
    const ROWS: usize;
    /// A vector of `f32`.
    type F: Copy;

    /// Evaluates `op` in a function of its own with the instructions enabled, never inlined: registers are then
    /// allocated for it alone.
    fn isolate<O: Op>(self, op: O) -> O::Out;
    /// Hints that the cache line at `p` will be used; any address is allowed.
    fn prefetch(self, p: *const f32);
    /// All lanes `x`.
    fn splat(self, x: f32) -> Self::F;
    /// # Safety
    /// `LANES` values must be readable at `p`.
    unsafe fn load(self, p: *const f32) -> Self::F;
    /// # Safety
    /// `LANES` values must be writable at `p`.
    unsafe fn store(self, p: *mut f32, x: Self::F);
    fn add(self, a: Self::F, b: Self::F) -> Self::F;
    fn sub(self, a: Self::F, b: Self::F) -> Self::F;
    fn mul(self, a: Self::F, b: Self::F) -> Self::F;
    fn div(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a * b + c`, rounded once.
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// `c - a * b`, rounded once.
    fn fnma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// `if a < b { a } else { b }`: the second operand if either is NaN.
    fn min(self, a: Self::F, b: Self::F) -> Self::F;
    /// `if a > b { a } else { b }`: the second operand if either is NaN.
    fn max(self, a: Self::F, b: Self::F) -> Self::F;
    fn abs(self, a: Self::F) -> Self::F;
    /// Nearest integer, ties to even.
    fn round(self, a: Self::F) -> Self::F;
    /// `a * 2^n` for integral `n` in `-252..=254`, rounded once; any value for other `n`.
    fn scale2(self, a: Self::F, n: Self::F) -> Self::F;
    /// Sum of the lanes, pairwise: halves added until one is left.
    fn sum(self, a: Self::F) -> f32;
    /// Writes the 8x8 block at `src` (rows `stride` apart) transposed and widened to `dst` (rows `to` apart).
    ///
    /// # Safety
    /// Eight values must be readable at `src + i * stride` and writable at `dst + i * to` for `i < 8`.
    unsafe fn transpose8<T: Element>(self, src: *const T, stride: usize, dst: *mut f32, to: usize);
    /// Writes the eight values at `src` widened to `dst`.
    ///
    /// # Safety
    /// Eight values must be readable at `src` and writable at `dst`.
    unsafe fn copy8<T: Element>(self, src: *const T, dst: *mut f32);

    /// The first `LANES` values of `x`.
    #[inline(always)]
    fn read(self, x: &[f32]) -> Self::F {
        assert!(x.len() >= Self::LANES);
        // SAFETY: the length was just checked.
        unsafe { self.load(x.as_ptr()) }
    }

    /// Writes the first `LANES` values of `out`.
    #[inline(always)]
    fn write(self, out: &mut [f32], x: Self::F) {
        assert!(out.len() >= Self::LANES);
        // SAFETY: the length was just checked.
        unsafe { self.store(out.as_mut_ptr(), x) }
    }

    /// A short slice, filled up with `fill`.
    #[inline(always)]
    fn read_tail(self, x: &[f32], fill: f32) -> Self::F {
        let mut lanes = [fill; MAX_LANES];
        lanes[..x.len()].copy_from_slice(x);
        self.read(&lanes)
    }

    /// As many lanes as the short slice holds.
    #[inline(always)]
    fn write_tail(self, out: &mut [f32], x: Self::F) {
        out.copy_from_slice(&self.lanes(x)[..out.len()]);
    }

    /// The lanes as an array, zero beyond `LANES`.
    #[inline(always)]
    fn lanes(self, x: Self::F) -> [f32; MAX_LANES] {
        let mut lanes = [0.0; MAX_LANES];
        self.write(&mut lanes, x);
        lanes
    }

    /// Largest lane (by [`Simd::max`], in lane order).
    #[inline(always)]
    fn max_lane(self, x: Self::F) -> f32 {
        let lanes = self.lanes(x);
        let mut best = lanes[0];
        for &lane in &lanes[1..Self::LANES] {
            best = if lane > best { lane } else { best };
        }
        best
    }
}

/// A number format weights come in, widened to `f32` when packed.
pub(crate) trait Element: Copy + Send + Sync {
    fn widen(self) -> f32;
    /// Eight values widened.
    ///
    /// # Safety
    /// Eight values must be readable at `p`; the CPU must have AVX2 and F16C.
    #[cfg(target_arch = "x86_64")]
    unsafe fn widen8(p: *const Self) -> core::arch::x86_64::__m256;
}

macro_rules! element {
    ($type:ty, $widen:expr, $load:path) => {
        impl Element for $type {
            #[inline(always)]
            fn widen(self) -> f32 {
                $widen(self)
            }

            #[cfg(target_arch = "x86_64")]
            #[inline(always)]
            unsafe fn widen8(p: *const Self) -> core::arch::x86_64::__m256 {
                // SAFETY: same contract.
                unsafe { $load(p.cast()) }
            }
        }
    };
}

element!(f32, core::convert::identity, avx2::widen8_f32);
element!(bf16, Self::to_f32, avx2::widen8_bf16);
element!(f16, Self::to_f32, avx2::widen8_f16);
