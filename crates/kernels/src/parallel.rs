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

/// Runs `work` on a thread of the pool. From any other thread every operation of it would be handed to the pool and waited for
/// by itself, which costs as much as a small product. A thread that works alone keeps it.
pub fn in_the_pool<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    if ALONE.get() || rayon::current_thread_index().is_some() { work() } else { rayon::scope(|_| work()) }
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
    fn work_for_the_pool_is_done_there_unless_the_thread_works_alone() {
        let here = std::thread::current().id();
        let id = || (std::thread::current().id(), rayon::current_thread_index());
        let (first, index) = in_the_pool(id);
        assert!(first != here && index.is_some());
        assert!(in_the_pool(|| in_the_pool(id).0 == id().0));
        assert_eq!(on_this_thread(|| in_the_pool(id)), (here, None));
    }

    #[test]
    fn a_panic_does_not_leave_the_thread_alone() {
        let outcome = std::panic::catch_unwind(|| on_this_thread(|| panic!("on purpose")));
        assert!(outcome.is_err());
        assert_eq!(least_run(), 1);
    }
}
