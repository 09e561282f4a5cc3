//! Reuse of keys and values between the steps of one canvas: which rows a step computes afresh. A policy is
//! data, spelled like a strategy (`dual`, `vicinity:before=8`), and works with any of them.
//!
//! Invariants: the rows a step needs (those that predict its masks, and their hidden rows) are always among
//! the fresh ones; a policy that recomputes everything in every step gives the exact decoding, bit for bit.
//!
//! Quirk of Fast-dLLM's code for shifted models, not kept: the row before the block predicts the block's first
//! token, and the reference commits that token from the pass at block entry, sure or not; here that row is
//! recomputed with the block.

mod policy;
mod prefix;

use std::ops::Range;

use demask_model::{Grid, KvCache, Rows};

use crate::canvas::{Canvas, Cell};
use crate::strategy::BlockStep;

pub use policy::{ALL, CachePolicy, CacheSpec, Caches, Entry, Reach, find};
pub use prefix::Prefixes;

/// The cache of one canvas.
#[derive(Debug)]
pub struct RowCache {
    policy: CachePolicy,
    /// Keys and values of the canvas.
    pub(crate) rows: KvCache,
    /// Those of the unconditional pass, where guidance is on.
    pub(crate) guide: KvCache,
    /// The token every row was last computed with.
    tokens: Vec<u32>,
    /// Steps since every row was computed.
    age: usize,
    /// Attention of every row when it was last computed, where a strategy asks for it.
    attention: Option<Rows>,
}

/// Where a canvas stands when its next step is planned.
#[derive(Debug, Clone, Copy)]
pub struct Moment<'a> {
    /// The canvas.
    pub canvas: &'a Canvas,
    /// The block being decoded.
    pub block: &'a Range<usize>,
    /// Its place in the sequence of blocks.
    pub place: BlockStep,
    /// Number of the step, from 0.
    pub step: usize,
    /// Blocks of attention; `None` where every row sees every row.
    pub grid: Option<Grid>,
}

impl RowCache {
    /// An empty cache under a policy.
    pub fn new(policy: CachePolicy) -> Self {
        Self {
            policy,
            rows: KvCache::new(),
            guide: KvCache::new(),
            tokens: Vec::new(),
            age: 0,
            attention: None,
        }
    }

    /// Whether it keeps anything on a model with these blocks of attention.
    pub(crate) fn applies(&self, grid: Option<Grid>) -> bool {
        grid.is_some() || self.policy.reach != Reach::Blocks
    }

    /// Rows that the next step computes afresh, ascending; `needed` are among them.
    pub fn plan(&self, at: &Moment<'_>, needed: &[usize]) -> Vec<usize> {
        if self.policy.reach == Reach::Blocks {
            let mut rows = self.unfinished(at);
            rows.extend_from_slice(needed);
            rows.sort_unstable();
            rows.dedup();
            return rows;
        }
        if self.is_due(at) && !matches!(self.policy.reach, Reach::Trailing { .. }) {
            return (0..at.canvas.tokens().len()).collect();
        }
        let mut rows = self.reached(at);
        rows.extend_from_slice(needed);
        rows.sort_unstable();
        rows.dedup();
        rows
    }

    /// Notes a pass over these rows of the canvas; one that failed is not noted and is planned again.
    pub fn computed(&mut self, rows: &[usize], tokens: &[u32]) {
        if matches!(self.policy.reach, Reach::Trailing { .. }) {
            // What lies before the window is settled for ever, whatever token it was computed with.
            self.tokens = tokens[..rows.last().map_or(0, |last| last + 1)].to_vec();
        } else if self.policy.reach == Reach::Blocks {
            let end = rows.last().map_or(0, |last| last + 1);
            self.tokens.truncate(end);
            self.tokens.resize(end, u32::MAX);
            rows.iter().for_each(|&row| self.tokens[row] = tokens[row]);
        } else if rows.len() == tokens.len() {
            self.age = 0;
            self.tokens = tokens.to_vec();
        } else {
            self.age += 1;
            rows.iter().for_each(|&row| self.tokens[row] = tokens[row]);
        }
    }

    /// Whether every row is to be computed.
    fn is_due(&self, at: &Moment<'_>) -> bool {
        let policy = &self.policy;
        self.tokens.len() != at.canvas.tokens().len()
            || (policy.on_entry && at.place.step == 0)
            || at.step < policy.warmup
            || (policy.refresh > 0 && self.age + 1 >= policy.refresh)
    }

    /// Rows the policy recomputes between two passes over everything.
    fn reached(&self, at: &Moment<'_>) -> Vec<usize> {
        let (tokens, cells) = (at.canvas.tokens(), at.canvas.cells());
        match self.policy.reach {
            Reach::Blocks => self.unfinished(at),
            Reach::Trailing { window } => (self.window_start(tokens, window)..tokens.len()).collect(),
            Reach::Suffix => (at.block.start..tokens.len()).collect(),
            Reach::Window { before, after } => {
                let end = at.block.end.saturating_add(after).min(tokens.len());
                (at.block.start.saturating_sub(before)..end).collect()
            }
            Reach::Unsettled => {
                let unsettled = |&r: &usize| cells[r] == Cell::Masked || self.tokens[r] != tokens[r];
                (0..tokens.len()).filter(unsettled).collect()
            }
        }
    }

