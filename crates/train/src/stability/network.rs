//! The head's two layers over standardised inputs, their loss and its gradient, written out.
//!
//! Inputs differ in size by orders of magnitude, so training sees them with mean 0 and variance 1; that is folded into the
//! first layer when the head is made, which then reads plain numbers.

use demask_decode::dependency::StabilityWeights;
use demask_kernels::{Shape, Strided, Weights, gemm, matmul};
use demask_model::Rows;

use super::data::Positions;
use crate::part::Slots;

/// Rows that means are taken of at most.
const SAMPLE: usize = 1 << 16;

/// Mean and inverse deviation of every input.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Standard {
    mean: Vec<f32>,
    scale: Vec<f32>,
}

impl Standard {
    /// Of positions, spread evenly.
    pub(super) fn of(positions: &Positions) -> Self {
        let (width, count) = (positions.inputs(), positions.len().min(SAMPLE));
        let (mut sums, mut squares) = (vec![0.0_f64; width], vec![0.0_f64; width]);
        let mut row = Vec::with_capacity(width);
        for index in 0..count {
            row.clear();
            positions.extend(index * positions.len() / count, &mut row);
            for ((sum, square), &x) in sums.iter_mut().zip(&mut squares).zip(&row) {
                *sum += f64::from(x);
                *square += f64::from(x).powi(2);
            }
        }
        let count = count.max(1) as f64;
        let mean: Vec<f64> = sums.iter().map(|sum| sum / count).collect();
        let scale = squares.iter().zip(&mean).map(|(square, mean)| {
            let variance = square / count - mean * mean;
            // An input that hardly ever moves says nothing.
            if variance > 1e-10 { (1.0 / variance.sqrt()) as f32 } else { 0.0 }
        });
        Self { scale: scale.collect(), mean: mean.iter().map(|&m| m as f32).collect() }
    }

    /// Brings a row to mean 0 and variance 1.
    pub(super) fn apply(&self, row: &mut [f32]) {
        for ((x, mean), scale) in row.iter_mut().zip(&self.mean).zip(&self.scale) {
            *x = (*x - mean) * scale;
        }
    }
}

/// Standardised rows and their labels.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) rows: Vec<f32>,
    pub(super) changes: Vec<bool>,
}

/// The two layers: names and places of their parameters.
#[derive(Debug, Clone)]
pub(super) struct Network {
    inputs: usize,
    inner: usize,
    pub(super) slots: Slots,
}

impl Network {
    pub(super) fn new(inputs: usize, inner: usize) -> Self {
        let slots = Slots::new([
            ("first", vec![inner, inputs]),
            ("first_bias", vec![inner]),
            ("second", vec![1, inner]),
            ("second_bias", vec![1]),
        ]);
        Self { inputs, inner, slots }
    }

    /// Starting values: the constant rate, and layers as they usually begin.
    pub(super) fn initial(&self, seed: u64, rate: f64) -> Vec<f32> {
        let mut values = self.slots.initial(seed);
        let rate = rate.clamp(1e-4, 1.0 - 1e-4);
        values[self.slots.range("second_bias").start] = (rate / (1.0 - rate)).ln() as f32;
        values
    }

    /// Logits of `q`, and what lies between the layers.
    fn forward(&self, parameters: &[f32], rows: &[f32]) -> (Vec<f32>, Vec<f32>) {
        let of = |name: &str| &parameters[self.slots.range(name)];
        let count = rows.len() / self.inputs;
        let mut inner = vec![0.0; count * self.inner];
        let weights = Weights::F32(of("first"));
        gemm(rows, count, self.inputs, weights, self.inner, Some(of("first_bias")), &mut inner);
        let (second, bias) = (of("second"), of("second_bias")[0]);
        let score = |z: &[f32]| z.iter().zip(second).map(|(&z, w)| z * sigmoid(z) * w).sum::<f32>() + bias;
        (inner.chunks_exact(self.inner).map(score).collect(), inner)
    }

    /// `q` of standardised rows.
    pub(super) fn predict(&self, parameters: &[f32], rows: &[f32]) -> Vec<f32> {
        self.forward(parameters, rows).0.into_iter().map(sigmoid).collect()
    }

