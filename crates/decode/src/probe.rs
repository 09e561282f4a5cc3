//! Extra forward passes: whole canvases, in batches bounded by a token budget.

use std::cell::Cell;

use demask_model::{Backbone, Query, Rows};

use crate::error::Result;
use crate::strategy::{Probe, Question};

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
    fn ask_each(
        &self,
        questions: &[Question<'_>],
        visit: &mut dyn FnMut(usize, &mut [f32]),
    ) -> Result<Vec<Option<Rows>>> {
        let mut hidden = Vec::with_capacity(questions.len());
        let (mut rest, mut first) = (questions, 0);
        while !rest.is_empty() {
            let (group, later) = rest.split_at(fitting(rest, self.token_budget));
            let queries = group.iter().map(|q| Query {
                tokens: q.tokens,
                predict: q.predict,
                hidden: q.hidden,
                ..Query::default()
            });
            let mut batch: Vec<Query<'_>> = queries.collect();
            // The rows of all canvases together: short canvases still make one large product with the head.
            let mut predicting = Rows::default();
            for pass in self.backbone.forward(&mut batch)? {
                predicting.width = pass.predicting.width;
                predicting.data.extend_from_slice(&pass.predicting.data);
                hidden.push(pass.hidden);
            }
            self.backbone.logits(&predicting, &mut |row, logits| visit(first + row, logits))?;
            first += predicting.len();
            self.asked.set(self.asked.get() + group.len());
            rest = later;
        }
        Ok(hidden)
    }

    fn vocab(&self) -> usize {
        self.backbone.spec().vocab
    }
}

/// How many of the first questions fit the budget; at least one.
fn fitting(questions: &[Question<'_>], budget: usize) -> usize {
    let mut tokens = 0;
    let fits = questions.iter().take_while(|q| {
        tokens += q.tokens.len();
        tokens <= budget
    });
    fits.count().max(1)
}
