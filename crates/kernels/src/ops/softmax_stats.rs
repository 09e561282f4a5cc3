//! What a decoder reads off one row of logits: maximum, normaliser, best and second-best probability, entropy.

use crate::arch::{Op, Simd};
use crate::dispatch::Level;
use crate::math::exp;

/// Summary of `softmax(logits)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SoftmaxStats {
    /// Largest logit.
    pub max: f32,
    /// `ln Σ e^x`.
    pub logsumexp: f32,
    /// Index of the largest logit, the lowest one on a tie.
    pub argmax: usize,
    /// Largest probability.
    pub top1: f32,
    /// Second largest probability (equal to `top1` on a tie, zero if there is one logit).
    pub top2: f32,
    /// Entropy in nats.
    pub entropy: f32,
}

/// Statistics of one row.
///
/// ```
/// let stats = demask_kernels::softmax_stats(&[0.0, 2.0, 2.0, -1.0]);
/// assert_eq!(stats.argmax, 1); // the lowest index on a tie
/// assert!((stats.top1 - stats.top2).abs() < 1e-6 && stats.entropy > 0.6);
/// ```
///
/// A NaN, a `+∞`, or nothing but `−∞` among the logits makes every probability NaN.
///
/// # Panics
/// If `logits` is empty.
pub fn softmax_stats(logits: &[f32]) -> SoftmaxStats {
    assert!(!logits.is_empty(), "softmax_stats: no logits");
    Level::active().run(Stats { logits })
}

/// Logits taken together: small enough to stay in the first-level cache between finding their maximum and summing
/// their exponentials, so that memory is read once.
const BLOCK: usize = 2048;

struct Stats<'a> {
    logits: &'a [f32],
}

impl Op for Stats<'_> {
    type Out = SoftmaxStats;

    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) -> SoftmaxStats {
        let mut leaders = Leaders { max: f32::NEG_INFINITY, argmax: 0, second: f32::NEG_INFINITY };
        let mut sums = Sums { max: f32::NEG_INFINITY, sum: 0.0, weighted: 0.0 };
        for (index, block) in self.logits.chunks(BLOCK).enumerate() {
            let max = largest(simd, block);
            // Most blocks change neither the best nor the second best.
            if max > leaders.second {
                leaders.visit(block, index * BLOCK);
            }
            sums.raise(max);
            sums.visit(simd, block);
        }
        let Leaders { max, argmax, second } = leaders;
        // Only a NaN spoils the sum below a finite maximum; where nothing was summed there is no distribution.
        let spoilt = sums.sum.is_nan() && max.is_finite();
        let sum = if sums.sum == 0.0 { f64::NAN } else { sums.sum };
        SoftmaxStats {
            max: if spoilt { f32::NAN } else { max },
            logsumexp: (f64::from(max) + sum.ln()) as f32,
            argmax,
            top1: (1.0 / sum) as f32,
            top2: (f64::from(second - max).exp() / sum) as f32,
            entropy: (sum.ln() - sums.weighted / sum) as f32,
        }
    }
}

/// The largest logit that is a number, −∞ if there is none.
#[inline(always)]
fn largest<S: Simd>(simd: S, block: &[f32]) -> f32 {
    let low = simd.splat(f32::NEG_INFINITY);
    let (mut even, mut odd) = (low, low);
    let mut pairs = block.chunks_exact(2 * S::LANES);
    for pair in &mut pairs {
        even = simd.max(simd.read(pair), even);
        odd = simd.max(simd.read(&pair[S::LANES..]), odd);
    }
    let rest = pairs.remainder().iter().fold(f32::NEG_INFINITY, |max, &x| max.max(x));
    simd.max_lane(simd.max(even, odd)).max(rest)
}

/// Best and second best logit so far.
struct Leaders {
    max: f32,
    argmax: usize,
    second: f32,
}

impl Leaders {
    #[inline(always)]
    fn visit(&mut self, block: &[f32], start: usize) {
        for (index, &x) in block.iter().enumerate() {
            if x > self.second {
                if x > self.max {
                    *self = Self { max: x, argmax: start + index, second: self.max };
                } else {
                    self.second = x;
                }
            }
        }
    }
}

/// `Σ e^y` and `Σ e^y·y` for `y = x − max`, over what was visited.
struct Sums {
    max: f32,
    sum: f64,
    weighted: f64,
}

impl Sums {
    /// Moves to a larger maximum.
    #[inline(always)]
    fn raise(&mut self, max: f32) {
        if max > self.max {
            let shift = f64::from(self.max) - f64::from(max);
            if self.sum > 0.0 {
                self.weighted = shift.exp() * (self.weighted + shift * self.sum);
                self.sum *= shift.exp();
            }
            self.max = max;
        }
    }

    #[inline(always)]
    fn visit<S: Simd>(&mut self, simd: S, block: &[f32]) {
        if self.max == f32::NEG_INFINITY {
            // Nothing to be relative to yet: only a NaN counts.
            if block.iter().any(|x| x.is_nan()) {
                self.sum = f64::NAN;
            }
            return;
        }
        let (max, floor, zero) = (simd.splat(self.max), simd.splat(VANISHED), simd.splat(0.0));
        let (mut sum, mut weighted) = (zero, zero);
        for x in block.chunks(S::LANES) {
            let x = if x.len() == S::LANES { simd.read(x) } else { simd.read_tail(x, f32::NEG_INFINITY) };
            // A vanished term counts nothing even where the logit is infinite.
            let y = simd.max(floor, simd.sub(x, max));
            let e = exp(simd, y);
            sum = simd.add(sum, e);
            weighted = simd.fma(e, y, weighted);
        }
        self.sum += f64::from(simd.sum(sum));
        self.weighted += f64::from(simd.sum(weighted));
    }
}

/// Its exponential is zero.
const VANISHED: f32 = -104.0;
