//! What the machine can do at most: register-only loops on every thread, to measure the kernels against.

use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::arch::{Op, Simd};
use crate::dispatch::Level;

/// Single-precision operations a second of all threads together (a fused multiply-add counts two).
pub fn peak_fma() -> f64 {
    let level = Level::active();
    all_threads(|| level.run(Fma))
}

/// How long each thread measures.
const SPAN: Duration = Duration::from_millis(100);

/// Sum over the pool's threads of the best rate any short stretch of `stretch` reached; it returns its operations.
///
/// The best and not the mean: a stretch during which the thread was taken off the core says nothing about the core.
fn all_threads(stretch: impl Fn() -> u64 + Sync) -> f64 {
    let rates = rayon::broadcast(|_| {
        let start = Instant::now();
        let mut best = 0.0f64;
        while start.elapsed() < SPAN {
            let from = Instant::now();
            let operations = stretch();
            best = best.max(operations as f64 / from.elapsed().as_secs_f64());
        }
        best
    });
    rates.into_iter().sum()
}

/// Independent chains: enough to hide the latency of a multiply-add, few enough for the registers.
const CHAINS: usize = 12;

struct Fma;

impl Op for Fma {
    type Out = u64;

    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) -> u64 {
        const ROUNDS: u64 = 20_000;
        let (x, y) = (simd.splat(black_box(0.999)), simd.splat(black_box(1e-3)));
        let mut sum = [y; CHAINS];
        for _ in 0..ROUNDS {
            for sum in &mut sum {
                *sum = simd.fma(*sum, x, y);
            }
        }
        let mut total = y;
        for sum in sum {
            total = simd.add(total, sum);
        }
        black_box(simd.sum(total));
        ROUNDS * (CHAINS * S::LANES * 2) as u64
    }
}
