//! Extra forward passes: whole canvases, in batches bounded by a token budget.

use std::cell::Cell;

use demask_model::{Backbone, Query};

use crate::error::Result;
use crate::strategy::Probe;

/// Asks a backbone directly.
pub struct BackboneProbe<'a> {
    backbone: &'a dyn Backbone,
    token_budget: usize,
    asked: Cell<usize>,
}

impl<'a> BackboneProbe<'a> {
    /// At most `token_budget` rows are computed at a time (but at least one canvas).
    pub fn new(backbone: &'a dyn Backbone, token_budget: usize) -> Self {
        Self { backbone, token_budget, asked: Cell::new(0) }
    }

    /// Canvases asked about so far; each is one function evaluation.
    pub fn asked(&self) -> usize {
        self.asked.get()
    }
}

impl Probe for BackboneProbe<'_> {
    fn ask(
        &self,
        canvases: &[Vec<u32>],
        positions: &[usize],
        visit: &mut dyn FnMut(usize, usize, &mut [f32]),
    ) -> Result<()> {
        let longest = canvases.iter().map(Vec::len).max().unwrap_or(1).max(1);
        let group = (self.token_budget / longest).max(1);
        for (index, canvases) in canvases.chunks(group).enumerate() {
            let query = |tokens: &'_ Vec<u32>| Query { tokens, predict: positions, ..Query::default() };
            let mut batch: Vec<Query<'_>> = canvases.iter().map(query).collect();
            for (offset, pass) in self.backbone.forward(&mut batch)?.iter().enumerate() {
                let canvas = index * group + offset;
                self.backbone.logits(&pass.predicting, &mut |first, rows| visit(canvas, first, rows))?;
            }
            self.asked.set(self.asked.get() + canvases.len());
        }
        Ok(())
    }

    fn vocab(&self) -> usize {
        self.backbone.spec().vocab
    }
}
