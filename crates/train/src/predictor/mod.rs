//! The dependency predictor while it is trained (section 4.3): one or more heads `σ(X W_Q (X W_K)ᵀ / √w)` over hidden
//! rows, optionally projected by two layers first.
//!
//! Parameters are one flat vector: the projection's two matrices, then `W_Q`, `W_K` of every head (all `[in, out]`),
//! then the logits of the mix.

mod composed;
mod gradient;

use std::ops::Range;

use demask_decode::dependency::{Activation, Feature, Head, Measure, Metadata, Mix, Parts, Projection};
use demask_decode::rng::{Purpose, Rng};
use demask_model::Rows;
use serde::{Deserialize, Serialize};

pub use composed::Computed;

use crate::error::{Error, Result};

/// How the heads' matrices become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MixRule {
    /// The mean of the sigmoids.
    #[default]
    Mean,
    /// A learned convex combination.
    Learned,
}

/// The non-linearity of a projection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Nonlinearity {
    /// `max(x, 0)`.
    Relu,
    /// `x·σ(x)`.
    #[default]
    Silu,
}

impl Nonlinearity {
    fn activation(self) -> Activation {
        match self {
            Self::Relu => Activation::Relu,
            Self::Silu => Activation::Silu,
        }
    }

    fn slope(self, x: f32) -> f32 {
        match self {
            Self::Relu => f32::from(u8::from(x > 0.0)),
            Self::Silu => {
                let s = 1.0 / (1.0 + (-x).exp());
                s * (1.0 + x * (1.0 - s))
            }
        }
    }
}

/// Two layers between the hidden rows and the heads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProjectionShape {
    /// Width between the layers.
    pub inner: usize,
    /// Width after them, which the heads read.
    pub out: usize,
    /// Between the layers.
    #[serde(default)]
    pub nonlinearity: Nonlinearity,
}

/// The variants of the predictor; the default is the paper's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Architecture {
    /// Heads.
    pub heads: usize,
    /// How they are combined.
    pub mix: MixRule,
    /// Columns of `W_Q` and `W_K`; 0 makes them square.
    pub rank: usize,
    /// Layers before the heads.
    pub projection: Option<ProjectionShape>,
    /// Whether it reads, besides hidden rows, how sure the model is of each position.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub marginals: bool,
}

impl Architecture {
    /// What it reads of a position besides its hidden row.
    pub fn features(&self) -> &'static [Feature] {
        if self.marginals { &Feature::OF_MARGINALS } else { &[] }
    }
}

impl Default for Architecture {
    fn default() -> Self {
        Self { heads: 1, mix: MixRule::Mean, rank: 0, projection: None, marginals: false }
    }
}

/// An architecture over hidden rows of one width: where each matrix lies in the flat vector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    /// Width of the rows it reads: hidden row, then features.
    d: usize,
    architecture: Architecture,
    /// Width of the rows the heads read.
    width: usize,
    rank: usize,
    /// What it predicts, which says what its scores end in.
    measure: Measure,
}

/// Hidden rows and measured matrices of several examples.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Batch {
    /// Rows of all examples, `[Σ|M|, d]`, with features after the hidden rows where there are any.
    pub hidden: Vec<f32>,
    /// `|M|` of each example.
    pub sizes: Vec<usize>,
    /// `D(y)` of each example, one after another.
    pub targets: Vec<f32>,
}

/// Squared error summed over off-diagonal pairs.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SquaredError {
    /// The sum.
    pub sum: f64,
    /// The pairs.
    pub pairs: u64,
}

impl SquaredError {
    /// Eq. 6.
    pub fn mean(&self) -> f64 {
        self.sum / self.pairs.max(1) as f64
    }
}

impl std::ops::AddAssign for SquaredError {
    fn add_assign(&mut self, other: Self) {
        self.sum += other.sum;
        self.pairs += other.pairs;
    }
}

impl Batch {
    /// Adds an example.
    ///
    /// # Panics
    /// If the matrix is not `size × size`.
    pub fn push(&mut self, hidden: &[f32], dependency: &[f32], size: usize) {
        assert_eq!(dependency.len(), size * size, "a dependency matrix is square");
        self.hidden.extend_from_slice(hidden);
        self.targets.extend_from_slice(dependency);
        self.sizes.push(size);
    }

    /// Off-diagonal pairs.
    pub fn pairs(&self) -> u64 {
        self.sizes.iter().map(|&size| (size * size.saturating_sub(1)) as u64).sum()
    }

    /// Rows of all examples.
    fn rows(&self) -> usize {
        self.sizes.iter().sum()
    }

