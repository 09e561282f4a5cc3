//! What a pass reads: which experts its rows chose, and the bytes of all weights it touches. How many bytes a second this
//! machine can read is `bandwidth`'s.

use std::collections::BTreeSet;

use anyhow::Result;
use demask::model::layer::{Choice, Use, Watch};
use demask::model::{Precision, Query, Spec, Transformer, arch};

use super::model::Canvas;

/// The experts of a pass.
#[derive(Debug, Default)]
pub(super) struct Touched(BTreeSet<(usize, u32)>);

impl Watch for Touched {
    fn chose(&mut self, layer: usize, choice: &Choice) {
        self.0.extend(choice.experts.iter().map(|&expert| (layer, expert)));
    }
}

impl Touched {
    /// Of one pass over some canvases.
    pub(super) fn by(model: &Transformer, canvases: &[Canvas]) -> Result<Self> {
        let query = |c: &'_ Canvas| (c.tokens.clone(), c.masked.clone());
        let parts: Vec<_> = canvases.iter().map(query).collect();
        let mut batch: Vec<Query<'_>> =
            parts.iter().map(|(tokens, predict)| Query { tokens, predict, ..Query::default() }).collect();
        let mut touched = Self::default();
        model.forward_watched(&mut batch, &mut touched)?;
        Ok(touched)
    }

    /// How many experts, in all layers together.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// Bytes of all weights that the pass reads, the head included and the embedding table not.
    pub(super) fn bytes(&self, spec: &Spec, precision: Precision) -> Result<f64> {
        let mut sum = 0.0;
        for parameter in arch::parameters(spec)? {
            let expert =
                parameter.expert.zip(parameter.layer).map(|((index, _), layer)| (layer, index as u32));
            let read = expert.is_none_or(|expert| self.0.contains(&expert));
            let per = match (precision, precision.packing(&parameter)) {
                (Precision::Float(dtype), _) => dtype.size() as f64,
                (_, Some(packing)) => packing.size(),
                (_, None) => 4.0,
            };
            if read && parameter.kind != (Use::Table { tied: false }) {
                sum += parameter.elements() as f64 * per;
            }
        }
        Ok(sum)
    }
}
