//! What a dependency predictor consists of, as it is trained and stored: heads, projection, mix, what
//! is known of it, and the stability head beside them.

use demask_model::{HiddenRow, Rows};

use crate::dependency::Measure;
use crate::dependency::feature::Feature;
use crate::dependency::stability::Stability;
use crate::error::{Error, Result};

/// How the heads' matrices become one.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Mix {
    /// The mean of the heads' sigmoids (one head: the paper).
    #[default]
    Mean,
    /// A learned convex combination.
    Weighted(Vec<f32>),
}

/// On which side of the backbone's final norm the hidden rows are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FinalNorm {
    /// Rows that went through the norm, as the head reads them.
    #[default]
    After,
    /// Rows of the residual stream itself.
    Before,
}

/// What a predictor's file says of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Metadata {
    /// Which hidden row stands for a position.
    pub hidden_row: HiddenRow,
    /// Before or after the final norm.
    pub final_norm: FinalNorm,
    /// Fingerprint of the backbone it was trained on.
    pub backbone: Option<String>,
    /// What it was trained on.
    pub trained_on: Option<String>,
    /// Validation MSE of the kept checkpoint.
    pub validation_mse: Option<f64>,
    /// What the best constant has on the same pairs.
    pub baseline_mse: Option<f64>,
    /// What it reads of a position besides its hidden row, after it in the row; nothing in the paper's.
    pub features: Vec<Feature>,
    /// What it predicts: total variation through a sigmoid, or a divergence through a softplus.
    pub measure: Measure,
}

impl Metadata {
    /// Nothing known but the hidden row; after the final norm.
    pub fn new(hidden_row: HiddenRow) -> Self {
        Self {
            hidden_row,
            final_norm: FinalNorm::After,
            backbone: None,
            trained_on: None,
            validation_mse: None,
            baseline_mse: None,
            features: Vec::new(),
            measure: Measure::TotalVariation,
        }
    }
}

/// A head's matrices, each `[in, out]` (a row per input: `q = h·W_Q`).
#[derive(Debug, Clone, PartialEq)]
pub enum Head {
    /// `W_Q` and `W_K`, as they are trained.
    Pair {
        /// `W_Q`.
        query: Rows,
        /// `W_K`.
        key: Rows,
    },
    /// `W = W_Q W_Kᵀ`.
    Merged(Rows),
}

/// The non-linearity inside a [`Projection`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// `max(x, 0)`.
    Relu,
    /// `x·σ(x)`.
    Silu,
}

impl Activation {
    /// Its value at `x`.
    pub fn apply(self, x: f32) -> f32 {
        match self {
            Self::Relu => x.max(0.0),
            Self::Silu => x / (1.0 + (-x).exp()),
        }
    }
}

/// Two layers between the hidden rows and the heads: `act(h·first)·second`.
#[derive(Debug, Clone, PartialEq)]
pub struct Projection {
    /// `[d, inner]`.
    pub first: Rows,
    /// `[inner, out]`.
    pub second: Rows,
    /// Between the two.
    pub activation: Activation,
}

/// Everything a predictor consists of, as it is trained and stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Parts {
    /// The heads of dependency; none where the stability head stands alone.
    pub heads: Vec<Head>,
    /// What comes before the heads, if anything.
    pub projection: Option<Projection>,
    /// How the heads become one matrix.
    pub mix: Mix,
    /// Factor of the scores before the sigmoid; `None` is the paper's `1/√d`, where `d` is the width
    /// of the rows the heads read.
    pub scale: Option<f32>,
    /// What is known of it.
    pub metadata: Metadata,
    /// The stability head, if there is one.
    pub stability: Option<Stability>,
}

impl Parts {
    /// The paper's predictor: one pair of `d×d` matrices, `[in, out]`.
    pub fn single(query: Rows, key: Rows, metadata: Metadata) -> Self {
        Self {
            heads: vec![Head::Pair { query, key }],
            projection: None,
            mix: Mix::Mean,
            scale: None,
            metadata,
            stability: None,
        }
    }

