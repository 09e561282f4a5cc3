//! Vector functions shared by the operations: the exponential, the sigmoid, the error function, and reductions over a slice.

use crate::arch::Simd;

/// `e^x`, within two units in the last place over the whole range, denormal results included; NaN gives NaN.
///
/// `x = n ln 2 + r` with `|r| ≤ ln 2 / 2`, then a polynomial in `r` scaled by `2^n`.
#[inline(always)]
pub(crate) fn exp<S: Simd>(simd: S, x: S::F) -> S::F {
    /// `ln 2` in two parts, the first short enough that `n` times it is exact.
    const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
    const POLYNOMIAL: [f32; 6] =
        [1.987_569_1e-4, 1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5];
    // Beyond these the result is zero or infinite; the operand order lets a NaN through.
    let x = simd.max(simd.splat(-104.0), simd.min(simd.splat(89.0), x));
    let n = simd.round(simd.mul(x, simd.splat(std::f32::consts::LOG2_E)));
    let r = simd.fnma(n, simd.splat(LN_2[0]), x);
    let r = simd.fnma(n, simd.splat(LN_2[1]), r);
    let mut p = simd.splat(POLYNOMIAL[0]);
    for &c in &POLYNOMIAL[1..] {
        p = simd.fma(p, r, simd.splat(c));
    }
    let p = simd.fma(p, simd.mul(r, r), r);
    simd.scale2(simd.add(p, simd.splat(1.0)), n)
}

/// `1 / (1 + e^-x)`.
#[inline(always)]
pub(crate) fn sigmoid<S: Simd>(simd: S, x: S::F) -> S::F {
    let one = simd.splat(1.0);
    simd.div(one, simd.add(one, exp(simd, simd.sub(simd.splat(0.0), x))))
}

/// The error function, within 1e-7: `x · P(x²) / Q(x²)` on `|x| ≤ 4`, beyond which it is ±1 in
/// single precision; NaN gives NaN.
#[inline(always)]
pub(crate) fn erf<S: Simd>(simd: S, x: S::F) -> S::F {
    const P: [f32; 7] = [
        -2.726_142_3e-10,
        2.770_681_5e-8,
        -2.101_024e-6,
        -5.692_506_4e-5,
        -7.349_906_3e-4,
        -2.954_6e-3,
        -1.609_603_3e-2,
    ];
    const Q: [f32; 5] = [-1.456_607_2e-5, -2.133_740_6e-4, -1.682_827e-3, -7.373_329_2e-3, -1.426_473_9e-2];
    let x = simd.max(simd.splat(-4.0), simd.min(simd.splat(4.0), x));
    let square = simd.mul(x, x);
    let polynomial = |coefficients: &[f32]| {
        let first = simd.splat(coefficients[0]);
        coefficients[1..].iter().fold(first, |sum, &c| simd.fma(sum, square, simd.splat(c)))
    };
    simd.div(simd.mul(x, polynomial(&P)), polynomial(&Q))
}

/// `Σ a·b` in two vectors of partial sums.
#[inline(always)]
pub(crate) fn dot<S: Simd>(simd: S, a: &[f32], b: &[f32]) -> f32 {
    let step = 2 * S::LANES;
    let (mut low, mut high) = (simd.splat(0.0), simd.splat(0.0));
    let (a, b) = (a.chunks_exact(step), b.chunks_exact(step));
    let mut tail = a.remainder().iter().zip(b.remainder());
    for (a, b) in a.zip(b) {
        low = simd.fma(simd.read(a), simd.read(b), low);
        high = simd.fma(simd.read(&a[S::LANES..]), simd.read(&b[S::LANES..]), high);
    }
    let mut sum = simd.sum(simd.add(low, high));
    for (&a, &b) in &mut tail {
        sum = a.mul_add(b, sum);
    }
    sum
}