    /// Mean log-loss of a batch; writes its gradient.
    pub(super) fn gradient(&self, parameters: &[f32], batch: &Batch, gradient: &mut [f32]) -> f64 {
        let (scores, inner) = self.forward(parameters, &batch.rows);
        let count = scores.len();
        let mut loss = 0.0;
        let mut slope: Vec<f32> = Vec::with_capacity(count);
        for (&score, &change) in scores.iter().zip(&batch.changes) {
            loss += log_loss(score, change);
            slope.push((sigmoid(score) - f32::from(u8::from(change))) / count as f32);
        }
        gradient.fill(0.0);
        let second = &parameters[self.slots.range("second")];
        let mut back = inner.clone();
        let mut of_second = vec![0.0_f32; self.inner];
        for (z, &slope) in back.chunks_exact_mut(self.inner).zip(&slope) {
            for ((z, w), sum) in z.iter_mut().zip(second).zip(&mut of_second) {
                let gate = sigmoid(*z);
                *sum += slope * *z * gate;
                *z = slope * w * (gate + *z * gate * (1.0 - gate));
            }
        }
        for row in back.chunks_exact(self.inner) {
            let biases = &mut gradient[self.slots.range("first_bias")];
            biases.iter_mut().zip(row).for_each(|(sum, z)| *sum += z);
        }
        gradient[self.slots.range("second")].copy_from_slice(&of_second);
        gradient[self.slots.range("second_bias")].copy_from_slice(&[slope.iter().sum()]);
        let shape = Shape { m: self.inner, n: self.inputs, k: count };
        let (left, right) = (Strided::rows(&back, self.inner).t(), Strided::rows(&batch.rows, self.inputs));
        matmul(shape, left, right, &mut gradient[self.slots.range("first")], false);
        loss / count.max(1) as f64
    }

    /// The head that reads plain inputs.
    pub(super) fn weights(&self, parameters: &[f32], standard: &Standard) -> StabilityWeights {
        let of = |name: &str| &parameters[self.slots.range(name)];
        let mut first = Rows::zeros(self.inputs, self.inner);
        let mut first_bias: Vec<f64> = of("first_bias").iter().map(|&b| f64::from(b)).collect();
        for (unit, weights) in of("first").chunks_exact(self.inputs).enumerate() {
            for (k, &w) in weights.iter().enumerate() {
                let plain = w * standard.scale[k];
                first.data[k * self.inner + unit] = plain;
                first_bias[unit] -= f64::from(plain) * f64::from(standard.mean[k]);
            }
        }
        StabilityWeights {
            first,
            first_bias: first_bias.into_iter().map(|b| b as f32).collect(),
            second: of("second").to_vec(),
            second_bias: of("second_bias")[0],
        }
    }
}

/// `−ln q` or `−ln(1 − q)` of a logit, in nats.
pub(super) fn log_loss(score: f32, change: bool) -> f64 {
    let score = f64::from(if change { -score } else { score });
    score.max(0.0) + (-score.abs()).exp().ln_1p()
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

#[cfg(test)]
mod tests {
    use demask_decode::rng::{Purpose, Rng};

    use super::*;

    fn numbers(of: u64, count: usize) -> Vec<f32> {
        let rng = Rng::new(9, of);
        (0..count).map(|i| (rng.uniform(Purpose::Mask, 0, i as u64) * 2.0 - 1.0) as f32).collect()
    }

    #[test]
    fn the_gradient_is_that_of_finite_differences() {
        let network = Network::new(5, 4);
        let batch = Batch { rows: numbers(1, 35), changes: (0..7).map(|i| i % 3 == 0).collect() };
        let parameters = numbers(2, network.slots.len());
        let mut gradient = vec![f32::NAN; parameters.len()];
        let loss = network.gradient(&parameters, &batch, &mut gradient);
        let at = |parameters: &[f32]| network.gradient(parameters, &batch, &mut vec![0.0; parameters.len()]);
        assert_eq!(loss, at(&parameters));
        for (i, &ours) in gradient.iter().enumerate() {
            let step = |by: f32| {
                let mut moved = parameters.clone();
                moved[i] += by;
                at(&moved)
            };
            let expected = (step(1e-2) - step(-1e-2)) / 2e-2;
            assert!((f64::from(ours) - expected).abs() < 2e-4, "parameter {i}: {ours} {expected}");
        }
    }

    #[test]
    fn folding_the_scale_changes_no_prediction() {
        let network = Network::new(3, 4);
        let standard = Standard { mean: vec![2.0, -30.0, 0.5], scale: vec![0.1, 3.0, 0.0] };
        let parameters = numbers(3, network.slots.len());
        let weights = network.weights(&parameters, &standard);
        let plain = [3.0_f32, -29.5, 7.0];
        let mut row = plain;
        standard.apply(&mut row);
        let expected = network.predict(&parameters, &row)[0];
        let mut score = weights.second_bias;
        for unit in 0..4 {
            let z: f32 = weights.first_bias[unit]
                + plain.iter().enumerate().map(|(k, x)| x * weights.first.row(k)[unit]).sum::<f32>();
            score += weights.second[unit] * z * sigmoid(z);
        }
        assert!((sigmoid(score) - expected).abs() < 1e-4, "{} {expected}", sigmoid(score));
    }

    #[test]
    fn losses_by_hand() {
        assert!((log_loss(0.0, true) - 2.0_f64.ln()).abs() < 1e-12);
        assert!((log_loss(3.0, true) - (1.0 + (-3.0_f64).exp()).ln()).abs() < 1e-9);
        assert!((log_loss(3.0, false) - (3.0 + (1.0 + (-3.0_f64).exp()).ln())).abs() < 1e-9);
        assert!(log_loss(-200.0, true).is_finite());
    }
}
