//! A look inside: one forward pass of a canvas, and the dependency matrix of its masks.

use demask_decode::Canvas;
use demask_decode::dependency::{Dependency, Opinion, Reveals};
use demask_decode::probe::BackboneProbe;
use demask_decode::rng::Rng;
use demask_model::{Query, Rows};

use crate::error::{Error, Result};
use crate::model::Model;

/// Tokens of revealed canvases that go through the backbone at once.
const MEASURED_TOGETHER: usize = 8192;

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
        self.forward_at(canvas.tokens(), &canvas.masked(canvas.response()))
    }

    /// One forward pass of any row of tokens, and what it predicts at `positions` (ascending), masked or not.
    pub fn forward_at(&self, tokens: &[u32], positions: &[usize]) -> Result<Forward> {
        self.check_positions(tokens, positions)?;
        let positions = positions.to_vec();
        let query = Query { tokens, predict: &positions, ..Query::default() };
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
        self.dependency_at(canvas.tokens(), &canvas.masked(canvas.response()))
    }

    /// The predictor's dependency matrix over masked `positions` (ascending) of any row of tokens.
    pub fn dependency_at(&self, tokens: &[u32], positions: &[usize]) -> Result<DependencyMap> {
        self.check_positions(tokens, positions)?;
        let Some(predictor) = self.predictor() else {
            return Err(Error::NoPredictor { path: self.text().source().to_owned() });
        };
        let positions = positions.to_vec();
        let hidden = Some((positions.as_slice(), predictor.metadata().hidden_row));
        let features = !predictor.metadata().features.is_empty();
        let predict = if features { positions.as_slice() } else { &[] };
        let query = Query { tokens, predict, hidden, ..Query::default() };
        let pass = self.backbone().forward(&mut [query])?.pop().unwrap_or_default();
        let mut opinions = Vec::with_capacity(predict.len());
        if features {
            self.backbone().logits(&pass.predicting, &mut |_, chunk| {
                let rows = chunk.chunks_exact(self.backbone().spec().vocab);
                opinions.extend(rows.map(|row| Opinion::of_logits(row, self.ids().mask)));
            })?;
        }
        let hidden = pass.hidden.unwrap_or_default();
        Ok(DependencyMap { matrix: predictor.predict(&hidden, &opinions)?, positions })
    }

    /// The dependency matrix as it is measured instead (section 4.3): every position is revealed alone, with tokens drawn
    /// from the model, and the total variation at the others is averaged over `draws` draws. Costs `1 + draws·|M|` passes.
    pub fn measured_dependency(
        &self,
        tokens: &[u32],
        positions: &[usize],
        draws: usize,
        seed: u64,
    ) -> Result<DependencyMap> {
        self.check_positions(tokens, positions)?;
        let probe = BackboneProbe::new(self.backbone(), MEASURED_TOGETHER);
        let base = Reveals::measure(&probe, tokens, positions)?;
        let (rng, size) = (Rng::new(seed, 0), positions.len());
        let mut mean = vec![0.0_f32; size * size];
        for draw in 0..draws.max(1) {
            let drawn = base.draw(rng, 0, draw as u64, self.ids().mask);
            let reveals = base.reveal(&probe, &drawn)?;
            mean.iter_mut().zip(reveals.data()).for_each(|(sum, d)| *sum += d / draws.max(1) as f32);
        }
        Ok(DependencyMap { positions: positions.to_vec(), matrix: Dependency::from_rows(mean, size) })
    }

    /// Refuses tokens and positions that no pass could be made of.
    pub(crate) fn check_positions(&self, tokens: &[u32], positions: &[usize]) -> Result<()> {
        let spec = self.backbone().spec();
        let refuse = |why: String| Err(Error::Decode(demask_decode::Error::Canvas(why)));
        if tokens.len() > spec.max_positions {
            return Err(Error::TextTooLong { tokens: tokens.len(), context: spec.max_positions });
        }
        if let Some(token) = tokens.iter().find(|&&t| t as usize >= spec.vocab) {
            return refuse(format!("token {token} is outside the vocabulary of {}", spec.vocab));
        }
        if positions.is_empty() || positions.windows(2).any(|pair| pair[0] >= pair[1]) {
            return refuse("positions must be ascending, at least one, and none twice".into());
        }
        match positions.last() {
            Some(&last) if last >= tokens.len() => {
                refuse(format!("position {last} is outside the {} tokens", tokens.len()))
            }
            _ if positions[0] == 0 && spec.shift.is_some() => Err(Error::NothingBefore),
            _ => Ok(()),
        }
    }
}
