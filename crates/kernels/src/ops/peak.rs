//! What the machine can do at most: register-only loops on every thread, to measure the kernels against.

use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::arch::{Ahead, COLS, Dot, DotOp, MAX_LANES, MOST_VECTORS, Op, Simd, WithDot};
use crate::dispatch::Level;
use crate::memory::{Scratch, filled};

/// Single-precision operations per second of all threads together (a fused multiply-add counts as two).
pub fn peak_fma() -> f64 {
    let level = Level::active();
    all_threads(|| level.run(Fma))
}

/// Operations on bytes per second of all threads together, with the byte products of the int8 product (a multiplication
/// and its addition count as two).
pub fn peak_int8() -> f64 {
    Level::active().with_bytes(Bytes)
}

/// The same for weights of four bits.
pub fn peak_four() -> f64 {
    Level::active().with_nibbles(Four)
}

/// Bytes per second that all threads together read from memory, each its own stretch from end to end: the best of short
/// rounds that all of them take part in, since memory is shared and what one thread reads while the others wait
/// says nothing about all of them.
pub fn bandwidth() -> f64 {
    let level = Level::active();
    let memory: Vec<Vec<f32>> = (0..rayon::current_num_threads()).map(|_| filled(1.0, STRETCH)).collect();
    let (start, mut best) = (Instant::now(), 0.0f64);
    while start.elapsed() < 3 * SPAN {
        let from = Instant::now();
        let bytes: u64 =
            rayon::broadcast(|thread| level.run(Read(&memory[thread.index()]))).into_iter().sum();
        best = best.max(bytes as f64 / from.elapsed().as_secs_f64());
    }
    best
}

/// Numbers a thread reads in a round: more than a cache holds, and not for much longer than a thread stays on its core.
const STRETCH: usize = 24 << 20;

struct Read<'a>(&'a [f32]);

impl Op for Read<'_> {
    type Out = u64;

    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) -> u64 {
        let mut sum = [simd.splat(0.0); 4];
        for some in self.0.chunks_exact(4 * S::LANES) {
            for (i, sum) in sum.iter_mut().enumerate() {
                *sum = simd.add(*sum, simd.read(&some[i * S::LANES..]));
            }
        }
        black_box(sum.map(|sum| simd.sum(sum)));
        size_of_val(self.0) as u64
    }
}

/// How long each thread measures.
const SPAN: Duration = Duration::from_millis(100);

/// Sum over the pool's threads of the best rate that a call of `stretch`, which returns its operations, reached.
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

struct Bytes;

impl WithDot for Bytes {
    type Out = f64;

    fn with<D: Dot>(self, dot: D) -> f64 {
        all_threads(|| dot.isolate_dot(Self))
    }
}

impl<D: Dot> DotOp<D> for Bytes {
    type Out = u64;

    #[inline(always)]
    fn eval(self, dot: D) -> u64 {
        // The register tile of the product itself: as many chains as it has.
        match (D::ROWS, D::VECTORS) {
            (4, 2) => chains::<D, 4, 2>(dot),
            (6, 2) => chains::<D, 6, 2>(dot),
            (8, 3) => chains::<D, 8, 3>(dot),
            tile => unreachable!("no instruction set has a tile of {tile:?}"),
        }
    }
}

struct Four;

impl WithDot for Four {
    type Out = f64;

    fn with<D: Dot>(self, dot: D) -> f64 {
        all_threads(|| dot.isolate_dot(Self))
    }
}

impl<D: Dot> DotOp<D> for Four {
    type Out = u64;

    #[inline(always)]
    fn eval(self, dot: D) -> u64 {
        match (D::ROWS, D::VECTORS) {
            (4, 2) => near::<D, 4, 2>(dot),
            (6, 2) => near::<D, 6, 2>(dot),
            (8, 3) => near::<D, 8, 3>(dot),
            tile => unreachable!("no instruction set has a tile of {tile:?}"),
        }
    }
}

/// `R` rows of `V` vectors with operands from the first-level cache: where words are summed before they are widened, a
/// single step says nothing. Returns the operations.
#[inline(always)]
fn near<D: Dot, const R: usize, const V: usize>(dot: D) -> u64 {
    const ROUNDS: u64 = 600;
    const STEPS: usize = 32;
    let panel = STEPS * COLS * D::STEP;
    let (mut weights, mut acts) = (Scratch::take(MOST_VECTORS * panel), Scratch::take(STEPS * R * D::STEP));
    acts.slice().fill(D::act(1));
    let mut out = [[[0.0f32; MAX_LANES]; V]; R];
    // SAFETY: the scratch holds a panel for every vector and an operand for each row and step; `out` has a row of the
    // widest vector for each chain, as the zeros and ones have.
    unsafe {
        let weights: *const D::Weight = weights.slice().as_ptr();
        let mut sum = [[dot.start(0, [0; MAX_LANES].as_ptr()); V]; R];
        let near = Ahead { from: [weights.cast(); MOST_VECTORS], at: 0, by: 0 };
        for _ in 0..ROUNDS {
            let acts = black_box(acts.slice().as_ptr());
            let mut vectors = [weights; MOST_VECTORS];
            for (v, vector) in vectors.iter_mut().enumerate() {
                *vector = weights.add(v * D::LANES / COLS * panel + v * D::LANES % COLS * D::STEP);
            }
            dot.steps::<R, V>(&mut sum, acts, vectors, STEPS, near);
        }
        for (sum, out) in sum.into_iter().flatten().zip(out.iter_mut().flatten()) {
            dot.accumulate(sum, 1.0, [1.0; MAX_LANES].as_ptr(), None, out.as_mut_ptr());
        }
    }
    black_box(out);
    ROUNDS * (STEPS * R * V * D::LANES * D::STEP * 2) as u64
}

/// `R` rows of `V` vectors with weights that stay in registers; returns the operations.
#[inline(always)]
fn chains<D: Dot, const R: usize, const V: usize>(dot: D) -> u64 {
    const ROUNDS: u64 = 20_000;
    let vector = D::LANES * D::STEP;
    let (mut weights, mut acts) = (Scratch::take(V * vector), Scratch::take(R * D::STEP));
    acts.slice().fill(D::act(1));
    let mut out = [[[0.0f32; MAX_LANES]; V]; R];
    // SAFETY: the scratch holds an operand for each vector and one for each row; `out` has a row of the widest vector
    // for each chain, as the zeros and ones have.
    unsafe {
        let weights: *const D::Weight = weights.slice().as_ptr();
        let w: [D::W; V] = core::array::from_fn(|v| dot.weights(weights.add(v * vector)));
        let mut sum = [[dot.start(0, [0; MAX_LANES].as_ptr()); V]; R];
        for _ in 0..ROUNDS {
            // Read again each time: a loop over constants would be computed beforehand.
            let acts = black_box(acts.slice().as_ptr());
            for (i, sum) in sum.iter_mut().enumerate() {
                let a = dot.acts(acts.add(i * D::STEP));
                for (sum, w) in sum.iter_mut().zip(w) {
                    *sum = dot.dot(*sum, w, a);
                }
            }
        }
        for (sum, out) in sum.into_iter().flatten().zip(out.iter_mut().flatten()) {
            dot.accumulate(sum, 1.0, [1.0; MAX_LANES].as_ptr(), None, out.as_mut_ptr());
        }
    }
    black_box(out);
    ROUNDS * (R * V * D::LANES * D::STEP * 2) as u64
}
