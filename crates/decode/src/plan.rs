//! What the next step of a canvas asks of the backbone: its block and masks, the positions to predict, the rows to
//! compute afresh, and the queries made of them.
//!
//! Invariant: planning moves nothing. Only a step that was committed does, so one that failed may be tried again.

use std::ops::Range;

use demask_model::{Query, Reuse, Shadow, Spec};

use crate::cache::Moment;
use crate::canvas::{Canvas, Cell};
use crate::job::Job;
use crate::strategy::{BlockStep, Extent, Needs};

/// What a step asks of the backbone.
pub(crate) struct Plan {
    pub(crate) place: BlockStep,
    pub(crate) block: Range<usize>,
    /// How many of `predict` are masks.
    masks: usize,
    /// Positions to predict: the paper's `M`, then the others that the strategy wants to see.
    pub(crate) predict: Vec<usize>,
    /// Committed positions of the block that the strategy wants to verify.
    pub(crate) verify: Vec<usize>,
    /// Rows computed afresh; all of them without a cache.
    pub(crate) rows: Vec<usize>,
    /// The canvas with everything that was given masked, where guidance asks for it.
    pub(crate) unconditional: Option<Vec<u32>>,
    needs: Needs,
}

impl Plan {
    /// Of the job's next step, on a backbone of this shape.
    pub(crate) fn of(job: &Job, spec: &Spec) -> Self {
        let (block, masked, place) = enter(job);
        let needs = job.strategy.needs();
        let (canvas, length) = (&job.canvas, job.canvas.tokens().len());
        let rows = match &job.cache {
            None => (0..length).collect(),
            Some(cache) => {
                let predicting = masked.iter().map(|&p| spec.predicting_row(p));
                let hidden = needs.hidden.iter().flat_map(|row| masked.iter().map(move |&p| row.of(p)));
                let needed: Vec<usize> = predicting.chain(hidden).collect();
                cache.plan(&Moment { canvas, block: &block, place, step: job.totals.steps }, &needed)
            }
        };
        // Of other positions there is an opinion only where their rows are computed.
        let fresh = |&p: &usize| rows.len() == length || rows.binary_search(&spec.predicting_row(p)).is_ok();
        let others = others(canvas, &block, needs).into_iter().filter(fresh);
        let (masks, predict) = (masked.len(), masked.iter().copied().chain(others).collect());
        let committed = |&p: &usize| matches!(canvas.cells()[p], Cell::Committed { .. });
        let verify = block.clone().filter(|p| needs.verify && committed(p)).collect();
        let unconditional = (job.options.guidance != 0.0).then(|| unconditional(canvas));
        Self { place, block, masks, predict, verify, rows, unconditional, needs }
    }

    /// The paper's `M`.
    pub(crate) fn masked(&self) -> &[usize] {
        &self.predict[..self.masks]
    }

    /// The queries of the step: the canvas, and the unconditional one where guidance asks for it.
    pub(crate) fn queries<'a>(&'a self, job: &'a mut Job) -> impl Iterator<Item = Query<'a>> {
        let reuse = |cache| Reuse { cache, rows: self.rows.as_slice() };
        let (own, guide) = match &mut job.cache {
            None => (None, None),
            Some(cache) => (Some(reuse(&mut cache.rows)), Some(reuse(&mut cache.guide))),
        };
        let query = Query {
            tokens: job.canvas.tokens(),
            predict: &self.predict,
            hidden: self.needs.hidden.map(|row| (self.masked(), row)),
            attention_layers: self.needs.attention_layers,
            cache: own,
            shadow: (!self.verify.is_empty())
                .then(|| Shadow { block: self.block.clone(), verify: &self.verify }),
        };
        let guided = self.unconditional.as_ref().map(|tokens| Query {
            tokens,
            predict: &self.predict,
            cache: guide,
            ..Query::default()
        });
        std::iter::once(query).chain(guided)
    }
}

/// The left-most block that has masks and whose schedule is not over, the masks up to its end (its own, and any that an
/// earlier block's schedule left behind), and where the next step stands.
fn enter(job: &Job) -> (Range<usize>, Vec<usize>, BlockStep) {
    let (canvas, response) = (&job.canvas, job.canvas.response());
    let length = job.options.block_length.unwrap_or(response.len());
    let first = canvas.masked(response.clone()).first().copied().unwrap_or(response.start);
    let index = ((first - response.start) / length).max(job.passed);
    let start = response.start + index * length;
    let block = start..(start + length).min(response.end);
    let masked = canvas.masked(response.start..block.end);
    let place = if job.place.index == index {
        BlockStep { step: job.place.step + 1, ..job.place }
    } else {
        let entered_with = canvas.masked(block.clone()).len();
        BlockStep { index, step: 0, entered_with, ..job.place }
    };
    (block, masked, place)
}

/// Positions besides the masks of the block that the strategy wants the model's opinion of.
fn others(canvas: &Canvas, block: &Range<usize>, needs: Needs) -> Vec<usize> {
    let cells = canvas.cells();
    let ahead = if needs.ahead { block.end..canvas.response().end } else { 0..0 };
    let decided = match needs.decided {
        Extent::Nothing => 0..0,
        Extent::Block => block.clone(),
        Extent::Canvas => 0..block.end,
    };
    let is_wanted = |&p: &usize| match cells[p] {
        Cell::Masked => false,
        Cell::Fixed => needs.decided == Extent::Canvas,
        _ => true,
    };
    canvas.masked(ahead).into_iter().chain(decided.filter(is_wanted)).collect()
}

/// The canvas with everything that was given masked.
fn unconditional(canvas: &Canvas) -> Vec<u32> {
    let hide = |(&token, cell): (&u32, &Cell)| if *cell == Cell::Fixed { canvas.ids().mask } else { token };
    canvas.tokens().iter().zip(canvas.cells()).map(hide).collect()
}
