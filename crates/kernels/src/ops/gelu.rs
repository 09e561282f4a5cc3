//! The functions inside an MLP without a gate: GELU `x · Φ(x)` with the error function, its approximation by a hyperbolic
//! tangent, and the rectifier.

use rayon::prelude::*;

use crate::arch::{Op, Simd};
use crate::dispatch::Level;
use crate::math::{erf, sigmoid};
use crate::parallel::{GRAIN, least_run};

/// A function of one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pointwise {
    /// `x · (1 + erf(x/√2)) / 2`.
    Gelu,
    /// `x · (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2`.
    GeluTanh,
    /// `max(x, 0)`.
    Relu,
}

/// Replaces every element by its function.
pub fn pointwise(which: Pointwise, x: &mut [f32]) {
    let level = Level::active();
    let tasks = x.par_chunks_mut(GRAIN).with_min_len(least_run());
    tasks.for_each(|x| level.run(Forward { which, x }));
}

struct Forward<'a> {
    which: Pointwise,
    x: &'a mut [f32],
}

impl Op for Forward<'_> {
    type Out = ();

    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        match self.which {
            Pointwise::Gelu => each(simd, self.x, |x| gelu(simd, x)),
            Pointwise::GeluTanh => each(simd, self.x, |x| gelu_tanh(simd, x)),
            Pointwise::Relu => each(simd, self.x, |x| simd.max(x, simd.splat(0.0))),
        }
    }
}

#[inline(always)]
fn each<S: Simd>(simd: S, x: &mut [f32], f: impl Fn(S::F) -> S::F) {
    let mut parts = x.chunks_exact_mut(S::LANES);
    for x in &mut parts {
        let y = f(simd.read(x));
        simd.write(x, y);
    }
    let tail = parts.into_remainder();
    let y = f(simd.read_tail(tail, 0.0));
    simd.write_tail(tail, y);
}

#[inline(always)]
fn gelu<S: Simd>(simd: S, x: S::F) -> S::F {
    let half = simd.mul(x, simd.splat(0.5));
    simd.fma(half, erf(simd, simd.mul(x, simd.splat(std::f32::consts::FRAC_1_SQRT_2))), half)
}

/// `(1 + tanh z) / 2` is the sigmoid of `2z`.
#[inline(always)]
fn gelu_tanh<S: Simd>(simd: S, x: S::F) -> S::F {
    /// `2 √(2/π)`, and the same times 0.044715.
    const LINEAR: f32 = 1.595_769;
    const CUBIC: f32 = 0.071_354_82;
    let slope = simd.fma(simd.mul(x, x), simd.splat(CUBIC), simd.splat(LINEAR));
    simd.mul(x, sigmoid(simd, simd.mul(x, slope)))
}
