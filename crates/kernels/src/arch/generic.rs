//! Plain Rust, eight lanes: the specification of [`Simd`] and the path of CPUs without their own.

use super::{Element, Op, Simd};

/// Needs nothing of the CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Generic;

const LANES: usize = 8;
type F = [f32; LANES];

#[inline(always)]
fn map(a: F, f: impl Fn(f32) -> f32) -> F {
    core::array::from_fn(|i| f(a[i]))
}

#[inline(always)]
fn zip(a: F, b: F, f: impl Fn(f32, f32) -> f32) -> F {
    core::array::from_fn(|i| f(a[i], b[i]))
}

impl Simd for Generic {
    const LANES: usize = LANES;
    const ROWS: usize = 6;
    type F = F;

    #[inline(never)]
    fn isolate<O: Op>(self, op: O) -> O::Out {
        op.eval(self)
    }

    #[inline(always)]
    fn prefetch(self, _: *const f32) {}

    #[inline(always)]
    fn splat(self, x: f32) -> F {
        [x; LANES]
    }

    #[inline(always)]
    unsafe fn load(self, p: *const f32) -> F {
        // SAFETY: same contract.
        unsafe { p.cast::<F>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn store(self, p: *mut f32, x: F) {
        // SAFETY: same contract.
        unsafe { p.cast::<F>().write_unaligned(x) }
    }

    #[inline(always)]
    fn add(self, a: F, b: F) -> F {
        zip(a, b, |a, b| a + b)
    }

    #[inline(always)]
    fn sub(self, a: F, b: F) -> F {
        zip(a, b, |a, b| a - b)
    }

    #[inline(always)]
    fn mul(self, a: F, b: F) -> F {
        zip(a, b, |a, b| a * b)
    }

    #[inline(always)]
    fn div(self, a: F, b: F) -> F {
        zip(a, b, |a, b| a / b)
    }

    #[inline(always)]
    fn fma(self, a: F, b: F, c: F) -> F {
        core::array::from_fn(|i| a[i].mul_add(b[i], c[i]))
    }

    #[inline(always)]
    fn fnma(self, a: F, b: F, c: F) -> F {
        core::array::from_fn(|i| (-a[i]).mul_add(b[i], c[i]))
    }

    #[inline(always)]
    fn min(self, a: F, b: F) -> F {
        zip(a, b, |a, b| if a < b { a } else { b })
    }

    #[inline(always)]
    fn max(self, a: F, b: F) -> F {
        zip(a, b, |a, b| if a > b { a } else { b })
    }

    #[inline(always)]
    fn abs(self, a: F) -> F {
        map(a, f32::abs)
    }

    #[inline(always)]
    fn round(self, a: F) -> F {
        map(a, f32::round_ties_even)
    }

    #[inline(always)]
    fn scale2(self, a: F, n: F) -> F {
        let power = |n: i32| f32::from_bits((n.wrapping_add(127) << 23) as u32);
        zip(a, n, |a, n| {
            let n = n as i32;
            a * power(n >> 1) * power(n.wrapping_sub(n >> 1))
        })
    }

    #[inline(always)]
    fn sum(self, a: F) -> f32 {
        let b: [f32; 4] = core::array::from_fn(|i| a[i] + a[i + 4]);
        (b[0] + b[2]) + (b[1] + b[3])
    }

    #[inline(always)]
    unsafe fn transpose8<T: Element>(self, src: *const T, stride: usize, dst: *mut f32, to: usize) {
        for i in 0..8 {
            for j in 0..8 {
                // SAFETY: within the blocks the contract names.
                unsafe { *dst.add(j * to + i) = (*src.add(i * stride + j)).widen() }
            }
        }
    }
    #[inline(always)]
    unsafe fn copy8<T: Element>(self, src: *const T, dst: *mut f32) {
        for i in 0..8 {
            // SAFETY: within the eight the contract names.
            unsafe { *dst.add(i) = (*src.add(i)).widen() }
        }
    }
}
