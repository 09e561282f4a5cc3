//! Certainty forcing (dParallel, Chen et al. 2026): cross-entropy of the masked tokens, and the entropy of
//! `softmax(z / 0.5)` wherever the most probable token already is the right one, so that what is known is known surely and
//! more of it may be taken at once. Per pass `CE + w·H`, both means over the cells of that pass.
//!
//! The entropy's gradient flows through the logits; which cells count is a constant. Invariant: rows are independent and
//! summed in order, as in [`cross_entropy`](super::cross_entropy).

use std::ops::Range;

use candle_core::{D, Tensor};
use rayon::prelude::*;

use super::loss::{Loss, row_loss};

/// Sharpens the distribution whose entropy is taken.
const TEMPERATURE: f32 = 0.5;
/// Inside the logarithm.
const FLOOR: f32 = 1e-12;

/// What makes the predictions of a part certain as well as right.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Certainty {
    /// Predictions of each pass over a canvas.
    pub passes: Vec<Range<usize>>,
    /// Weight of a pass's mean entropy.
    pub weight: f32,
}

impl Certainty {
    /// What the entropy of each prediction counts, of those whose most probable token is right.
    pub(super) fn factors(&self, right: &[bool]) -> Vec<f32> {
        let mut factors = vec![0.0_f32; right.len()];
        for pass in &self.passes {
            let count = right[pass.clone()].iter().filter(|right| **right).count();
            for index in pass.clone().filter(|&index| right[index]) {
                factors[index] = self.weight / count as f32;
            }
        }
        factors
    }
}

/// The entropies of rows of logits, each times its factor, as a scalar to be differentiated by candle.
pub(super) fn composed(logits: &Tensor, factors: &[f32]) -> candle_core::Result<Tensor> {
    let max = logits.max_keepdim(D::Minus1)?.detach();
    let q = (logits.broadcast_sub(&max)? / f64::from(TEMPERATURE))?.exp()?;
    let q = q.broadcast_div(&q.sum_keepdim(D::Minus1)?)?;
    let entropy = (&q * (&q + f64::from(FLOOR))?.log()?)?.sum(D::Minus1)?.neg()?;
    (entropy * Tensor::new(factors, logits.device())?)?.sum_all()
}

/// Replaces `logits` by the gradient of cross-entropy and entropy, and returns their sum.
///
/// # Panics
/// If the lengths disagree or a target is outside the vocabulary.
pub fn certainty(logits: &mut [f32], targets: &[u32], weights: &[f32], sure: &Certainty) -> Loss {
    if targets.is_empty() {
        return Loss::default();
    }
    let vocab = logits.len() / targets.len();
    assert_eq!(logits.len(), vocab * targets.len(), "certainty: logits must be [targets, vocab]");
    let is_right = |(row, &target): (&[f32], &u32)| first_largest(row) == target as usize;
    let right: Vec<bool> = logits.par_chunks(vocab).zip(targets).map(is_right).collect();
    let factors = sure.factors(&right);
    let rows = logits.par_chunks_mut(vocab).zip(targets).zip(weights).zip(&factors);
    let losses: Vec<f64> = rows
        .map(|(((row, &target), &weight), &factor)| {
            let slopes = (factor != 0.0).then(|| entropy(row));
            let (mut value, _) = row_loss(row, target as usize, weight);
            if let Some((entropy, slopes)) = slopes {
                value += f64::from(factor) * entropy;
                row.iter_mut().zip(slopes).for_each(|(g, slope)| *g += factor * slope);
            }
            value
        })
        .collect();
    let right = right.iter().filter(|right| **right).count();
    Loss { value: losses.iter().sum(), right, count: targets.len() }
}

/// Entropy of the sharpened distribution, and its slope in every logit.
fn entropy(row: &[f32]) -> (f64, Vec<f32>) {
    let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut q: Vec<f32> = row.iter().map(|z| ((z - max) / TEMPERATURE).exp()).collect();
    let sum: f32 = q.iter().sum();
    q.iter_mut().for_each(|q| *q /= sum);
    let entropy: f64 = q.iter().map(|&q| -f64::from(q) * f64::from(q + FLOOR).ln()).sum();
    let slope = |q: f32| -(q + FLOOR).ln() - q / (q + FLOOR);
    let mean: f32 = q.iter().map(|&q| q * slope(q)).sum();
    (entropy, q.iter().map(|&q| q * (slope(q) - mean) / TEMPERATURE).collect())
}

