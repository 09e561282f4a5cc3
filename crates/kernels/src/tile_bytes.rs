//! The micro-kernel of quantised weights: for one group of depths, `c += (Σ a·w) · scale_a · scale_w` over a column of
//! tiles, and `c += scale_a · Σ a · offset_w` where weights have offsets.
//!
//! Invariant: the byte products are summed exactly; one multiplication of the scales and one fused multiply-add follow,
//! then one more for the offset.

use crate::arch::{Ahead, COLS, Dot, DotOp, MOST_ROWS, MOST_VECTORS};

/// Rows of activations times one or more panels of weights.
pub(crate) struct Tile<'a, D: Dot> {
    /// Products of [`Dot::STEP`] depths.
    pub(crate) steps: usize,
    /// `[rows / ROWS, steps, ROWS, STEP]`, the rows filled up to whole tiles.
    pub(crate) acts: &'a [D::Act],
    /// Depths of the group, a multiple of `STEP`.
    pub(crate) filled: usize,
    /// Scale of each row's activations and what its sums start from.
    pub(crate) scales: &'a [f32],
    pub(crate) starts: &'a [i32],
    pub(crate) panels: &'a [Panel<'a, D>],
    /// Packed weights of the panels that come next, of one length; none where nothing does.
    pub(crate) next: [&'a [u8]; MOST_VECTORS],
    /// `[rows, panels * COLS]`.
    pub(crate) c: &'a mut [f32],
}

/// One group of a panel: prepared weights, their scales and offsets and what the sums of the columns start from.
#[derive(Clone, Copy)]
pub(crate) struct Panel<'a, D: Dot> {
    pub(crate) weights: &'a [D::Weight],
    pub(crate) scales: &'a [f32; COLS],
    /// Of weights of four bits: their sums start from minus eight times the sum of the row.
    pub(crate) offsets: Option<&'a [f32; COLS]>,
    pub(crate) starts: [i32; COLS],
}

impl<D: Dot> Panel<'_, D> {
    /// None.
    pub(crate) const EMPTY: Self =
        Self { weights: &[], scales: &[0.0; COLS], offsets: None, starts: [0; COLS] };
}

impl<D: Dot> Tile<'_, D> {
    /// # Panics
    /// If a slice does not cover the shape.
    #[inline(always)]
    pub(crate) fn run(self, dot: D) {
        let (rows, width) = (self.scales.len(), self.panels.len() * COLS);
        assert!(self.starts.len() == rows && self.acts.len() == rows.next_multiple_of(D::ROWS) * self.filled);
        assert!(self.steps * D::STEP == self.filled && self.c.len() == rows * width);
        let covers = |p: &Panel<'_, D>| p.weights.len() == self.filled * COLS;
        assert!(self.panels.iter().all(covers) && width <= MOST_VECTORS * D::LANES);
        let shifted = self.panels.iter().all(|p| p.offsets.is_some());
        assert!(shifted || self.panels.iter().all(|p| p.offsets.is_none()), "offsets for all panels or none");
        let (tiles, rest) = (rows / D::ROWS, rows % D::ROWS);
        let (ahead, share) = self.ahead();
        let all = tiles + usize::from(rest > 0);
        let mut call = Call::<D> {
            ahead,
            share: share / all.max(1),
            by: share * Ahead::STEPS / (all * self.steps).max(1),
            tile: 0,
            steps: self.steps,
            acts: self.acts.as_ptr(),
            filled: self.filled,
            scales: self.scales.as_ptr(),
            starts: self.starts.as_ptr(),
            weights: [core::ptr::null(); MOST_VECTORS],
            weight_scales: [core::ptr::null(); MOST_VECTORS],
            weight_starts: [core::ptr::null(); MOST_VECTORS],
            weight_offsets: shifted.then_some([core::ptr::null(); MOST_VECTORS]),
            c: self.c.as_mut_ptr(),
            c_row: width,
        };
        let vectors = width / D::LANES;
        for v in 0..vectors {
            let panel = &self.panels[v * D::LANES / COLS];
            let col = v * D::LANES % COLS;
            call.weights[v] = panel.weights.as_ptr().wrapping_add(col * D::STEP);
            call.weight_scales[v] = panel.scales.as_ptr().wrapping_add(col);
            call.weight_starts[v] = panel.starts.as_ptr().wrapping_add(col);
            if let (Some(to), Some(offsets)) = (&mut call.weight_offsets, panel.offsets) {
                to[v] = offsets.as_ptr().wrapping_add(col);
            }
        }
        // SAFETY: the checks above are the contract of `rows` for all rows; the second call begins where the first ends.
        unsafe {
            if tiles > 0 {
                call.rows(dot, D::ROWS, vectors, tiles);
            }
            if rest > 0 {
                call.below(tiles * D::ROWS).rows(dot, rest, vectors, 1);
            }
        }
    }
}

impl<D: Dot> Tile<'_, D> {
    /// Each vector's share of what comes next: of a panel that several vectors share, each takes its part. Where nothing
    /// comes next, what is read anyway.
    #[inline(always)]
    fn ahead(&self) -> ([*const u8; MOST_VECTORS], usize) {
        let (vectors, each) = (self.panels.len() * COLS / D::LANES, COLS / D::LANES);
        let share = self.next[0].len() / each;
        let mut from = [self.acts.as_ptr().cast(); MOST_VECTORS];
        for (v, from) in from.iter_mut().enumerate().take(vectors) {
            let next = self.next[v / each];
            if !next.is_empty() {
                *from = next.as_ptr().wrapping_add(v % each * share);
            }
        }
        (from, share)
    }
}

