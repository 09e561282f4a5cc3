//! AdamW over one flat vector of parameters: decoupled weight decay, gradient clipping by global norm, optional
//! exponential moving average.
//!
//! Invariant: the update is element by element and the norm is summed over fixed blocks in a fixed order, so the result
//! does not depend on the number of threads.

use std::ops::Range;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// Elements handled as one unit of work.
const BLOCK: usize = 1 << 14;

/// Settings of the optimizer.
///
/// ```
/// use demask_train::optimizer::{AdamW, Moments};
/// let settings = AdamW { weight_decay: 0.0, ..AdamW::default() };
/// let mut moments = Moments::new(vec![1.0, -1.0], &settings);
/// moments.update(&settings, &[0.5, -0.25], &[], 0.1);
/// // The first update is the rate times the sign of the gradient.
/// assert!((moments.parameters[0] - 0.9).abs() < 1e-3 && (moments.parameters[1] + 0.9).abs() < 1e-3);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdamW {
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Added to the root of the second moment.
    pub eps: f64,
    /// Decoupled weight decay of matrices; vectors (norms, biases) do not decay.
    pub weight_decay: f64,
    /// Largest global norm of the gradient; longer gradients are scaled down.
    pub clip: f64,
    /// Decay of the moving average of the weights; 0 keeps none.
    pub ema: f64,
}

impl Default for AdamW {
    fn default() -> Self {
        Self { beta1: 0.9, beta2: 0.98, eps: 1e-8, weight_decay: 0.01, clip: 1.0, ema: 0.0 }
    }
}

impl AdamW {
    /// What is wrong with the numbers, if anything.
    pub fn problem(&self) -> Option<String> {
        for (name, value) in [("beta1", self.beta1), ("beta2", self.beta2), ("ema", self.ema)] {
            if !(0.0..1.0).contains(&value) {
                return Some(format!("{name} is {value}, must be at least 0 and below 1"));
            }
        }
        for (name, value) in [("eps", self.eps), ("clip", self.clip)] {
            if !(value > 0.0 && value.is_finite()) {
                return Some(format!("{name} is {value}, must be a positive number"));
            }
        }
        let decay = self.weight_decay;
        (!(0.0..1.0).contains(&decay))
            .then(|| format!("weight_decay is {decay}, must be at least 0 and below 1"))
    }
}

/// Parameters with their moments, as flat vectors of the same length.
#[derive(Debug, Clone, PartialEq)]
pub struct Moments {
    /// The weights.
    pub parameters: Vec<f32>,
    /// First moment.
    pub first: Vec<f32>,
    /// Second moment.
    pub second: Vec<f32>,
    /// Moving average of the weights, where one is kept.
    pub ema: Option<Vec<f32>>,
    /// Updates made so far.
    pub updates: u64,
}

impl Moments {
    /// Fresh moments for these weights.
    pub fn new(parameters: Vec<f32>, settings: &AdamW) -> Self {
        let zeros = vec![0.0; parameters.len()];
        let ema = (settings.ema > 0.0).then(|| parameters.clone());
        Self { first: zeros.clone(), second: zeros, ema, parameters, updates: 0 }
    }

    /// The weights to use: the moving average where there is one.
    pub fn averaged(&self) -> &[f32] {
        self.ema.as_deref().unwrap_or(&self.parameters)
    }

    /// One update with the gradient at learning rate `rate`; `decayed` are the ranges that weight decay applies to.
    /// Returns the norm of the gradient before clipping; a gradient that is not finite changes nothing.
    pub fn update(&mut self, settings: &AdamW, gradient: &[f32], decayed: &[Range<usize>], rate: f64) -> f64 {
        let norm = norm(gradient);
        if !norm.is_finite() {
            return norm;
        }
        self.updates += 1;
        let keep = (1.0 - rate * settings.weight_decay) as f32;
        for range in decayed {
            let blocks = self.parameters[range.clone()].par_chunks_mut(BLOCK);
            blocks.for_each(|block| block.iter_mut().for_each(|p| *p *= keep));
        }
        let coefficients = Coefficients::new(settings, norm, rate, self.updates);
        let moments = self.parameters.par_chunks_mut(BLOCK).zip(self.first.par_chunks_mut(BLOCK));
        moments.zip(self.second.par_chunks_mut(BLOCK)).zip(gradient.par_chunks(BLOCK)).for_each(
            |(((parameters, first), second), gradient)| {
                coefficients.apply(parameters, first, second, gradient)
            },
        );
        if let Some(ema) = &mut self.ema {
            // The average forgets faster at first, so that it does not remember the random start.
            let decay = settings.ema.min((1.0 + self.updates as f64) / (10.0 + self.updates as f64)) as f32;
            let pairs = ema.par_chunks_mut(BLOCK).zip(self.parameters.par_chunks(BLOCK));
            pairs.for_each(|(ema, parameters)| {
                ema.iter_mut().zip(parameters).for_each(|(e, &p)| *e += (1.0 - decay) * (p - *e));
            });
        }
        norm
    }
}

