//! Finished blocks of earlier canvases, for later ones that begin with the same tokens.
//!
//! Under block-causal attention keys and values of a whole block depend on its tokens and those before it alone, so they
//! may be taken over as they are. Invariant: a canvas decodes to the same tokens with and without what it was lent; what
//! would see a difference (attention maps, opinions of every row, guidance's second canvas) is lent nothing.

use demask_model::{Grid, KvCache, Spec};

use crate::blocks::Blocks;
use crate::job::Job;
use crate::strategy::Extent;

use super::Reach;

/// Blocks that are kept, within a limit on their memory; those unused for longest go first.
#[derive(Debug, Default)]
pub struct Prefixes {
    limit: usize,
    kept: Vec<Kept>,
    clock: u64,
    lent: u64,
}

#[derive(Debug)]
struct Kept {
    tokens: Vec<u32>,
    grid: Grid,
    rows: KvCache,
    used: u64,
}

impl Prefixes {
    /// Nothing yet, and never more than so many bytes.
    pub fn new(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Rows that were lent so far.
    pub fn lent(&self) -> u64 {
        self.lent
    }

    /// Bytes that are kept.
    pub fn size_in_bytes(&self) -> usize {
        self.kept.iter().map(|kept| kept.rows.size_in_bytes()).sum()
    }

    /// Gives a canvas that has not begun the longest prefix that is kept of it; tells how many rows that is.
    pub fn lend(&mut self, job: &mut Job, spec: &Spec) -> usize {
        let Some(grid) = shareable(job, spec).filter(|_| job.totals.steps == 0) else { return 0 };
        let tokens = job.canvas.tokens();
        // A block with masks is not final, whatever was kept.
        let fixed =
            grid_before(grid, tokens.iter().position(|&t| t == spec.ids.mask).unwrap_or(tokens.len()));
        let common = |kept: &Kept| {
            let same = kept.tokens.iter().zip(&tokens[..fixed]).take_while(|(a, b)| a == b).count();
            if kept.grid == grid { grid_before(grid, same) } else { 0 }
        };
        let Some(best) = self.kept.iter_mut().max_by_key(|kept| common(kept)) else { return 0 };
        let rows = common(best);
        let Some(cache) = job.cache.as_mut().filter(|_| rows > 0) else { return 0 };
        // A device without room for a copy lends nothing; the rows are computed then.
        let Ok(copy) = best.rows.prefix(rows, tokens.len()) else { return 0 };
        self.clock += 1;
        best.used = self.clock;
        cache.rows = copy;
        cache.tokens = tokens[..rows].to_vec();
        self.lent += rows as u64;
        rows
    }

    /// Keeps the finished blocks of a canvas.
    pub fn keep(&mut self, job: &Job, spec: &Spec) {
        let (Some(grid), Some(cache)) = (shareable(job, spec), &job.cache) else { return };
        let tokens = job.canvas.tokens();
        let is_final = |(&computed, &token): (&u32, &u32)| computed == token && token != spec.ids.mask;
        let computed = cache.tokens.iter().zip(tokens).take_while(|&pair| is_final(pair)).count();
        let rows = grid_before(grid, computed.min(cache.rows.rows()));
        let holds = |kept: &Kept| kept.grid == grid && kept.tokens.starts_with(&tokens[..rows]);
        self.clock += 1;
        if rows == 0 || self.kept.iter().any(holds) {
            return;
        }
        let size = cache.rows.size_in_bytes() / cache.rows.rows() * rows;
        if size > self.limit {
            return;
        }
        // What this one continues is in it.
        self.kept.retain(|kept| kept.grid != grid || !tokens[..rows].starts_with(&kept.tokens));
        while self.size_in_bytes() + size > self.limit {
            let oldest = (0..self.kept.len()).min_by_key(|&index| self.kept[index].used);
            oldest.map(|index| self.kept.swap_remove(index));
        }
        let Ok(rows_kept) = cache.rows.prefix(rows, rows) else { return };
        self.kept.push(Kept { tokens: tokens[..rows].to_vec(), grid, rows: rows_kept, used: self.clock });
    }
}

/// The blocks of a canvas whose finished ones may be shared.
fn shareable(job: &Job, spec: &Spec) -> Option<Grid> {
    let needs = job.strategy.needs();
    let exact = job.cache.as_ref().is_some_and(|cache| cache.policy.reach == Reach::Blocks);
    let prompt = needs.everywhere || needs.decided == Extent::Canvas || needs.attention_layers > 0;
    let bounded = needs.window.is_some() || needs.lookahead.is_some();
    let plain = !prompt && !bounded && job.options.guidance == 0.0;
    let blocks = Blocks::of(&job.canvas, job.options.block_length, spec);
    blocks.attention.filter(|_| exact && plain)
}

/// Rows of whole blocks among the first `rows`.
fn grid_before(grid: Grid, rows: usize) -> usize {
    if rows > 0 && grid.end(rows - 1) == rows { rows } else { grid.start(rows) }
}
