//! Dream's sampler on the device: temperature, top-p (the token that crosses stays), top-k (ties stay), and a draw, for
//! rows of logits that do not leave it. The uniform numbers come from the host, so randomness is the same everywhere.
//!
//! Nothing is sorted, because a vocabulary is too long for a device's sort: a set of the most probable tokens is told by a
//! threshold, which is found by halving. Invariant: what is drawn is what the order by probability, ties by id, gives; at
//! the border of the nucleus all tied tokens stay.

use candle_core::{D, DType, Result, Tensor};

/// Halvings of a range of exponents; the rest is below the distance of two numbers.
const HALVINGS: usize = 34;
/// Exponents below this weigh nothing in f32.
const LEAST: f64 = -104.0;

/// How the distribution is filtered before a token is drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Filter {
    /// Divides the logits.
    pub temperature: f32,
    /// Keep the smallest set of tokens whose probability reaches this.
    pub top_p: Option<f32>,
    /// Keep this many tokens, and those tied with the last.
    pub top_k: Option<usize>,
    /// Draw a token; else the most probable one is taken.
    pub draw: bool,
}

/// What is drawn for one row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drawn {
    /// The token.
    pub token: u32,
    /// Its probability after filtering.
    pub probability: f32,
    /// Its probability before.
    pub raw: f32,
    /// Largest probability after filtering.
    pub top1: f32,
    /// Largest minus second largest.
    pub margin: f32,
    /// `-Σ q ln(q + 1e-10)`.
    pub entropy: f32,
}

impl Drawn {
    /// Numbers of a row.
    pub(super) const NUMBERS: usize = 6;

    /// What [`drawn`] means.
    pub(super) fn read(row: &[f32]) -> Self {
        let [token, probability, raw, top1, margin, entropy] =
            [row[0], row[1], row[2], row[3], row[4], row[5]];
        Self { token: token as u32, probability, raw, top1, margin, entropy }
    }
}

/// `[rows, 6]` of logits `[rows, vocab]` with a uniform number per row.
pub(super) fn drawn(logits: &Tensor, filter: &Filter, uniform: &[f64]) -> Result<Tensor> {
    let max = logits.max_keepdim(D::Minus1)?;
    let below = logits.broadcast_sub(&max)?;
    let exponents = (&below / f64::from(filter.temperature))?.maximum(2.0 * LEAST)?;
    let weights = exponents.exp()?;
    let sum = weights.sum_keepdim(D::Minus1)?;
    let mut border = Tensor::full(1.5 * LEAST as f32, max.shape(), logits.device())?;
    if let Some(p) = filter.top_p.filter(|&p| p < 1.0) {
        let most = (&sum * f64::from(p))?;
        border = border.maximum(&halve(&exponents, &weights, &most)?.0)?;
    }
    if let Some(k) = filter.top_k {
        let most = Tensor::full(k as f32 - 1.0, max.shape(), logits.device())?;
        border = border.maximum(&halve(&exponents, &weights.ones_like()?, &most)?.0)?;
    }
    let kept = above(&exponents, &border, &weights)?;
    let total = kept.sum_keepdim(D::Minus1)?;
    let q = kept.broadcast_div(&total)?;
    let entropy = (&q * (&q + 1e-10)?.log()?)?.sum_keepdim(D::Minus1)?.neg()?;
    let argmax = logits.argmax_keepdim(D::Minus1)?.contiguous()?;
    let hole = Tensor::full(-1.0_f32, argmax.shape(), logits.device())?;
    let second = q.scatter(&argmax, &hole, D::Minus1)?.max_keepdim(D::Minus1)?.maximum(0.0)?;
    let top1 = total.recip()?;
    let margin = (&top1 - second)?;
    let token = match filter.draw {
        true => {
            // Below 1 in f32 too, so that something is left to draw.
            let uniform: Vec<f32> = uniform.iter().map(|&u| (u as f32).min(1.0 - f32::EPSILON)).collect();
            let target = (Tensor::from_vec(uniform, max.shape(), logits.device())? * &total)?;
            choose(&exponents, &kept, &target)?
        }
        false => argmax,
    };
    let probability = q.gather(&token, D::Minus1)?;
    let raw = below.exp()?;
    let raw = (raw.gather(&token, D::Minus1)? / raw.sum_keepdim(D::Minus1)?)?;
    Tensor::cat(&[&token.to_dtype(DType::F32)?, &probability, &raw, &top1, &margin, &entropy], 1)
}

/// What of `weights` belongs to exponents above a border.
fn above(exponents: &Tensor, border: &Tensor, weights: &Tensor) -> Result<Tensor> {
    let chosen = exponents.gt(&border.broadcast_as(exponents.shape())?)?;
    chosen.where_cond(weights, &weights.zeros_like()?)
}

/// The borders around the exponent at which what lies above comes to at most `most`: more lies above the lower border,
/// and no exponent but that one lies between the two.
fn halve(exponents: &Tensor, weights: &Tensor, most: &Tensor) -> Result<(Tensor, Tensor)> {
    let mut low = Tensor::full(1.25 * LEAST as f32, most.shape(), most.device())?;
    let mut high = low.zeros_like()?;
    for _ in 0..HALVINGS {
        let middle = ((&low + &high)? * 0.5)?;
        let fits = above(exponents, &middle, weights)?.sum_keepdim(D::Minus1)?.le(most)?;
        high = fits.where_cond(&middle, &high)?;
        low = fits.where_cond(&low, &middle)?;
    }
    Ok((low, high))
}

/// The token at which the running sum in the order of probability passes `target`; of tied ones by their ids.
fn choose(exponents: &Tensor, kept: &Tensor, target: &Tensor) -> Result<Tensor> {
    let (low, high) = halve(exponents, kept, target)?;
    let left = (target - above(exponents, &high, kept)?.sum_keepdim(D::Minus1)?)?;
    let ones = above(exponents, &low, &kept.ones_like()?)?;
    let tied = (ones - above(exponents, &high, &kept.ones_like()?)?)?;
    // Weights of tied tokens are equal, so the place among them is a quotient.
    let mass = (&tied * kept)?.sum_keepdim(D::Minus1)?;
    let count = tied.sum_keepdim(D::Minus1)?;
    let place = ((left * &count)? / mass)?.floor()?.maximum(0.0)?.minimum(&(&count - 1.0)?)?;
    let vocab = tied.dim(D::Minus1)?;
    let ids = Tensor::arange(0_u32, vocab as u32, tied.device())?.to_dtype(DType::F32)?;
    let ids = ids.reshape((1, vocab))?.broadcast_as(tied.shape())?;
    // The smallest id up to which more than `place` tied tokens lie.
    let mut low = Tensor::full(-1.0_f32, place.shape(), place.device())?;
    let mut high = Tensor::full(vocab as f32 - 1.0, place.shape(), place.device())?;
    for _ in 0..usize::BITS - vocab.leading_zeros() {
        let middle = ((&low + &high)? * 0.5)?.floor()?;
        let within = ids.le(&middle.broadcast_as(ids.shape())?)?.where_cond(&tied, &tied.zeros_like()?)?;
        let enough = within.sum_keepdim(D::Minus1)?.gt(&place)?;
        high = enough.where_cond(&middle, &high)?;
        low = enough.where_cond(&low, &middle)?;
    }
    high.to_dtype(DType::U32)
}
