//! The confidence that threshold rules compare: the probability of the sampled token, before or after the filters.

use crate::marginals::Marginal;
use crate::registry::{Kind, Param, Values};
use crate::strategy::Step;

/// The parameter that [`Confidence::of`] reads.
pub const SCORE: Param = Param {
    key: "score",
    default: "raw",
    kind: Kind::Choice(&["raw", "filtered"]),
    help: "probability of the sampled token in the model's distribution, or after temperature and filters",
};

/// Which probability of the sampled token is the confidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confidence {
    /// The model's own (the published LLaDA code).
    Raw,
    /// The sampler's, after temperature and filters (the published Dream code).
    Filtered,
}

impl Confidence {
    /// As `score` says.
    pub fn of(values: &Values<'_>) -> Self {
        if values.text("score") == "filtered" { Self::Filtered } else { Self::Raw }
    }

    /// Of one position.
    pub fn at(self, marginal: &Marginal) -> f32 {
        match self {
            Self::Raw => marginal.candidate.raw,
            Self::Filtered => marginal.candidate.probability,
        }
    }

    /// Of every masked position.
    pub fn all(self, step: &Step<'_>) -> Vec<f32> {
        step.marginals.iter().map(|m| self.at(m)).collect()
    }
}