    /// The first row of a trailing window. What the last step decided begins where the tokens first differ; rows never
    /// computed follow those kept.
    fn window_start(&self, tokens: &[u32], window: usize) -> usize {
        let changed = |r: &usize| self.tokens[*r] != tokens[*r];
        let first = (0..self.tokens.len()).find(changed).unwrap_or(self.tokens.len());
        (first + 1).saturating_sub(window).min(self.tokens.len())
    }

    /// A mask that begins the rows of the next step, where nothing before it may be computed again: a trailing window of 0
    /// after a step that decided one token. The row before it would predict it on a shifted model; the published code
    /// takes its own.
    pub(crate) fn own_row(&self, at: &Moment<'_>) -> Option<usize> {
        let Reach::Trailing { window: 0 } = self.policy.reach else { return None };
        let start = self.window_start(at.canvas.tokens(), 0);
        (!self.tokens.is_empty() && at.canvas.cells().get(start) == Some(&Cell::Masked)).then_some(start)
    }

    /// The block, and before it whatever changed since it was computed with all that follows: a finished block is computed
    /// once with its final tokens, in the pass that opens the next.
    fn unfinished(&self, at: &Moment<'_>) -> Vec<usize> {
        let tokens = at.canvas.tokens();
        let Some(grid) = at.grid else { return (0..tokens.len()).collect() };
        let end = grid.end(at.block.end.saturating_sub(1)).min(tokens.len());
        let changed = |&row: &usize| self.tokens.get(row) != Some(&tokens[row]);
        let block = grid.start(at.block.start);
        let start = (0..end).find(changed).map_or(block, |row| grid.start(row).min(block));
        (start..end).collect()
    }

    /// Attention of the whole canvas: fresh rows as they are, the others as they were.
    pub(crate) fn complete(&mut self, fresh: &[usize], attention: Rows) -> Rows {
        if fresh.len() == attention.width {
            self.attention = Some(attention.clone());
            return attention;
        }
        let mut all = self.attention.take().unwrap_or_else(|| Rows::zeros(attention.width, attention.width));
        for (&row, new) in fresh.iter().zip(attention.iter()) {
            all.data[row * all.width..(row + 1) * all.width].copy_from_slice(new);
        }
        self.attention = Some(all.clone());
        all
    }
}