/// Euclidean norm, summed in `f64` block by block.
pub fn norm(values: &[f32]) -> f64 {
    let blocks: Vec<f64> = values
        .par_chunks(BLOCK)
        .map(|block| block.iter().map(|&v| f64::from(v) * f64::from(v)).sum())
        .collect();
    blocks.iter().sum::<f64>().sqrt()
}

struct Coefficients {
    scale: f32,
    beta1: f32,
    beta2: f32,
    step: f32,
    root: f32,
    eps: f32,
}

impl Coefficients {
    fn new(settings: &AdamW, norm: f64, rate: f64, updates: u64) -> Self {
        let correction = |beta: f64| 1.0 - beta.powi(updates.min(1 << 30) as i32);
        Self {
            scale: if norm > settings.clip { settings.clip / norm } else { 1.0 } as f32,
            beta1: settings.beta1 as f32,
            beta2: settings.beta2 as f32,
            step: (rate / correction(settings.beta1)) as f32,
            root: (1.0 / correction(settings.beta2).sqrt()) as f32,
            eps: settings.eps as f32,
        }
    }

    fn apply(&self, parameters: &mut [f32], first: &mut [f32], second: &mut [f32], gradient: &[f32]) {
        for (((p, m), v), &g) in parameters.iter_mut().zip(first).zip(second).zip(gradient) {
            let g = g * self.scale;
            *m = self.beta1 * *m + (1.0 - self.beta1) * g;
            *v = self.beta2 * *v + (1.0 - self.beta2) * g * g;
            *p -= self.step * *m / (v.sqrt() * self.root + self.eps);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_update_is_the_textbook_one() {
        let settings = AdamW { weight_decay: 0.1, ema: 0.5, ..AdamW::default() };
        let mut moments = Moments::new(vec![1.0, -2.0], &settings);
        let norm = moments.update(&settings, &[3.0, 4.0], std::slice::from_ref(&(0..1)), 0.01);
        assert_eq!(norm, 5.0);
        // Clipped to [0.6, 0.8]; bias-corrected first step is the sign of the gradient.
        assert!((moments.parameters[0] - 0.989).abs() < 1e-6);
        assert!((moments.parameters[1] + 2.01).abs() < 1e-6);
        assert!((moments.first[0] - 0.06).abs() < 1e-7 && (moments.second[1] - 0.0128).abs() < 1e-7);
        let decay = 2.0 / 11.0;
        let expected = decay + (1.0 - decay) * moments.parameters[0];
        assert!((moments.averaged()[0] - expected).abs() < 1e-6);
    }

    #[test]
    fn it_finds_the_bottom_of_a_bowl() {
        let settings = AdamW { weight_decay: 0.0, ..AdamW::default() };
        let goal: Vec<f32> = (0..40_000).map(|i| (i % 7) as f32 - 3.0).collect();
        let mut moments = Moments::new(vec![0.0; goal.len()], &settings);
        for step in 0..600 {
            let gradient: Vec<f32> = moments.parameters.iter().zip(&goal).map(|(p, g)| p - g).collect();
            moments.update(&settings, &gradient, &[], 0.05 * (1.0 - step as f64 / 600.0));
        }
        let worst = moments.parameters.iter().zip(&goal).map(|(p, g)| (p - g).abs()).fold(0.0, f32::max);
        assert!(worst < 0.01, "{worst}");
    }

    #[test]
    fn a_gradient_that_is_not_finite_changes_nothing() {
        let settings = AdamW::default();
        let mut moments = Moments::new(vec![1.0; 3], &settings);
        let before = moments.clone();
        assert!(
            moments.update(&settings, &[0.0, f32::NAN, 1.0], std::slice::from_ref(&(0..3)), 0.1).is_nan()
        );
        assert_eq!(moments, before);
    }
}
