//! Extra forward passes: whole canvases, in batches bounded by a token budget.

use std::cell::Cell;

use candle_core::Tensor;
use demask_model::{Backbone, Grid, HiddenRow, OnDevice, Query, Rows};

use crate::batch::fitting;
use crate::error::{Error, Result};

/// A canvas to run besides the one being decoded, and what is wanted of it.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The whole canvas.
    pub tokens: &'a [u32],
    /// Positions whose logits are wanted.
    pub predict: &'a [usize],
    /// Positions whose hidden rows are wanted, and which rows those are.
    pub hidden: Option<(&'a [usize], HiddenRow)>,
}

/// Extra forward passes within a step; each counts as a function evaluation.
pub trait Probe {
    /// Runs canvases of any lengths and visits the aligned logits of the positions asked for, which are numbered
    /// through all questions: number of the first row of the chunk, chunk `[rows, vocab]`. A chunk may span several
    /// canvases. Returns the hidden rows of each question.
    fn ask_each(
        &self,
        questions: &[Question<'_>],
        visit: &mut dyn FnMut(usize, &mut [f32]),
    ) -> Result<Vec<Option<Rows>>>;

    /// Size of the vocabulary.
    fn vocab(&self) -> usize;

    /// Runs a canvas with causal attention, so that each position is predicted from what stands before it, and visits the
    /// logits of `positions`: number of the first, chunk `[rows, vocab]`.
    fn ask_causally(
        &self,
        _tokens: &[u32],
        _positions: &[usize],
        _visit: &mut dyn FnMut(usize, &mut [f32]),
    ) -> Result<()> {
        Err(Error::Missing { strategy: "asked causally".into(), what: "a backbone that can be".into() })
    }

    /// Embeddings of tokens by the backbone's own table.
    fn embed(&self, _tokens: &[u32]) -> Result<Rows> {
        Err(Error::Missing {
            strategy: "reading embeddings".into(),
            what: "a backbone that gives them".into(),
        })
    }

    /// Logits of hidden rows by the backbone's own head.
    fn head(&self, _rows: &Rows) -> Result<Rows> {
        Err(Error::Missing { strategy: "using the head".into(), what: "a backbone that has one".into() })
    }

    /// The device that canvases run on, where their rows can stay there.
    fn device(&self) -> Option<&dyn OnDevice> {
        None
    }

    /// Runs canvases and visits the predicting rows of each where they are: number of the question, rows. Only where
    /// there is a [`Self::device`]. Returns the hidden rows of each question, on the host.
    fn ask_resident(
        &self,
        questions: &[Question<'_>],
        visit: &mut dyn FnMut(usize, &Tensor) -> Result<()>,
    ) -> Result<Vec<Option<Rows>>> {
        let _ = (questions, visit);
        Ok(Vec::new())
    }

    /// Runs whole canvases and visits the aligned logits of the same `positions` of each: canvas index, index of the
    /// first position of the chunk, chunk `[rows, vocab]`.
    fn ask(
        &self,
        canvases: &[Vec<u32>],
        positions: &[usize],
        visit: &mut dyn FnMut(usize, usize, &mut [f32]),
    ) -> Result<()> {
        let questions = canvases.iter().map(|tokens| Question { tokens, predict: positions, hidden: None });
        let questions: Vec<_> = questions.collect();
        self.ask_each(&questions, &mut |first, logits| {
            let (mut row, mut rest) = (first, logits);
            while !rest.is_empty() {
                let (canvas, index) = (row / positions.len(), row % positions.len());
                let end = ((positions.len() - index) * self.vocab()).min(rest.len());
                let (part, later) = std::mem::take(&mut rest).split_at_mut(end);
                visit(canvas, index, part);
                row += end / self.vocab();
                rest = later;
            }
        })?;
        Ok(())
    }
}

/// Asks a backbone directly.
pub struct BackboneProbe<'a> {
    backbone: &'a dyn Backbone,
    token_budget: usize,
    /// Blocks of block-causal attention; `None` is the model's usual.
    blocks: Option<Grid>,
    asked: Cell<usize>,
}

impl<'a> BackboneProbe<'a> {
    /// At most `token_budget` rows are computed at a time (but at least one canvas).
    pub fn new(backbone: &'a dyn Backbone, token_budget: usize) -> Self {
        Self { backbone, token_budget, blocks: None, asked: Cell::new(0) }
    }

    /// The same under block-causal attention with these blocks.
    pub fn in_blocks(self, blocks: Option<Grid>) -> Self {
        Self { blocks, ..self }
    }

    fn queries<'q>(&self, group: &[Question<'q>], resident: bool) -> Vec<Query<'q>> {
        let query = |q: &Question<'q>| Query {
            tokens: q.tokens,
            predict: q.predict,
            hidden: q.hidden,
            blocks: self.blocks,
            resident,
            ..Query::default()
        };
        group.iter().map(query).collect()
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
        if let Some(device) = self.device() {
            let mut first = 0;
            return self.ask_resident(questions, &mut |_, rows| {
                device.each_logits(rows, &mut |row, logits| {
                    visit(first + row, &mut device.fetch(&logits)?);
                    Ok(())
                })?;
                first += rows.dim(0).map_err(demask_model::Error::from)?;
                Ok(())
            });
        }
        let mut hidden = Vec::with_capacity(questions.len());
        let (mut rest, mut first) = (questions, 0);
        while !rest.is_empty() {
            let (group, later) =
                rest.split_at(fitting(rest.iter().map(|q| [q.tokens.len()]), [self.token_budget]));
            let mut batch = self.queries(group, false);
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

    fn embed(&self, tokens: &[u32]) -> Result<Rows> {
        Ok(self.backbone.embed(tokens)?)
    }

    fn head(&self, rows: &Rows) -> Result<Rows> {
        let mut logits = Rows { data: Vec::with_capacity(rows.len() * self.vocab()), width: self.vocab() };
        self.backbone.logits(rows, &mut |_, chunk| logits.data.extend_from_slice(chunk))?;
        Ok(logits)
    }

    fn ask_causally(
        &self,
        tokens: &[u32],
        positions: &[usize],
        visit: &mut dyn FnMut(usize, &mut [f32]),
    ) -> Result<()> {
        let causal = BackboneProbe::new(self.backbone, self.token_budget).in_blocks(Some(Grid::new(0, 1)));
        let question = Question { tokens, predict: positions, hidden: None };
        causal.ask_each(&[question], visit)?;
        self.asked.set(self.asked.get() + 1);
        Ok(())
    }

    fn device(&self) -> Option<&dyn OnDevice> {
        self.backbone.device()
    }

    fn ask_resident(
        &self,
        questions: &[Question<'_>],
        visit: &mut dyn FnMut(usize, &Tensor) -> Result<()>,
    ) -> Result<Vec<Option<Rows>>> {
        let Some(device) = self.device() else { return Ok(Vec::new()) };
        let mut hidden = Vec::with_capacity(questions.len());
        let mut rest = questions;
        while !rest.is_empty() {
            let (group, later) =
                rest.split_at(fitting(rest.iter().map(|q| [q.tokens.len()]), [self.token_budget]));
            for pass in self.backbone.forward(&mut self.queries(group, true))? {
                let number = hidden.len();
                let Some(resident) = pass.resident else { continue };
                let width = self.backbone.spec().hidden;
                let rows = resident.hidden.map(|rows| device.fetch(&rows)).transpose()?;
                hidden.push(rows.map(|data| Rows { data, width }));
                visit(number, &resident.predicting)?;
            }
            self.asked.set(self.asked.get() + group.len());
            rest = later;
        }
        Ok(hidden)
    }
}
