//! What the next step of a canvas asks of the backbone: its block and masks, the positions to predict, the rows to
//! compute afresh, and the queries made of them.
//!
//! Invariant: planning moves nothing. Only a step that was committed does, so one that failed may be tried again.

use std::ops::Range;

use demask_model::config::Shift;
use demask_model::{Grid, Query, Reuse, Shadow, Spec};

use crate::blocks::Blocks;
use crate::cache::Moment;
use crate::canvas::{Canvas, Cell};
use crate::editing::Editing;
use crate::job::Job;
use crate::strategy::{BlockStep, Extent, Needs};

/// What a step asks of the backbone.
pub(crate) struct Plan {
    pub(crate) place: BlockStep,
    pub(crate) block: Range<usize>,
    /// How many of `predict` are masks.
    masks: usize,
    /// How many of `predict` the strategy sees.
    pub(crate) seen: usize,
    /// Positions to predict: the paper's `M`, then the others that the strategy wants to see, then those that may be edited.
    pub(crate) predict: Vec<usize>,
    /// The first position of a block, which is decided alone, whatever the strategy.
    pub(crate) alone: bool,
    /// Blocks of attention; `None` where every row sees every row.
    pub(crate) grid: Option<Grid>,
    /// Whether keys and values are kept.
    pub(crate) cached: bool,
    /// Positions whose hidden rows are wanted, if any.
    hidden: Vec<usize>,
    /// Where the canvas is cut off; its length where it is not.
    cut: usize,
    /// A mask that its own row predicts.
    pub(crate) own_row: Option<usize>,
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
        let blocks = Blocks::of(&job.canvas, job.options.block_length, spec);
        let (block, mut masked, place) = enter(job, &blocks);
        let needs = job.strategy.needs();
        let (canvas, length, grid) = (&job.canvas, job.canvas.tokens().len(), blocks.attention);
        // Decided from the last row of the block before, which must be final; the block itself is not yet run.
        let first = masked.first().copied().filter(|&p| p > 0 && grid.is_some_and(|g| g.start(p) == p));
        let alone = first.filter(|_| spec.shift == Shift::Block);
        let run = match (alone, grid) {
            (Some(first), Some(grid)) => grid.start(first - 1)..first,
            _ => block.clone(),
        };
        masked.truncate(if alone.is_some() { 1 } else { masked.len() });
        let cut =
            needs.lookahead.zip(masked.first()).map_or(length, |(cells, first)| (first + cells).min(length));
        masked.retain(|&p| p < cut);
        let last = run.end.saturating_sub(1);
        let extent = match grid {
            Some(grid) if needs.attention_layers == 0 => grid.end(last).min(length),
            _ => length,
        };
        let cache = job.cache.as_ref().filter(|cache| cache.applies(grid));
        let moment = Moment { canvas, block: &run, place, step: job.totals.steps, grid };
        let own_row = cache.and_then(|cache| cache.own_row(&moment));
        let rows = match cache {
            None => (0..extent.min(cut)).collect(),
            Some(cache) => {
                let row = |p: usize| if own_row == Some(p) { p } else { spec.predicting_row(p) };
                let predicting = masked.iter().map(|&p| row(p));
                let hidden = needs.hidden.iter().flat_map(|row| masked.iter().map(move |&p| row.of(p)));
                let needed: Vec<usize> = predicting.chain(hidden).collect();
                cache.plan(&moment, &needed)
            }
        };
        let rows: Vec<usize> = rows.into_iter().filter(|&r| r < cut).collect();
        // Of other positions there is an opinion only where their rows are computed.
        let fresh = |&p: &usize| rows.len() == length || rows.binary_search(&spec.predicting_row(p)).is_ok();
        let others = others(canvas, &block, needs).into_iter().filter(fresh);
        let (masks, mut predict): (_, Vec<usize>) =
            (masked.len(), masked.iter().copied().chain(others).collect());
        let seen = predict.len();
        if job.options.editing.is_some() && alone.is_none() {
            predict.extend(Editing::editable(canvas, block.clone()).iter().filter(|p| fresh(p)));
        }
        let committed = |&p: &usize| matches!(canvas.cells()[p], Cell::Committed { .. });
        let verify = block.clone().filter(|p| needs.verify && committed(p)).collect();
        let unconditional = (job.options.guidance != 0.0).then(|| unconditional(canvas));
        let (alone, cached) = (alone.is_some(), cache.is_some());
        let hidden = if needs.everywhere { (0..cut).collect() } else { predict[..masks].to_vec() };
        Self {
            place,
            block,
            masks,
            seen,
            predict,
            alone,
            grid,
            hidden,
            cut,
            own_row,
            cached,
            verify,
            rows,
            unconditional,
            needs,
        }
    }

    /// Positions that may be edited.
    pub(crate) fn editable(&self) -> &[usize] {
        &self.predict[self.seen..]
    }

    /// The paper's `M`.
    pub(crate) fn masked(&self) -> &[usize] {
        &self.predict[..self.masks]
    }

    /// The queries of the step: the canvas, and the unconditional one where guidance asks for it.
    /// Their rows stay on the backbone's device where it has one.
    pub(crate) fn queries<'a>(&'a self, job: &'a mut Job, resident: bool) -> impl Iterator<Item = Query<'a>> {
        let reuse = |cache| Reuse { cache, rows: self.rows.as_slice() };
        let (own, guide) = match job.cache.as_mut().filter(|_| self.cached) {
            None => (None, None),
            Some(cache) => (Some(reuse(&mut cache.rows)), Some(reuse(&mut cache.guide))),
        };
        let query = self.query(job.canvas.tokens(), own, resident);
        let guided = self.unconditional.as_ref().map(|tokens| Query {
            tokens,
            predict: &self.predict,
            cache: guide,
            blocks: self.grid,
            resident,
            ..Query::default()
        });
        std::iter::once(query).chain(guided)
    }

    /// The query of the canvas itself.
    pub(crate) fn query<'a>(
        &'a self,
        tokens: &'a [u32],
        cache: Option<Reuse<'a>>,
        resident: bool,
    ) -> Query<'a> {
        Query {
            tokens: &tokens[..self.cut],
            predict: &self.predict,
            hidden: self.needs.hidden.map(|row| (self.hidden.as_slice(), row)),
            attention_layers: self.needs.attention_layers,
            cache,
            shadow: (!self.verify.is_empty())
                .then(|| Shadow { block: self.block.clone(), verify: &self.verify }),
            blocks: self.grid,
            own_row: self.own_row,
            resident,
        }
    }

    /// Whether another step asks the same of the same tokens.
    pub(crate) fn asks_as(&self, other: &Self) -> bool {
        let asked = |plan: &Self| (plan.cut, plan.own_row, plan.needs, plan.block.clone(), plan.grid);
        asked(self) == asked(other)
            && self.predict == other.predict
            && self.hidden == other.hidden
            && self.verify == other.verify
            && self.rows == other.rows
    }
}

