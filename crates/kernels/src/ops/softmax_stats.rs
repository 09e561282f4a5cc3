//! What a decoder reads off one row of logits: maximum, normaliser, best and second-best probability, entropy.

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
    let (mut max, mut second, mut argmax, mut nan) = (f32::NEG_INFINITY, f32::NEG_INFINITY, 0, false);
    for (index, &x) in logits.iter().enumerate() {
        nan |= x.is_nan();
        if x > max {
            (second, max, argmax) = (max, x, index);
        } else if x > second {
            second = x;
        }
    }
    if nan {
        max = f32::NAN;
    }
    let (mut sum, mut weighted) = (0.0f64, 0.0f64);
    for &x in logits {
        let y = x - max;
        let e = y.exp();
        sum += f64::from(e);
        if e > 0.0 {
            weighted += f64::from(e * y);
        }
    }
    SoftmaxStats {
        max,
        logsumexp: (f64::from(max) + sum.ln()) as f32,
        argmax,
        top1: (1.0 / sum) as f32,
        top2: (f64::from(second - max).exp() / sum) as f32,
        entropy: (sum.ln() - weighted / sum) as f32,
    }
}