fn first_largest(row: &[f32]) -> usize {
    (1..row.len()).fold(0, |best, index| if row[index] > row[best] { index } else { best })
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use demask_model::checkpoint::Store;
    use demask_model::{Backbone as _, LoadOptions, Query, Transformer};

    use super::*;

    fn one_pass(rows: usize, weight: f32) -> Certainty {
        Certainty { passes: std::iter::once(0..rows).collect(), weight }
    }

    /// By hand: two tokens, z = (a, 0), label 0: H = h(σ(2a)) and dH/da = −4a·σ'(2a).
    #[test]
    fn two_tokens_by_hand() {
        let a = 0.7_f32;
        let mut logits = vec![a, 0.0];
        let loss = certainty(&mut logits, &[0], &[0.0], &one_pass(1, 1.0));
        let p = 1.0 / (1.0 + (-2.0 * a).exp());
        let h = -(p * p.ln() + (1.0 - p) * (1.0 - p).ln());
        assert!((loss.value - f64::from(h)).abs() < 1e-6, "{loss:?} {h}");
        assert!((logits[0] + 4.0 * a * p * (1.0 - p)).abs() < 1e-6, "{logits:?}");
        // A wrong arg-max contributes cross-entropy only.
        let mut wrong = vec![a, 0.0];
        let loss = certainty(&mut wrong, &[1], &[1.0], &one_pass(1, 5.0));
        assert!((loss.value - f64::from((1.0 + a.exp()).ln())).abs() < 1e-6 && loss.right == 0, "{loss:?}");
    }

    #[test]
    fn the_gradient_is_the_slope() {
        let logits: Vec<f32> = (0..15).map(|i| ((i * 7) % 11) as f32 * 0.3 - 1.0).collect();
        let (targets, weights) = ([2, 0, 4], [0.5, 2.0, 1.0]);
        let sure = Certainty { passes: vec![0..1, 1..3], weight: 2.0 };
        let mut gradient = logits.clone();
        certainty(&mut gradient, &targets, &weights, &sure);
        for index in 0..15 {
            let nudged = |by: f32| {
                let mut logits = logits.clone();
                logits[index] += by;
                certainty(&mut logits, &targets, &weights, &sure).value
            };
            let slope = (nudged(1e-2) - nudged(-1e-2)) / 2e-2;
            assert!(
                (slope - f64::from(gradient[index])).abs() < 2e-3,
                "{index}: {slope} {}",
                gradient[index]
            );
        }
    }

    fn fixtures() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures")
    }

    /// Logits of given output rows.
    fn logits(model: &Transformer, tokens: &[u32], rows: &[usize]) -> Vec<f32> {
        // Row r of a shifted model predicts position r + 1.
        let mut padded = tokens.to_vec();
        padded.push(0);
        let predict: Vec<usize> = rows.iter().map(|row| row + 1).collect();
        let last = predict.iter().max().copied().unwrap_or(0) == tokens.len();
        let tokens = if last { &padded } else { tokens };
        let mut batch = [Query { tokens, predict: &predict, ..Query::default() }];
        let pass = model.forward(&mut batch).unwrap().remove(0);
        let mut out = Vec::new();
        model.logits(&pass.predicting, &mut |_, chunk| out.extend_from_slice(chunk)).unwrap();
        out
    }

    #[test]
    fn loss_and_gradient_are_those_of_the_published_code() {
        let model = Transformer::load(&fixtures().join("dream-toy"), &LoadOptions::default()).unwrap();
        let store = Store::open_file(fixtures().join("dparallel-toy/expected.safetensors")).unwrap();
        let text = std::fs::read(fixtures().join("dparallel-toy/expected.json")).unwrap();
        let expected: serde_json::Value = serde_json::from_slice(&text).unwrap();
        let ints = |name: String| -> Vec<u32> {
            let (_, _, bytes) = store.bytes(&name).unwrap();
            bytes.chunks_exact(4).map(|b| i32::from_le_bytes(b.try_into().unwrap()) as u32).collect()
        };
        for case in expected["cases"].as_array().unwrap() {
            let number = case["case"].as_u64().unwrap();
            let ids = ints(format!("{number}.ids"));
            let weight = case["entropy_weight"].as_f64().unwrap() as f32;
            let mut total = 0.0;
            for (index, suffix) in ["", "_complement"].iter().enumerate() {
                let masked = ints(format!("{number}.masked{suffix}"));
                let positions: Vec<usize> = (0..ids.len()).filter(|&p| masked[p] == 1).collect();
                let rows: Vec<usize> =
                    ints(format!("{number}.grad{suffix}.rows")).iter().map(|&r| r as usize).collect();
                // `dream`: row i − 1 predicts i; `llada`: the logits were moved so that row i does.
                let shift = usize::from(case["form"] == "dream");
                assert_eq!(rows, positions.iter().map(|p| p - shift).collect::<Vec<_>>());
                let outputs: Vec<usize> = positions.iter().map(|p| p - 1).collect();
                let mut z = logits(&model, &ints(format!("{number}.noisy{suffix}")), &outputs);
                let targets: Vec<u32> = positions.iter().map(|&p| ids[p]).collect();
                let mean = vec![1.0 / targets.len() as f32; targets.len()];
                let loss = certainty(&mut z, &targets, &mean, &one_pass(targets.len(), weight));
                assert_eq!(loss.right as u64, case["correct"][index].as_u64().unwrap());
                let part = |name: &str| case[name][index].as_f64().unwrap();
                let want = part("ce") + f64::from(weight) * part("entropy");
                assert!((loss.value - want).abs() < 1e-5, "{number}{suffix}: {} {want}", loss.value);
                total += loss.value;
                let grads = store.tensor(&format!("{number}.grad{suffix}")).unwrap().to_f32();
                let worst = z.iter().zip(grads.iter()).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                assert!(worst < 1e-5, "{number}{suffix}: {worst}");
            }
            assert!((total - case["loss"].as_f64().unwrap()).abs() < 2e-5, "{number}: {total}");
        }
    }
}
