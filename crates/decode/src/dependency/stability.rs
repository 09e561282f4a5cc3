//! The stability head: for a position that is not sure, the probability `q` that its most probable token changes once the
//! tokens of all sure positions are revealed. `q = σ(w₂·silu(W₁·[h; x] + b₁) + b₂)` over the position's hidden row `h` and a
//! few features `x` of the step; `demask:start=stable` opens its set with it.
//!
//! It lives in the predictor's file, beside the dependency head or alone. Invariant: a head that
//! exists has matrices that fit one another and finite numbers.

use demask_kernels::{Weights, gemm};
use demask_model::hash::Hash;
use demask_model::{HiddenRow, Rows};

use crate::dependency::Dependency;
use crate::dependency::feature::{Feature, Opinion, features};
use crate::dependency::predictor::transpose;
use crate::error::{Error, Result};

/// What is known of a head.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StabilityAbout {
    /// What counted as sure when its labels were made.
    pub gamma: Option<f32>,
    /// What it was trained on.
    pub trained_on: Option<String>,
    /// Held-out log-loss, and that of the constant rate.
    pub loss: Option<(f64, f64)>,
}

/// A head, ready for inference.
#[derive(Debug, Clone, PartialEq)]
pub struct Stability {
    row: HiddenRow,
    features: Vec<Feature>,
    /// `W₁ᵀ`, `[inner, d + features]`.
    across: Rows,
    first_bias: Vec<f32>,
    second: Vec<f32>,
    second_bias: f32,
    about: StabilityAbout,
}

/// The matrices of a head as they are stored.
#[derive(Debug, Clone, PartialEq)]
pub struct StabilityWeights {
    /// `W₁`, `[d + features, inner]`: hidden row first, then the features.
    pub first: Rows,
    /// `b₁`.
    pub first_bias: Vec<f32>,
    /// `w₂`.
    pub second: Vec<f32>,
    /// `b₂`.
    pub second_bias: f32,
}

impl Stability {
    /// Of its weights; refuses what does not fit together.
    pub fn new(
        row: HiddenRow,
        features: Vec<Feature>,
        weights: &StabilityWeights,
        about: StabilityAbout,
    ) -> Result<Self> {
        let StabilityWeights { first, first_bias, second, second_bias } = weights;
        let refuse =
            |why: String| Err(Error::Predictor(format!("the stability head does not fit together: {why}")));
        let inner = first.width;
        if inner == 0 || first_bias.len() != inner || second.len() != inner {
            return refuse(format!(
                "its layers are {inner} wide with {} biases, and the second reads {}",
                first_bias.len(),
                second.len()
            ));
        }
        if !first.data.len().is_multiple_of(inner) || first.len() <= features.len() {
            return refuse(format!(
                "it reads {} numbers, of which {} are features, so that no hidden row is left",
                first.len(),
                features.len()
            ));
        }
        let all = first.data.iter().chain(first_bias).chain(second).chain([second_bias]);
        if all.into_iter().any(|v| !v.is_finite()) {
            return refuse("a matrix holds a value that is not finite".into());
        }
        Ok(Self {
            row,
            features,
            across: transpose(first),
            first_bias: first_bias.clone(),
            second: second.clone(),
            second_bias: *second_bias,
            about,
        })
    }

    /// Its weights, as they are stored.
    pub fn weights(&self) -> StabilityWeights {
        StabilityWeights {
            first: transpose(&self.across),
            first_bias: self.first_bias.clone(),
            second: self.second.clone(),
            second_bias: self.second_bias,
        }
    }

    /// Which hidden row it reads for a position.
    pub fn hidden_row(&self) -> HiddenRow {
        self.row
    }

    /// What it reads besides.
    pub fn features(&self) -> &[Feature] {
        &self.features
    }

    /// Whether it needs a dependency matrix.
    pub fn reads_dependency(&self) -> bool {
        self.features.iter().any(|feature| feature.reads_dependency())
    }

    /// Width of the hidden rows it reads.
    pub fn width(&self) -> usize {
        self.across.width - self.features.len()
    }

    /// Width between its layers.
    pub fn inner(&self) -> usize {
        self.across.len()
    }

    /// What is known of it.
    pub fn about(&self) -> &StabilityAbout {
        &self.about
    }

    /// Tells heads apart by their weights.
    pub fn fingerprint(&self) -> String {
        let all = self.across.data.iter().chain(&self.first_bias).chain(&self.second);
        let all = all.chain([&self.second_bias]).map(|v| u64::from(v.to_bits()));
        all.fold(Hash::new(), Hash::word).to_string()
    }

