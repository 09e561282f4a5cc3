//! Pairwise dependency between masked positions (eq. 4 of the paper): how much revealing position j
//! is expected to change the distribution at position i, in total variation.
//!
//! Two sources: the learned [`Predictor`] (one product over hidden rows) and the [`Oracle`] (reveal
//! and measure). The oracle also makes the TV cache and checks sub-additivity. In the predictor's file
//! lies the [`Stability`] head, which tells which positions had better wait for what is sure.

mod beside;
mod feature;
mod file;
mod names;
mod on_device;
mod oracle;
mod parts;
mod predictor;
mod reading;
mod stability;
mod stability_file;

use demask_model::HiddenRow;

use crate::error::Result;
use crate::strategy::Step;

pub use beside::{Calibrated, Candidates, Choice, PassedOver, file_names};
pub use feature::{Feature, Opinion, features};
pub use file::{FILE_NAME, Layout, Understanding};
pub use oracle::{Draws, Masked, Measure, Oracle, Reveals, Set};
pub use parts::{Activation, FinalNorm, Head, Metadata, Mix, Parts, Projection};
pub use predictor::{Predictor, softplus};
pub use stability::{Stability, StabilityAbout, StabilityWeights};

/// Something that tells the dependency matrix of a step.
pub trait DependencySource: Send + Sync {
    /// Hidden rows it reads, if any.
    fn hidden_row(&self) -> Option<HiddenRow>;

    /// Whether it reads them where they were computed ([`Step::resident`]).
    fn takes_resident(&self) -> bool {
        false
    }

    /// `D` over `step.masked`.
    fn dependency(&self, step: &Step<'_>) -> Result<Dependency>;

    /// Tells it from others of its kind in records, where it can be told.
    fn identity(&self) -> Option<String> {
        None
    }
}

/// A `|M|×|M|` matrix: row = the position affected, column = the position revealed, zero diagonal.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Dependency {
    data: Vec<f32>,
    size: usize,
}

impl Dependency {
    /// From row-major content.
    ///
    /// # Panics
    /// If the content is not square.
    pub fn from_rows(data: Vec<f32>, size: usize) -> Self {
        assert_eq!(data.len(), size * size, "a dependency matrix is square");
        Self { data, size }
    }

    /// Number of positions.
    pub fn len(&self) -> usize {
        self.size
    }

    /// Whether there is no position.
    pub fn is_empty(&self) -> bool {
        self.size == 0
    }

    /// `D[affected, revealed]`.
    pub fn on(&self, affected: usize, revealed: usize) -> f32 {
        self.data[affected * self.size + revealed]
    }

    /// Row-major content.
    pub fn data(&self) -> &[f32] {
        &self.data
    }
}
