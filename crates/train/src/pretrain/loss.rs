//! Weighted cross-entropy of prediction rows: loss and gradient in one pass over the logits.
//!
//! Invariant: rows are independent and their losses are summed in order, so the result does not depend on the threads.

use std::sync::{Arc, Mutex};

use candle_core::{CpuStorage, CustomOp1, DType, Layout, Result, Shape, Tensor};
use rayon::prelude::*;

use super::certainty::{self, Certainty};

/// The loss of some predictions.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Loss {
    /// Weighted sum of the negative log-probabilities of the targets.
    pub value: f64,
    /// Predictions whose most probable token is the target.
    pub right: usize,
    /// Predictions.
    pub count: usize,
}

impl std::ops::AddAssign for Loss {
    fn add_assign(&mut self, other: Self) {
        self.value += other.value;
        self.right += other.right;
        self.count += other.count;
    }
}

/// Replaces `logits` (`[targets.len(), vocab]`) by the gradient of `Σ weight · −log softmax(logits)[target]`, and
/// returns that sum.
///
/// # Panics
/// If the lengths disagree or a target is outside the vocabulary.
pub fn cross_entropy(logits: &mut [f32], targets: &[u32], weights: &[f32]) -> Loss {
    assert_eq!(targets.len(), weights.len(), "cross_entropy: one weight per target");
    if targets.is_empty() {
        return Loss::default();
    }
    let vocab = logits.len() / targets.len();
    assert_eq!(logits.len(), vocab * targets.len(), "cross_entropy: logits must be [targets, vocab]");
    let rows = logits.par_chunks_mut(vocab).zip(targets).zip(weights);
    let losses: Vec<(f64, bool)> =
        rows.map(|((row, &target), &weight)| row_loss(row, target as usize, weight)).collect();
    let sum = |loss: Loss, &(value, right): &(f64, bool)| Loss {
        value: loss.value + value,
        right: loss.right + usize::from(right),
        count: loss.count + 1,
    };
    losses.iter().fold(Loss::default(), sum)
}

/// Replaces a row by the gradient of its weighted surprise; whether the target is the most probable token.
pub(super) fn row_loss(row: &mut [f32], target: usize, weight: f32) -> (f64, bool) {
    let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let (aim, right) = (row[target], row[target] == max);
    let mut sum = 0.0;
    for value in row.iter_mut() {
        *value = (*value - max).exp();
        sum += *value;
    }
    let scale = weight / sum;
    row.iter_mut().for_each(|value| *value *= scale);
    row[target] -= weight;
    (f64::from(weight) * (f64::from(sum).ln() + f64::from(max) - f64::from(aim)), right)
}

/// [`cross_entropy`], and what certainty adds to it.
pub(super) fn of(logits: &mut [f32], targets: &[u32], weights: &[f32], sure: Option<&Certainty>) -> Loss {
    match sure {
        None => cross_entropy(logits, targets, weights),
        Some(sure) => certainty::certainty(logits, targets, weights, sure),
    }
}

/// The loss as a differentiable scalar; the detached [`Loss`] comes beside it. Of candle's own operations where the logits
/// lie on a device, or where `composed`.
pub fn differentiable(
    logits: &Tensor,
    targets: &[u32],
    weights: &[f32],
    certainty: Option<&Certainty>,
    composed: bool,
) -> Result<(Tensor, Loss)> {
    if !composed && logits.device().is_cpu() && logits.dtype() == DType::F32 {
        let outcome = Arc::new(Mutex::new(Outcome::default()));
        let op = Op {
            targets: targets.to_vec(),
            weights: weights.to_vec(),
            certainty: certainty.cloned(),
            outcome: outcome.clone(),
        };
        let value = logits.contiguous()?.apply_op1(op)?;
        let loss = outcome.lock().map_or_else(|poisoned| poisoned.into_inner().loss, |outcome| outcome.loss);
        return Ok((value, loss));
    }
    let device = logits.device();
    let logits = logits.to_dtype(DType::F32)?;
    let targets_column = Tensor::new(targets, device)?.unsqueeze(1)?;
    let max = logits.max_keepdim(1)?.detach();
    let lse = (logits.broadcast_sub(&max)?.exp()?.sum_keepdim(1)?.log()? + &max)?;
    let surprise = (lse - logits.gather(&targets_column, 1)?)?.squeeze(1)?;
    let mut value = (surprise * Tensor::new(weights, device)?)?.sum_all()?;
    let best: Vec<u32> = logits.argmax(1)?.to_vec1()?;
    let right: Vec<bool> = best.iter().zip(targets).map(|(best, target)| best == target).collect();
    if let Some(sure) = certainty {
        value = (value + certainty::composed(&logits, &sure.factors(&right))?)?;
    }
    let right = right.into_iter().filter(|right| *right).count();
    let loss = Loss { value: f64::from(value.to_scalar::<f32>()?), right, count: targets.len() };
    Ok((value, loss))
}