    /// `q` of every mask: the expectation where it is unsure, 0 where it is sure. `hidden` is `[|M|, d]`.
    pub fn change(
        &self,
        hidden: &Rows,
        opinions: &[Opinion],
        dependency: Option<&Dependency>,
        gamma: f32,
    ) -> Result<Vec<f32>> {
        if hidden.width != self.width() || hidden.len() != opinions.len() {
            return Err(Error::Predictor(format!(
                "the stability head reads hidden rows of width {} but the backbone's are {} wide",
                self.width(),
                hidden.width
            )));
        }
        let unsure: Vec<usize> = (0..opinions.len()).filter(|&i| opinions[i].top1 <= gamma).collect();
        let read = features(&self.features, opinions, dependency, gamma);
        let mut input = Vec::with_capacity(unsure.len() * self.across.width);
        for &i in &unsure {
            input.extend_from_slice(hidden.row(i));
            input.extend_from_slice(read.row(i));
        }
        let mut inner = Rows::zeros(unsure.len(), self.inner());
        let weights = Weights::F32(&self.across.data);
        gemm(&input, unsure.len(), self.across.width, weights, self.inner(), None, &mut inner.data);
        let mut change = vec![0.0; opinions.len()];
        for (&i, row) in unsure.iter().zip(inner.iter()) {
            let each = row.iter().zip(&self.first_bias).zip(&self.second);
            let score: f32 = each.map(|((x, bias), w)| silu(x + bias) * w).sum();
            change[i] = sigmoid(score + self.second_bias);
        }
        Ok(change)
    }
}

fn silu(x: f32) -> f32 {
    x * sigmoid(x)
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dependency::feature::tests::opinions;

    fn head(features: Vec<Feature>, d: usize, inner: usize) -> Stability {
        let number = |i: usize| ((i * 37 + 11) % 23) as f32 / 23.0 - 0.5;
        let width = d + features.len();
        let weights = StabilityWeights {
            first: Rows { data: (0..width * inner).map(number).collect(), width: inner },
            first_bias: (0..inner).map(|i| number(i + 5)).collect(),
            second: (0..inner).map(|i| number(i + 9)).collect(),
            second_bias: -0.25,
        };
        Stability::new(HiddenRow::I, features, &weights, StabilityAbout::default()).unwrap()
    }

    #[test]
    fn equals_the_definition_and_leaves_the_sure_alone() {
        let head = head(vec![Feature::Top1, Feature::Kept], 4, 5);
        let hidden = Rows { data: (0..12).map(|i| i as f32 / 7.0 - 0.8).collect(), width: 4 };
        let got = head.change(&hidden, &opinions(), None, 0.9).unwrap();
        assert_eq!(got[1], 0.0);
        let StabilityWeights { first, first_bias, second, second_bias } = head.weights();
        for (i, kept) in [(0, 0.0), (2, 0.0)] {
            let mut input = hidden.row(i).to_vec();
            input.extend([opinions()[i].top1, kept]);
            let mut score = f64::from(second_bias);
            for unit in 0..5 {
                let mut sum = f64::from(first_bias[unit]);
                for (k, x) in input.iter().enumerate() {
                    sum += f64::from(*x) * f64::from(first.row(k)[unit]);
                }
                score += f64::from(second[unit]) * sum / (1.0 + (-sum).exp());
            }
            let expected = 1.0 / (1.0 + (-score).exp());
            assert!((f64::from(got[i]) - expected).abs() < 1e-5, "{} {expected}", got[i]);
        }
        let narrow = Rows::zeros(3, 3);
        assert!(head.change(&narrow, &opinions(), None, 0.9).unwrap_err().to_string().contains("width 4"));
    }

    #[test]
    fn weights_that_do_not_fit_are_refused() {
        let good = head(vec![Feature::Top1], 3, 2).weights();
        type Case = (&'static str, fn(&mut StabilityWeights));
        let cases: [Case; 3] = [
            ("second reads 1", |w| w.second.truncate(1)),
            ("no hidden row", |w| w.first.data.truncate(2)),
            ("not finite", |w| w.second_bias = f32::NAN),
        ];
        for (named, damage) in cases {
            let mut bad = good.clone();
            damage(&mut bad);
            let made = Stability::new(HiddenRow::I, vec![Feature::Top1], &bad, StabilityAbout::default());
            assert!(made.unwrap_err().to_string().contains(named), "{named}");
        }
    }
}
