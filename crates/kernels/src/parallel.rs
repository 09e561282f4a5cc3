//! How finely elementwise work is cut for the thread pool.

/// Elements a task should have so that handing it over costs little beside it.
pub(crate) const GRAIN: usize = 16 * 1024;

/// Rows of `width` elements per task.
pub(crate) fn rows_per_task(width: usize) -> usize {
    (GRAIN / width.max(1)).max(1)
}
