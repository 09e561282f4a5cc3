//! Exact sums of byte products, the instruction layer of the products with quantised weights.
//!
//! Weights are bytes offset by 128 (`w + 128`, so 1..=255) in panels: for each [`DEPTH`] depths, [`COLS`] columns of
//! [`DEPTH`] bytes; [`super::Nibbles`] does the same with four bits. Activations are in −127..=127. Every
//! implementation returns the same 32-bit sums.

use crate::arch::Simd;
use crate::arch::generic::Generic;
use crate::memory::Plain;

/// Columns of a panel.
pub(crate) const COLS: usize = 16;
/// Depths interleaved in a panel.
pub(crate) const DEPTH: usize = 4;

/// Weights that are multiplied next, which a tile prefetches while it multiplies: spread over the steps of all tiles, so that
/// no more lines are on their way at once than the CPU can wait for.
#[derive(Clone, Copy)]
pub(crate) struct Ahead {
    /// Where each vector's share begins. Any address is allowed.
    pub(crate) from: [*const u8; MOST_VECTORS],
    /// How far a tile is, in bytes.
    pub(crate) at: usize,
    /// Bytes further after each [`Ahead::STEPS`].
    pub(crate) by: usize,
}

impl Ahead {
    /// Steps between two prefetches.
    pub(crate) const STEPS: usize = 2;

    /// Prefetches the next line of each of `vectors` shares.
    #[inline(always)]
    pub(crate) fn fetch(&mut self, simd: impl Simd, vectors: usize) {
        const LINE: usize = 64;
        for from in &self.from[..vectors] {
            simd.prefetch(from.wrapping_add(self.at).cast());
            if self.by > LINE {
                simd.prefetch(from.wrapping_add(self.at + LINE).cast());
            }
        }
        self.at += self.by;
    }
}

/// A computation with the byte products of `D`; the rules of [`super::Op`] hold.
pub(crate) trait DotOp<D> {
    type Out;
    fn eval(self, dot: D) -> Self::Out;
}

/// A computation that is told which byte products there are.
pub(crate) trait WithDot {
    type Out;
    fn with<D: Dot>(self, dot: D) -> Self::Out;
}

/// Most vectors and rows a register tile of any instruction set has.
pub(crate) const MOST_VECTORS: usize = 3;
pub(crate) const MOST_ROWS: usize = 8;

/// Lanes of 32-bit sums of byte products.
pub(crate) trait Dot: Copy + Send + Sync {
    /// The `f32` vectors that sums become, with as many lanes.
    type Float: Simd;
    /// What an activation is stored as.
    type Act: Plain;
    /// What a weight is stored as once prepared.
    type Weight: Plain;
    /// A vector of weights or activations.
    type W: Copy;
    /// A vector of sums, one per column.
    type I: Copy;
    /// Columns of a vector.
    const LANES: usize;
    /// Vectors and rows of a register tile.
    const VECTORS: usize;
    const ROWS: usize;
    /// Depths one product covers.
    const STEP: usize;
    /// Whether [`Dot::prepare`] writes another form of the panel.
    const PREPARES: bool;
    /// Weights in a byte of a panel.
    const PER_BYTE: usize = 1;
    /// Rows that are in cache together, and panels that pass over them together.
    const BLOCK_ROWS: usize;
    const BLOCK_PANELS: usize;

    /// Evaluates `op` in a function of its own with the instructions enabled.
    fn isolate_dot<O: DotOp<Self>>(self, op: O) -> O::Out;
    fn act(q: i8) -> Self::Act;
    /// The bytes nearest to `x · inverse`, ties to even; any bytes for what is not a number.
    #[inline(always)]
    fn quantize(self, x: &[f32], inverse: f32, out: &mut [Self::Act]) {
        for (q, &x) in out.iter_mut().zip(x) {
            *q = Self::act(round(x, inverse));
        }
    }
    /// What the sums of a row of whole steps start from; it cancels the excess of the products.
    fn row_start(self, acts: &[Self::Act]) -> i32;
    /// The operand for some depths of a panel: the panel itself or, written to `buffer` with an element per weight, another
    /// form of it; and what the sums of each column start from in addition.
    fn prepare<'a>(
        self,
        panel: &'a [u8],
        buffer: &'a mut [Self::Weight],
        starts: &mut [i32; COLS],
    ) -> &'a [Self::Weight];
    /// # Safety
    /// `LANES * STEP` weights must be readable at `p`.
    unsafe fn weights(self, p: *const Self::Weight) -> Self::W;
    /// The same `STEP` activations for every column.
    ///
    /// # Safety
    /// `STEP` activations must be readable at `p`.
    unsafe fn acts(self, p: *const Self::Act) -> Self::W;
    /// `row` plus each of `cols`, wrapping.
    ///
    /// # Safety
    /// `LANES` values must be readable at `cols`.
    unsafe fn start(self, row: i32, cols: *const i32) -> Self::I;
    /// `sum + Σ w·a` over the step, wrapping; too large by the excess that the starts cancel.
    fn dot(self, sum: Self::I, w: Self::W, a: Self::W) -> Self::I;
    /// The same CPU's `f32` instructions.
    fn float(self) -> Self::Float;
    /// The sums as `f32`, rounded to nearest.
    fn widen(self, sum: Self::I) -> <Self::Float as Simd>::F;

    /// `c = sum · (scale · scales) + c`, the last two operations fused; then, with `shift` the pair of a factor and the
    /// columns' offsets, `c = factor · offsets + c`, fused.
    ///
    /// # Safety
    /// `LANES` values must be readable at `scales` and the offsets, and writable at `c`.
    #[inline(always)]
    unsafe fn accumulate(
        self,
        sum: Self::I,
        scale: f32,
        scales: *const f32,
        shift: Option<(f32, *const f32)>,
        c: *mut f32,
    ) {
        let float = self.float();
        // SAFETY: passed on.
        unsafe {
            let scale = float.mul(float.splat(scale), float.load(scales));
            let mut out = float.fma(self.widen(sum), scale, float.load(c));
            if let Some((factor, offsets)) = shift {
                out = float.fma(float.splat(factor), float.load(offsets), out);
            }
            float.store(c, out);
        }
    }

    /// Adds the products of `steps` steps of a tile of `R` rows (of [`Dot::ROWS`] in memory) and `V` vectors.
    ///
    /// # Safety
    /// `steps` times `ROWS` activations of a step and, for each of the `V` vectors, the weights of as many steps must be
    /// readable.
    #[inline(always)]
    unsafe fn steps<const R: usize, const V: usize>(
        self,
        sum: &mut [[Self::I; V]; R],
        mut acts: *const Self::Act,
        mut weights: [*const Self::Weight; MOST_VECTORS],
        steps: usize,
        mut ahead: Ahead,
    ) {
        // SAFETY: passed on.
        unsafe {
            // Two steps at a time, so that the loop itself costs little.
            for _ in 0..steps / 2 {
                ahead.fetch(self.float(), V);
                step(self, sum, acts, weights, 0);
                step(self, sum, acts, weights, 1);
                acts = acts.add(2 * Self::ROWS * Self::STEP);
                weights = weights.map(|w| w.wrapping_add(2 * COLS * Self::STEP));
            }
            if steps % 2 == 1 {
                step(self, sum, acts, weights, 0);
            }
        }
    }
}

