//! A look inside: one forward pass of a canvas, and the dependency matrix of its masks.

use demask_decode::Canvas;
use demask_decode::dependency::Dependency;
use demask_model::{Query, Rows};

use crate::error::{Error, Result};
use crate::model::Model;

/// What one forward pass says of the masked positions.
#[derive(Debug, Clone, PartialEq)]
pub struct Forward {
    /// The masked positions, ascending: the paper's `M`.
    pub positions: Vec<usize>,
    /// The hidden row that predicts each of them, after the final norm `[|M|, d]`.
    pub hidden: Rows,
    /// Its logits `[|M|, V]`, as the model gives them (nothing suppressed).
    pub logits: Rows,
}

/// How much revealing one masked position is predicted to change another (eq. 6 of the paper).
#[derive(Debug, Clone, PartialEq)]
pub struct DependencyMap {
    /// The masked positions, ascending.
    pub positions: Vec<usize>,
    /// `D̂` over them: row = the position affected, column = the position revealed.
    pub matrix: Dependency,
}

impl Model {
    /// One forward pass.
    ///
    /// ```
    /// use demask_engine::{Decoding, Model, Prompt};
    ///
    /// let model = Model::embedded()?;
    /// let prompt = model.encode(&Prompt::from("Say hello."))?;
    /// let canvas = model.canvas(&prompt, &Decoding { length: Some(8), ..Decoding::default() })?;
    /// let pass = model.forward(&canvas)?;
    /// assert_eq!((pass.logits.len(), pass.logits.width), (8, model.text().spec().vocab));
    /// # Ok::<(), demask_engine::Error>(())
    /// ```
    pub fn forward(&self, canvas: &Canvas) -> Result<Forward> {
        let positions = canvas.masked(canvas.response());
        let query = Query { tokens: canvas.tokens(), predict: &positions, ..Query::default() };
        let pass = self.backbone().forward(&mut [query])?.pop();
        let hidden = pass.map(|pass| pass.predicting).unwrap_or_default();
        let mut logits = Rows::zeros(positions.len(), self.backbone().spec().vocab);
        let width = logits.width;
        self.backbone().logits(&hidden, &mut |row, chunk| {
            logits.data[row * width..][..chunk.len()].copy_from_slice(chunk);
        })?;
        Ok(Forward { positions, hidden, logits })
    }

    /// The predictor's dependency matrix over the masked positions.
    pub fn dependency(&self, canvas: &Canvas) -> Result<DependencyMap> {
        let Some(predictor) = self.predictor() else {
            return Err(Error::NoPredictor { path: self.text().source().to_owned() });
        };
        let positions = canvas.masked(canvas.response());
        let hidden = Some((positions.as_slice(), predictor.metadata().hidden_row));
        let query = Query { tokens: canvas.tokens(), hidden, ..Query::default() };
        let pass = self.backbone().forward(&mut [query])?.pop();
        let hidden = pass.and_then(|pass| pass.hidden).unwrap_or_default();
        Ok(DependencyMap { matrix: predictor.predict(&hidden), positions })
    }
}
