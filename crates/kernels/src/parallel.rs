//! How work is cut for the thread pool: how finely, or not at all on a thread that keeps its work to itself.
//!
//! Invariant: cutting decides who computes an element, never its value.

use std::cell::Cell;

/// Elements a task should have so that handing it over costs little beside it.
pub(crate) const GRAIN: usize = 16 * 1024;

/// Rows of `width` elements per task.
pub(crate) fn rows_per_task(width: usize) -> usize {
    (GRAIN / width.max(1)).max(1)
}

thread_local! {
    /// Whether this thread keeps its work to itself.
    static ALONE: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work` without handing any part of an operation to other threads.
///
/// For callers that keep all threads busy with work of their own: small products then pack their weights once instead
/// of once per cut, and nobody waits for anybody.
pub fn on_this_thread<T>(work: impl FnOnce() -> T) -> T {
    /// Restores what was, also when `work` panics.
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            ALONE.set(self.0);
        }
    }
    let _restore = Restore(ALONE.replace(true));
    work()
}

/// Threads that an operation called here may use.
pub fn threads() -> usize {
    if ALONE.get() { 1 } else { rayon::current_num_threads() }
}

/// Fewest items of a parallel iterator that stay together: all of them on a thread that works alone.
pub fn least_run() -> usize {
    if ALONE.get() { usize::MAX } else { 1 }
}

#[cfg(test)]
mod tests {
    use rayon::prelude::*;

    use super::*;

    #[test]
    fn alone_nothing_is_handed_over() {
        let here = std::thread::current().id();
        let elsewhere = on_this_thread(|| {
            assert_eq!(threads(), 1);
            let items = (0..1000).into_par_iter().with_min_len(least_run());
            items.filter(|_| std::thread::current().id() != here).count()
        });
        assert_eq!(elsewhere, 0);
        assert_eq!((threads(), least_run()), (rayon::current_num_threads(), 1));
    }

    #[test]
    fn a_panic_does_not_leave_the_thread_alone() {
        let outcome = std::panic::catch_unwind(|| on_this_thread(|| panic!("on purpose")));
        assert!(outcome.is_err());
        assert_eq!(least_run(), 1);
    }
}
