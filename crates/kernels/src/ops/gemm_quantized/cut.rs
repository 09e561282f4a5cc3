//! How a product with quantised weights is cut into tasks: rectangles of `c` over the full depth.

use std::ops::Range;

use super::Output;
use crate::arch::{COLS, Dot};
use crate::parallel::threads;

/// Bytes of weights that pass over several blocks of rows from the second-level cache.
const WEIGHT_BYTES: usize = 256 * 1024;
/// Byte products below which a task is not worth handing to another thread.
const GRAIN: usize = 1 << 20;
/// Tasks a thread should have, so that the last one to finish does not leave the others idle for long.
const TASKS: usize = 4;
/// The same where weights are read once, for few rows: longer reads are faster ones.
const STREAMS: usize = 16;

/// A partition of `c` into rectangles of whole panels.
pub(super) struct Cut {
    m: usize,
    /// Panels of all matrices of the output.
    all: usize,
    rows: usize,
    panels: usize,
}

impl Cut {
    pub(super) fn new<D: Dot>(m: usize, output: &Output<'_>) -> Self {
        let (unit, layout, all) = (output.block_panels::<D>(), output.layout(), output.panels());
        let few = if m <= D::BLOCK_ROWS {
            // One block of rows: nothing has to stay in cache for the next.
            all.div_ceil(STREAMS * threads())
        } else {
            WEIGHT_BYTES / (COLS * layout.depth().max(1))
        };
        let panels = few.max(1).next_multiple_of(unit).min(all);
        let mut cut = Self { m, all, rows: m.min(8 * D::BLOCK_ROWS), panels };
        while threads() > 1 && cut.count() < TASKS * threads() {
            if cut.rows * cut.panels * COLS * layout.k < 2 * GRAIN {
                break;
            } else if cut.panels > unit {
                cut.panels = (cut.panels / 2).next_multiple_of(unit);
            } else if cut.rows > D::BLOCK_ROWS {
                cut.rows = (cut.rows / 2).next_multiple_of(D::ROWS);
            } else {
                break;
            }
        }
        // Small products are one task: what is handed over must be worth it.
        while cut.count() > 1 && cut.rows * cut.panels * COLS * layout.k < GRAIN && cut.panels < all {
            cut.panels = (2 * cut.panels).min(all);
        }
        cut
    }

    fn across(&self) -> usize {
        self.all.div_ceil(self.panels)
    }

    pub(super) fn count(&self) -> usize {
        self.across() * self.m.div_ceil(self.rows)
    }

    /// Rows and panels of a task.
    pub(super) fn task(&self, index: usize) -> (Range<usize>, Range<usize>) {
        let (i, p) = (index / self.across() * self.rows, index % self.across() * self.panels);
        (i..self.m.min(i + self.rows), p..self.all.min(p + self.panels))
    }
}