/// Ascending rows as half-open ranges.
pub(crate) fn ranges(rows: &[usize]) -> Vec<(usize, usize)> {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for &row in rows {
        match ranges.last_mut() {
            Some(last) if last.1 == row => last.1 += 1,
            _ => ranges.push((row, row + 1)),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use demask_model::SpecialIds;

    use super::*;
    use crate::canvas::{EosPolicy, Pick};

    const MASK: u32 = 9;

    /// Two given tokens, then six masks.
    fn canvas() -> Canvas {
        let ids = SpecialIds { mask: MASK, eos: vec![8], pad: None, bos: None };
        Canvas::generate(&[1, 2], 6, &ids).unwrap()
    }

    fn cache(text: &str) -> RowCache {
        RowCache::new(text.parse::<CacheSpec>().unwrap().policy().unwrap())
    }

    fn plan(cache: &mut RowCache, canvas: &Canvas, block: Range<usize>, step: usize) -> Vec<usize> {
        plan_at(cache, canvas, block, step, step)
    }

    fn plan_at(
        cache: &mut RowCache,
        canvas: &Canvas,
        block: Range<usize>,
        step: usize,
        in_block: usize,
    ) -> Vec<usize> {
        let place =
            BlockStep { index: 0, count: 2, step: in_block, entered_with: 3, length: 3, edited: false };
        let rows = cache.plan(&Moment { canvas, block: &block, place, step, grid: None }, &[block.start - 1]);
        cache.computed(&rows, canvas.tokens());
        rows
    }

    fn put(canvas: &mut Canvas, position: usize, token: u32, eos: EosPolicy) {
        let response = canvas.response();
        canvas.commit(0, &[Pick { position, token, confidence: 1.0 }], &response, eos);
    }

    #[test]
    fn prefix_keeps_what_is_before_the_block_and_dual_what_is_around_it() {
        let canvas = canvas();
        let everything: Vec<usize> = (0..8).collect();
        for (name, rows) in [
            ("prefix", vec![3, 4, 5, 6, 7]),
            ("dual", vec![3, 4, 5, 6]),
            ("vicinity:before=2,after=1,warmup=0", vec![2, 3, 4, 5, 6, 7]),
        ] {
            let mut cache = cache(name);
            assert_eq!(
                plan(&mut cache, &canvas, 4..7, 0),
                everything,
                "{name}: a block begins with everything"
            );
            assert_eq!(plan(&mut cache, &canvas, 4..7, 1), rows, "{name}");
            assert_eq!(plan(&mut cache, &canvas, 4..7, 2), rows, "{name}: without a refresh it stays so");
            assert_eq!(plan_at(&mut cache, &canvas, 7..8, 3, 0), everything, "{name}: so does the next");
        }
    }

    #[test]
    fn a_refresh_is_due_every_so_many_steps_and_warm_up_is_full() {
        let canvas = canvas();
        let full = |name: &str| {
            let mut cache = cache(name);
            (0..7).map(|s| plan(&mut cache, &canvas, 2..5, s).len() == 8).collect::<Vec<_>>()
        };
        let f = false;
        assert_eq!(full("dual:refresh=1"), [true; 7]);
        assert_eq!(full("dual:refresh=3"), [true, f, f, true, f, f, true]);
        assert_eq!(full("dual"), [true, f, f, f, f, f, f]);
        assert_eq!(full("vicinity:before=0,after=0"), [true, true, true, true, f, f, f]);
        assert_eq!(full("delayed:refresh=0"), [true, f, f, f, f, f, f]);
    }

    #[test]
    fn delayed_computes_a_decided_row_once_more_and_then_keeps_it() {
        let mut canvas = canvas();
        let mut cache = cache("delayed:refresh=0");
        let rows = |cache: &mut RowCache, canvas: &Canvas, step| {
            let place = BlockStep { index: 0, count: 1, step, entered_with: 6, length: 6, edited: false };
            let rows = cache.plan(&Moment { canvas, block: &(2..8), place, step, grid: None }, &[]);
            cache.computed(&rows, canvas.tokens());
            rows
        };
        assert_eq!(rows(&mut cache, &canvas, 0).len(), 8);
        put(&mut canvas, 4, 5, EosPolicy::None);
        // The prompt is settled; position 4 was computed as a mask and is computed with its token.
        assert_eq!(rows(&mut cache, &canvas, 1), [2, 3, 4, 5, 6, 7]);
        assert_eq!(rows(&mut cache, &canvas, 2), [2, 3, 5, 6, 7]);
        // An end of sequence fills what follows: those rows change too.
        put(&mut canvas, 5, 8, EosPolicy::FillAfter);
        assert_eq!(rows(&mut cache, &canvas, 3), [2, 3, 5, 6, 7]);
        assert_eq!(rows(&mut cache, &canvas, 4), [2, 3]);
        // Masked again: computed again, and once more with its next token.
        canvas.remask(&[4]);
        assert_eq!(rows(&mut cache, &canvas, 5), [2, 3, 4]);
        put(&mut canvas, 4, 6, EosPolicy::None);
        assert_eq!(rows(&mut cache, &canvas, 6), [2, 3, 4]);
        assert_eq!(rows(&mut cache, &canvas, 7), [2, 3]);
    }

    #[test]
    fn a_finished_block_is_computed_once_more_with_the_next() {
        let mut canvas = canvas();
        let mut cache = cache("auto");
        let rows = |cache: &mut RowCache, canvas: &Canvas, block: Range<usize>| {
            let place = BlockStep { index: 0, count: 2, step: 0, entered_with: 2, length: 4, edited: false };
            let at = Moment { canvas, block: &block, place, step: 0, grid: Some(Grid::new(0, 4)) };
            let rows = cache.plan(&at, &[]);
            cache.computed(&rows, canvas.tokens());
            (rows[0], rows[rows.len() - 1] + 1)
        };
        assert_eq!(rows(&mut cache, &canvas, 2..4), (0, 4), "nothing behind the block");
        put(&mut canvas, 2, 5, EosPolicy::None);
        put(&mut canvas, 3, 5, EosPolicy::None);
        assert_eq!(rows(&mut cache, &canvas, 4..8), (0, 8), "the finished block and the next");
        put(&mut canvas, 4, 5, EosPolicy::None);
        assert_eq!(rows(&mut cache, &canvas, 4..8), (4, 8));
        canvas.edit(3, &[Pick { position: 3, token: 6, confidence: 1.0 }]);
        assert_eq!(
            rows(&mut cache, &canvas, 4..8),
            (0, 8),
            "an edit computes its block and all that follows again"
        );
        assert_eq!(rows(&mut cache, &canvas, 4..8), (4, 8));
    }

    #[test]
    fn attention_of_kept_rows_is_what_it_was() {
        let mut cache = cache("dual");
        let rows = |value: f32, count: usize| Rows { data: vec![value; count * 3], width: 3 };
        assert_eq!(cache.complete(&[0, 1, 2], rows(1.0, 3)), rows(1.0, 3));
        assert_eq!(cache.complete(&[1], rows(2.0, 1)).data, [1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 1.0, 1.0, 1.0]);
    }

    #[test]
    fn ranges_are_half_open() {
        assert_eq!(ranges(&[0, 1, 2, 5, 7, 8]), [(0, 3), (5, 6), (7, 9)]);
        assert!(ranges(&[]).is_empty());
    }
}