/// The left-most block that has masks and whose schedule is not over, the masks up to its end (its own, and any that an
/// earlier block's schedule left behind), and where the next step stands. A block that is still edited is not left.
fn enter(job: &Job, blocks: &Blocks) -> (Range<usize>, Vec<usize>, BlockStep) {
    let (canvas, response) = (&job.canvas, job.canvas.response());
    let first = canvas.masked(response.clone()).first().copied().unwrap_or(response.start);
    let index = if job.held { job.place.index } else { blocks.index(first).max(job.passed) };
    let block = blocks.range(index);
    let masked = canvas.masked(response.start..block.end);
    let place = if job.place.index == index {
        BlockStep { step: job.place.step + 1, ..job.place }
    } else {
        let entered_with = canvas.masked(block.clone()).len();
        let edited = job.options.editing.is_some();
        BlockStep { index, count: blocks.count(), step: 0, entered_with, length: blocks.length(), edited }
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
        Extent::Response => canvas.response(),
    };
    let is_wanted = |&p: &usize| match cells[p] {
        Cell::Masked => false,
        Cell::Fixed => matches!(needs.decided, Extent::Canvas | Extent::Response),
        _ => true,
    };
    canvas.masked(ahead).into_iter().chain(decided.filter(is_wanted)).collect()
}

/// The canvas with everything that was given masked.
fn unconditional(canvas: &Canvas) -> Vec<u32> {
    let hide = |(&token, cell): (&u32, &Cell)| if *cell == Cell::Fixed { canvas.ids().mask } else { token };
    canvas.tokens().iter().zip(canvas.cells()).map(hide).collect()
}