/// The products of step `step` from the pointers on.
///
/// # Safety
/// `ROWS` activations of the step and the weights of `V` vectors must be readable.
#[inline(always)]
unsafe fn step<D: Dot, const R: usize, const V: usize>(
    dot: D,
    sum: &mut [[D::I; V]; R],
    acts: *const D::Act,
    weights: [*const D::Weight; MOST_VECTORS],
    step: usize,
) {
    // SAFETY: passed on.
    unsafe {
        let w: [D::W; V] = core::array::from_fn(|v| dot.weights(weights[v].add(step * COLS * D::STEP)));
        for (i, sum) in sum.iter_mut().enumerate() {
            let a = dot.acts(acts.add((step * D::ROWS + i) * D::STEP));
            for (sum, w) in sum.iter_mut().zip(w) {
                *sum = dot.dot(*sum, w, a);
            }
        }
    }
}

/// The byte nearest to `x · inverse`.
#[inline(always)]
pub(crate) fn round(x: f32, inverse: f32) -> i8 {
    (x * inverse).round_ties_even() as i8
}

/// The start that cancels the offset of the weights.
#[inline(always)]
pub(super) fn offset_start(acts: &[i8], offset: i32) -> i32 {
    -offset * acts.iter().map(|&a| i32::from(a)).sum::<i32>()
}

const LANES: usize = 8;

impl Dot for Generic {
    type Float = Self;
    type Act = i8;
    type Weight = u8;
    type W = [i32; LANES * DEPTH];
    type I = [i32; LANES];
    const LANES: usize = LANES;
    const VECTORS: usize = 2;
    const ROWS: usize = 4;
    const STEP: usize = DEPTH;
    const PREPARES: bool = false;
    const BLOCK_ROWS: usize = 48;
    const BLOCK_PANELS: usize = 4;

    #[inline(never)]
    fn isolate_dot<O: DotOp<Self>>(self, op: O) -> O::Out {
        op.eval(self)
    }

    #[inline(always)]
    fn act(q: i8) -> i8 {
        q
    }

    #[inline(always)]
    fn row_start(self, acts: &[i8]) -> i32 {
        offset_start(acts, 128)
    }

    #[inline(always)]
    fn prepare<'a>(self, panel: &'a [u8], _: &'a mut [u8], starts: &mut [i32; COLS]) -> &'a [u8] {
        starts.fill(0);
        panel
    }

    #[inline(always)]
    unsafe fn weights(self, p: *const u8) -> Self::W {
        // SAFETY: the contract covers every element read.
        core::array::from_fn(|i| i32::from(unsafe { *p.add(i) }))
    }

    #[inline(always)]
    unsafe fn acts(self, p: *const i8) -> Self::W {
        // SAFETY: the contract covers the four elements read.
        core::array::from_fn(|i| i32::from(unsafe { *p.add(i % DEPTH) }))
    }

    #[inline(always)]
    unsafe fn start(self, row: i32, cols: *const i32) -> Self::I {
        // SAFETY: the contract covers every lane.
        core::array::from_fn(|lane| row.wrapping_add(unsafe { *cols.add(lane) }))
    }

    #[inline(always)]
    fn dot(self, sum: Self::I, w: Self::W, a: Self::W) -> Self::I {
        core::array::from_fn(|lane| {
            (0..DEPTH).fold(sum[lane], |sum, d| sum + w[lane * DEPTH + d] * a[lane * DEPTH + d])
        })
    }

    #[inline(always)]
    fn float(self) -> Self {
        self
    }

    #[inline(always)]
    fn widen(self, sum: Self::I) -> [f32; LANES] {
        sum.map(|sum| sum as f32)
    }
}