/// What the forward pass leaves for the backward pass.
#[derive(Default)]
struct Outcome {
    loss: Loss,
    gradient: Vec<f32>,
}

struct Op {
    targets: Vec<u32>,
    weights: Vec<f32>,
    certainty: Option<Certainty>,
    outcome: Arc<Mutex<Outcome>>,
}

impl CustomOp1 for Op {
    fn name(&self) -> &'static str {
        "masked-cross-entropy"
    }

    fn cpu_fwd(&self, logits: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let Some((start, end)) = layout.contiguous_offsets() else {
            candle_core::bail!("logits must be contiguous")
        };
        let mut gradient = logits.as_slice::<f32>()?[start..end].to_vec();
        let loss = of(&mut gradient, &self.targets, &self.weights, self.certainty.as_ref());
        if let Ok(mut outcome) = self.outcome.lock() {
            *outcome = Outcome { loss, gradient };
        }
        Ok((CpuStorage::F32(vec![loss.value as f32]), Shape::from(())))
    }

    fn bwd(&self, logits: &Tensor, _: &Tensor, upstream: &Tensor) -> Result<Option<Tensor>> {
        let Ok(mut outcome) = self.outcome.lock() else {
            candle_core::bail!("the loss was computed by a failed thread")
        };
        let gradient =
            Tensor::from_vec(std::mem::take(&mut outcome.gradient), logits.shape(), logits.device())?;
        let scale = f64::from(upstream.to_scalar::<f32>()?);
        Ok(Some(if scale == 1.0 { gradient } else { (gradient * scale)? }))
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{Device, Var};

    use super::*;

    const TARGETS: [u32; 3] = [2, 0, 4];
    const WEIGHTS: [f32; 3] = [0.5, 2.0, 1.0];

    fn logits() -> Vec<f32> {
        (0..15).map(|i| ((i * 7) % 11) as f32 * 0.3 - 1.0).collect()
    }

    #[test]
    fn the_gradient_is_the_slope() {
        let mut gradient = logits();
        let loss = cross_entropy(&mut gradient, &TARGETS, &WEIGHTS);
        for i in 0..15 {
            let nudged = |by: f32| {
                let mut logits = logits();
                logits[i] += by;
                cross_entropy(&mut logits, &TARGETS, &WEIGHTS).value
            };
            let slope = (nudged(1e-2) - nudged(-1e-2)) / 2e-2;
            assert!((slope - f64::from(gradient[i])).abs() < 1e-3, "{i}: {slope} {}", gradient[i]);
        }
        assert_eq!(loss.count, 3);
    }

    #[test]
    fn the_fused_op_agrees_with_composed_operations() {
        let var = Var::from_vec(logits(), (3, 5), &Device::Cpu).unwrap();
        let (fused, loss) = differentiable(var.as_tensor(), &TARGETS, &WEIGHTS, None, false).unwrap();
        let fused_gradient = (fused * 3.0).unwrap().backward().unwrap().remove(&var).unwrap();
        let wide = var.to_dtype(DType::F64).unwrap();
        let (composed, other) = differentiable(&wide, &TARGETS, &WEIGHTS, None, false).unwrap();
        let composed_gradient = (composed * 3.0).unwrap().backward().unwrap().remove(&var).unwrap();
        let (a, b) = (fused_gradient.flatten_all().unwrap(), composed_gradient.flatten_all().unwrap());
        for (a, b) in a.to_vec1::<f32>().unwrap().iter().zip(b.to_vec1::<f32>().unwrap()) {
            assert!((a - b).abs() < 1e-5, "{a} {b}");
        }
        assert!((loss.value - other.value).abs() < 1e-5);
        assert_eq!((loss.right, loss.count), (other.right, other.count));
    }
}