#[derive(Clone, Copy)]
struct Call<D: Dot> {
    steps: usize,
    acts: *const D::Act,
    filled: usize,
    scales: *const f32,
    starts: *const i32,
    weights: [*const D::Weight; MOST_VECTORS],
    weight_scales: [*const f32; MOST_VECTORS],
    weight_starts: [*const i32; MOST_VECTORS],
    weight_offsets: Option<[*const f32; MOST_VECTORS]>,
    c: *mut f32,
    c_row: usize,
    /// Where each vector's share of what comes next begins, the bytes of it that each of the tiles below each other
    /// fetches, how many after each [`Ahead::STEPS`], and which tile is next.
    ahead: [*const u8; MOST_VECTORS],
    share: usize,
    by: usize,
    tile: usize,
}

impl<D: Dot> Call<D> {
    /// The call from row `i` on, which begins a tile. Addresses are only formed.
    #[inline(always)]
    fn below(self, i: usize) -> Self {
        Self {
            acts: self.acts.wrapping_add(i * self.filled),
            scales: self.scales.wrapping_add(i),
            starts: self.starts.wrapping_add(i),
            c: self.c.wrapping_add(i * self.c_row),
            tile: self.tile + i.div_ceil(D::ROWS),
            ..self
        }
    }

    /// `tiles` tiles of `rows` rows and `vectors` vectors.
    ///
    /// # Safety
    /// As [`Call::tile`] for all of them.
    #[inline(always)]
    unsafe fn rows(self, dot: D, rows: usize, vectors: usize, tiles: usize) {
        // SAFETY: passed on.
        unsafe {
            match rows {
                1 => self.vectors::<1>(dot, vectors, tiles),
                2 => self.vectors::<2>(dot, vectors, tiles),
                3 => self.vectors::<3>(dot, vectors, tiles),
                4 => self.vectors::<4>(dot, vectors, tiles),
                5 => self.vectors::<5>(dot, vectors, tiles),
                6 => self.vectors::<6>(dot, vectors, tiles),
                7 => self.vectors::<7>(dot, vectors, tiles),
                MOST_ROWS => self.vectors::<MOST_ROWS>(dot, vectors, tiles),
                _ => unreachable!("a tile has at most {MOST_ROWS} rows"),
            }
        }
    }

    /// # Safety
    /// As [`Call::rows`] for `R` rows.
    #[inline(always)]
    unsafe fn vectors<const R: usize>(self, dot: D, vectors: usize, tiles: usize) {
        match vectors {
            1 => dot.isolate_dot(Tiles::<D, R, 1>(self, tiles)),
            2 => dot.isolate_dot(Tiles::<D, R, 2>(self, tiles)),
            MOST_VECTORS => dot.isolate_dot(Tiles::<D, R, MOST_VECTORS>(self, tiles)),
            _ => unreachable!("a tile has at most {MOST_VECTORS} vectors"),
        }
    }

    /// `R` rows of `V` vectors, all in registers.
    ///
    /// # Safety
    /// Activations readable for `ROWS` rows of `steps`, scales and starts for `R`, weights for `steps` of each vector, their
    /// scales and starts for one, `c` writable for `R` rows.
    #[inline(always)]
    unsafe fn tile<const R: usize, const V: usize>(&self, dot: D) {
        // SAFETY: the contract covers every address below.
        unsafe {
            // Loops over the arrays and not closures that make them: a closure that is not inlined has no instructions
            // enabled, and every one of its own would be a call.
            let mut sum = [[dot.start(*self.starts, self.weight_starts[0]); V]; R];
            for (i, sum) in sum.iter_mut().enumerate() {
                for (v, sum) in sum.iter_mut().enumerate() {
                    *sum = dot.start(*self.starts.add(i), self.weight_starts[v]);
                }
            }
            let ahead = Ahead { from: self.ahead, at: self.share * self.tile, by: self.by };
            dot.steps(&mut sum, self.acts, self.weights, self.steps, ahead);
            for (i, sum) in sum.iter().enumerate() {
                let (scale, c) = (*self.scales.add(i), self.c.add(i * self.c_row));
                // The start of a row's sums is minus eight times the sum of its bytes; both are exact in `f32`.
                let factor = scale * (*self.starts.add(i) as f32 * -0.125);
                for (v, &sum) in sum.iter().enumerate() {
                    let shift = self.weight_offsets.map(|offsets| (factor, offsets[v]));
                    dot.accumulate(sum, scale, self.weight_scales[v], shift, c.add(v * D::LANES));
                }
            }
        }
    }
}

/// Tiles one below the other; only [`Call::rows`] makes it, under its contract.
struct Tiles<D: Dot, const R: usize, const V: usize>(Call<D>, usize);

impl<D: Dot, const R: usize, const V: usize> DotOp<D> for Tiles<D, R, V> {
    type Out = ();

    #[inline(always)]
    fn eval(self, dot: D) {
        if R > D::ROWS || V > D::VECTORS {
            return;
        }
        let Self(mut call, tiles) = self;
        for _ in 0..tiles {
            // SAFETY: the contract of `Call::rows`.
            unsafe { call.tile::<R, V>(dot) };
            call = call.below(R);
        }
    }
}