    /// Entries of each matrix.
    fn squares(&self) -> Vec<usize> {
        self.sizes.iter().map(|size| size * size).collect()
    }
}

impl Model {
    /// Over hidden rows of width `d`; refuses an architecture without parameters.
    pub fn new(d: usize, architecture: Architecture) -> Result<Self> {
        let refuse = |name, allowed| Err(Error::Setting { name, value: "0".into(), allowed });
        if architecture.heads == 0 {
            return refuse("the number of heads", "at least 1");
        }
        if architecture.projection.is_some_and(|p| p.inner == 0 || p.out == 0) {
            return refuse("the width of a projection", "at least 1");
        }
        let d = d + architecture.features().len();
        let width = architecture.projection.map_or(d, |p| p.out);
        let rank = if architecture.rank == 0 { width } else { architecture.rank };
        Ok(Self { d, architecture, width, rank, measure: Measure::TotalVariation })
    }

    /// The same, predicting something else: through a sigmoid total variation, through a softplus a divergence.
    #[must_use]
    pub fn predicting(self, measure: Measure) -> Self {
        Self { measure, ..self }
    }

    /// Number of parameters.
    pub fn len(&self) -> usize {
        self.mix().end
    }

    /// Whether there is none; there always is one.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Parameters that weight decay applies to: the matrices.
    pub fn matrices(&self) -> Range<usize> {
        0..self.mix().start
    }

    /// Starting values: uniform within ±1/√inputs, as a linear layer usually begins.
    pub fn initial(&self, seed: u64) -> Vec<f32> {
        let rng = Rng::new(seed, 0);
        let mut values = vec![0.0; self.len()];
        let mut fill = |range: Range<usize>, inputs: usize| {
            let bound = 1.0 / (inputs as f64).sqrt();
            for index in range {
                values[index] = ((2.0 * rng.uniform(Purpose::Token, 0, index as u64) - 1.0) * bound) as f32;
            }
        };
        if let Some((first, second)) = self.projection() {
            fill(first, self.d);
            fill(second, self.architecture.projection.map_or(1, |p| p.inner));
        }
        for head in 0..self.architecture.heads {
            let (query, key) = self.head(head);
            fill(query, self.width);
            fill(key, self.width);
        }
        values
    }

    /// The parameters as a predictor to be saved and used.
    pub fn parts(&self, parameters: &[f32], metadata: Metadata) -> Parts {
        let rows = |range: Range<usize>, width: usize| Rows { data: parameters[range].to_vec(), width };
        let head = |index| {
            let (query, key) = self.head(index);
            Head::Pair { query: rows(query, self.rank), key: rows(key, self.rank) }
        };
        let projection =
            self.projection().zip(self.architecture.projection).map(|((first, second), shape)| Projection {
                first: rows(first, shape.inner),
                second: rows(second, shape.out),
                activation: shape.nonlinearity.activation(),
            });
        let mix = match self.architecture.mix {
            MixRule::Mean => Mix::Mean,
            MixRule::Learned => Mix::Weighted(self.weights(parameters)),
        };
        Parts {
            heads: (0..self.architecture.heads).map(head).collect(),
            projection,
            mix,
            scale: None,
            metadata: Metadata { features: self.architecture.features().to_vec(), ..metadata },
            stability: None,
        }
    }

    /// Weights of the heads, summing to one.
    fn weights(&self, parameters: &[f32]) -> Vec<f32> {
        let heads = self.architecture.heads;
        match self.architecture.mix {
            MixRule::Mean => vec![1.0 / heads as f32; heads],
            MixRule::Learned => {
                let logits = &parameters[self.mix()];
                let top = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                let exp: Vec<f64> = logits.iter().map(|&l| f64::from(l - top).exp()).collect();
                let sum: f64 = exp.iter().sum();
                exp.iter().map(|e| (e / sum) as f32).collect()
            }
        }
    }

    fn projection(&self) -> Option<(Range<usize>, Range<usize>)> {
        let shape = self.architecture.projection?;
        let middle = self.d * shape.inner;
        Some((0..middle, middle..middle + shape.inner * shape.out))
    }

    fn head(&self, index: usize) -> (Range<usize>, Range<usize>) {
        let size = self.width * self.rank;
        let start = self.projection().map_or(0, |(_, second)| second.end) + 2 * index * size;
        (start..start + size, start + size..start + 2 * size)
    }

    fn mix(&self) -> Range<usize> {
        let start = self.head(self.architecture.heads - 1).1.end;
        let count = if self.architecture.mix == MixRule::Learned { self.architecture.heads } else { 0 };
        start..start + count
    }
}

#[cfg(test)]
mod tests;
