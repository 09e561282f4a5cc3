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

/// Statistics of one row. A NaN, a `+∞`, or nothing but `−∞` among the logits makes every probability NaN.
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
        let mut leaders = Leaders::new(simd);
        let mut sums = Sums { max: f32::NEG_INFINITY, sum: 0.0, weighted: 0.0 };
        for (index, block) in self.logits.chunks(BLOCK).enumerate() {
            let max = leaders.visit(simd, block, index * BLOCK);
            sums.raise(max);
            if sums.max > f32::NEG_INFINITY {
                sums.visit(simd, block);
            }
        }
        let (max, argmax, second) = leaders.finish(simd);
        if max == f32::NEG_INFINITY || simd.any(leaders.nan) {
            sums.sum = f64::NAN;
        }
        SoftmaxStats {
            max: if simd.any(leaders.nan) { f32::NAN } else { max },
            logsumexp: (f64::from(max) + sums.sum.ln()) as f32,
            argmax,
            top1: (1.0 / sums.sum) as f32,
            top2: (f64::from(second - max).exp() / sums.sum) as f32,
            entropy: (sums.sum.ln() - sums.weighted / sums.sum) as f32,
        }
    }
}

/// Lane by lane, the largest value, where it was first met, and the second largest.
struct Leaders<S: Simd> {
    max: S::F,
    second: S::F,
    at: S::I,
    nan: S::M,
}

impl<S: Simd> Leaders<S> {
    #[inline(always)]
    fn new(simd: S) -> Self {
        let low = simd.splat(f32::NEG_INFINITY);
        Self { max: low, second: low, at: simd.ramp(0), nan: simd.is_nan(low) }
    }

    /// Takes in a block and returns the largest value so far.
    #[inline(always)]
    fn visit(&mut self, simd: S, block: &[f32], start: usize) -> f32 {
        for (index, x) in block.chunks(S::LANES).enumerate() {
            let x = if x.len() == S::LANES { simd.read(x) } else { simd.read_tail(x, f32::NEG_INFINITY) };
            let above = simd.gt(x, self.max);
            self.second = simd.max(simd.min(x, self.max), self.second);
            self.at = simd.select_i(above, simd.ramp((start + index * S::LANES) as i32), self.at);
            self.max = simd.select(above, x, self.max);
            self.nan = simd.or(self.nan, simd.is_nan(x));
        }
        simd.max_lane(self.max)
    }

    /// Largest value, its lowest index, second largest value.
    #[inline(always)]
    fn finish(&self, simd: S) -> (f32, usize, f32) {
        let (max, second, at) = (simd.lanes(self.max), simd.lanes(self.second), simd.indices(self.at));
        let mut best = 0;
        for lane in 1..S::LANES {
            if max[lane] > max[best] || (max[lane] == max[best] && at[lane] < at[best]) {
                best = lane;
            }
        }
        let mut runner_up = f32::NEG_INFINITY;
        for lane in 0..S::LANES {
            runner_up = runner_up.max(second[lane]);
            if lane != best {
                runner_up = runner_up.max(max[lane]);
            }
        }
        (max[best], at[best] as usize, runner_up)
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
        let max = simd.splat(self.max);
        let zero = simd.splat(0.0);
        let (mut sum, mut weighted) = (zero, zero);
        for x in block.chunks(S::LANES) {
            let x = if x.len() == S::LANES { simd.read(x) } else { simd.read_tail(x, f32::NEG_INFINITY) };
            let y = simd.sub(x, max);
            let e = exp(simd, y);
            sum = simd.add(sum, e);
            // A vanished term counts nothing even where y is infinite.
            let term = simd.select(simd.gt(e, zero), simd.mul(e, y), zero);
            weighted = simd.add(weighted, term);
        }
        self.sum += f64::from(simd.sum(sum));
        self.weighted += f64::from(simd.sum(weighted));
    }
}