    /// A stability head alone.
    pub fn stable(head: Stability, metadata: Metadata) -> Self {
        let (heads, projection, mix, scale) = (Vec::new(), None, Mix::Mean, None);
        Self { heads, projection, mix, scale, metadata, stability: Some(head) }
    }

    /// Width of the backbone's hidden rows that it reads.
    pub fn width(&self) -> usize {
        let features = self.metadata.features.len();
        match (&self.projection, &self.stability) {
            (Some(projection), _) => projection.first.len().saturating_sub(features),
            (None, Some(alone)) if self.heads.is_empty() => alone.width(),
            _ => self.head_width().saturating_sub(features),
        }
    }

    /// Width of the rows the heads read.
    pub fn head_width(&self) -> usize {
        match self.heads.first() {
            Some(Head::Pair { query, .. }) => query.len(),
            Some(Head::Merged(w)) => w.len(),
            None => 0,
        }
    }

    /// Refuses parts that do not fit one another.
    pub fn check(&self) -> Result<()> {
        let refuse = |problem: String| {
            Err(Error::Predictor(format!("the predictor does not fit together: {problem}")))
        };
        let width = self.head_width();
        if let Some(feature) =
            self.metadata.features.iter().find(|feature| !Feature::OF_MARGINALS.contains(feature))
        {
            return refuse(format!("it cannot read {:?}", feature.name()));
        }
        if !self.heads.is_empty() && self.width() == 0 {
            return refuse("nothing is left for the hidden row beside its features".into());
        }
        if let Some(head) = &self.stability {
            if head.width() != self.width() || head.hidden_row() != self.metadata.hidden_row {
                return refuse(format!(
                    "the stability head does not read hidden rows of width {}",
                    self.width()
                ));
            }
            if self.heads.is_empty() {
                return match head.reads_dependency() || self.projection.is_some() {
                    true => refuse("the stability head reads dependencies, and nothing predicts them".into()),
                    false => Ok(()),
                };
            }
        }
        if width == 0 {
            return refuse("it has no head".into());
        }
        for (index, head) in self.heads.iter().enumerate() {
            let fits = match head {
                Head::Pair { query, key } => {
                    query.len() == width
                        && key.len() == width
                        && query.width == key.width
                        && full(query)
                        && full(key)
                }
                Head::Merged(w) => w.len() == width && w.width == width && full(w),
            };
            if !fits {
                return refuse(format!("head {index} does not read rows of width {width}"));
            }
        }
        if let Some(Projection { first, second, .. }) = &self.projection
            && (!full(first) || !full(second) || first.width != second.len() || second.width != width)
        {
            return refuse(format!(
                "the projection maps {} → {} and {} → {}, the heads read {width}",
                first.len(),
                first.width,
                second.len(),
                second.width
            ));
        }
        if let Mix::Weighted(weights) = &self.mix {
            let sum: f32 = weights.iter().sum();
            if weights.len() != self.heads.len()
                || weights.iter().any(|w| w.is_nan() || *w < 0.0)
                || (sum - 1.0).abs() > 1e-3
            {
                return refuse(format!(
                    "{} heads are mixed with weights {weights:?}, which must sum to 1",
                    self.heads.len()
                ));
            }
        }
        if self.scale.is_some_and(|s| !(s.is_finite() && s > 0.0)) {
            return refuse(format!("its scale is {:?}", self.scale));
        }
        if self.matrices().any(|m| m.data.iter().any(|v| !v.is_finite())) {
            return refuse("a matrix holds a value that is not finite".into());
        }
        Ok(())
    }

    fn matrices(&self) -> impl Iterator<Item = &Rows> {
        let heads = self.heads.iter().flat_map(|head| match head {
            Head::Pair { query, key } => vec![query, key],
            Head::Merged(w) => vec![w],
        });
        heads.chain(self.projection.iter().flat_map(|p| [&p.first, &p.second]))
    }
}

fn full(matrix: &Rows) -> bool {
    matrix.width > 0 && !matrix.data.is_empty() && matrix.data.len().is_multiple_of(matrix.width)
}
