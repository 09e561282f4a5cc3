//! How long products and attention took and how many operations they were, for measurements; off unless asked for.
//!
//! A call counts for as many threads as it may use, so that what groups of canvases compute side by side, a thread each, and
//! what one product computes on all threads add up to the same thread-seconds.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::parallel::threads;

/// What is counted apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Products of `f32`, whatever the weights are stored as.
    Float,
    /// Products with quantised weights.
    Quantized,
    /// Attention with its own products.
    Attention,
}

/// What was counted of one kind of work.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counted {
    /// Seconds times the threads a call may use.
    pub thread_seconds: f64,
    /// Multiplications and additions.
    pub operations: f64,
}

/// What [`meter`] saw.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Meter {
    /// Products of `f32`, whatever the weights are stored as.
    pub float: Counted,
    /// Products with quantised weights.
    pub quantized: Counted,
    /// Attention with its own products.
    pub attention: Counted,
}

struct Count {
    nanoseconds: AtomicU64,
    operations: AtomicU64,
}

impl Count {
    const fn none() -> Self {
        Self { nanoseconds: AtomicU64::new(0), operations: AtomicU64::new(0) }
    }

    fn take(&self) -> Counted {
        let take = |count: &AtomicU64| count.swap(0, Ordering::Relaxed) as f64;
        Counted { thread_seconds: take(&self.nanoseconds) / 1e9, operations: take(&self.operations) }
    }
}

static ON: AtomicBool = AtomicBool::new(false);
static COUNTS: [Count; 3] = [Count::none(), Count::none(), Count::none()];
/// One measurement at a time.
static ONE: Mutex<()> = Mutex::new(());

/// Runs `body` and says what products and attention took in all threads meanwhile. Measurements wait for one another.
pub fn meter<T>(body: impl FnOnce() -> T) -> (T, Meter) {
    /// Switches off, also when `body` panics.
    struct Off;
    impl Drop for Off {
        fn drop(&mut self) {
            ON.store(false, Ordering::Relaxed);
        }
    }
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    for count in &COUNTS {
        count.take();
    }
    let _off = Off;
    ON.store(true, Ordering::Relaxed);
    let out = body();
    let [float, quantized, attention] = &COUNTS;
    (out, Meter { float: float.take(), quantized: quantized.take(), attention: attention.take() })
}

/// Runs an operation, and counts it where somebody asked.
#[inline]
pub(crate) fn counted<T>(work: Work, operations: usize, body: impl FnOnce() -> T) -> T {
    if !ON.load(Ordering::Relaxed) {
        return body();
    }
    let (start, threads) = (Instant::now(), threads() as u64);
    let out = body();
    let count = &COUNTS[work as usize];
    count.nanoseconds.fetch_add(start.elapsed().as_nanos() as u64 * threads, Ordering::Relaxed);
    count.operations.fetch_add(operations as u64, Ordering::Relaxed);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::on_this_thread;
    use crate::{Heads, QuantizedWeights, Segment, Weights, attention, gemm, gemm_quantized, gemm_silu_gate};

    #[test]
    fn every_kind_of_product_is_counted_once() {
        let (m, k, n) = (3, 32, 16);
        let (a, w) = (vec![0.5; m * k], vec![0.25; n * k]);
        let quantized = QuantizedWeights::quantize(Weights::F32(&w), n, k, 32).unwrap();
        let mut c = vec![0.0; m * n];
        let ((), seen) = meter(|| {
            gemm(&a, m, k, Weights::F32(&w), n, None, &mut c);
            gemm_quantized(&a, m, &quantized, None, &mut c);
            gemm_silu_gate(&a, m, &quantized, &quantized, &mut c);
            let heads = Heads { query: 4, kv: 4, dim: 8 };
            let segment = Segment { q: 0..m, k: 0..m, causal_offset: None };
            let mut out = vec![0.0; m * k];
            attention(&a, &a, &a, heads, &[segment], &mut out, None);
        });
        let one = (2 * m * k * n) as f64;
        assert_eq!(seen.float.operations, one);
        assert_eq!(seen.quantized.operations, 3.0 * one);
        assert_eq!(seen.attention.operations, (4 * m * m * k) as f64);
        assert!([seen.float, seen.quantized, seen.attention].iter().all(|c| c.thread_seconds > 0.0));
    }

    #[test]
    fn a_call_counts_for_the_threads_it_may_use() {
        let wait = || std::thread::sleep(std::time::Duration::from_millis(20));
        let ((), alone) = meter(|| on_this_thread(|| counted(Work::Float, 0, wait)));
        let pool = rayon::ThreadPoolBuilder::new().num_threads(8).build().unwrap();
        let ((), all) = meter(|| pool.install(|| counted(Work::Float, 0, wait)));
        assert!(alone.float.thread_seconds >= 0.02 && all.float.thread_seconds >= 8.0 * 0.02);
        let (_, after) = meter(|| ());
        assert_eq!(after, Meter::default());
    }
}
