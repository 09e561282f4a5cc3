//! The int8 micro-kernel: for one group of depths, `c += (Σ a·w) · scale_a · scale_w` over a column of tiles.
//!
//! Invariant: the byte products are summed exactly; one multiplication of the scales and one fused multiply-add follow.

use crate::arch::{COLS, Dot, DotOp};

/// Rows of activations times one or more panels of weights.
pub(crate) struct Tile<'a, D: Dot> {
    /// Products of [`Dot::STEP`] depths.
    pub(crate) steps: usize,
    /// `[rows, filled]`.
    pub(crate) acts: &'a [D::Act],
    /// Depths of the group, a multiple of `STEP`.
    pub(crate) filled: usize,
    /// Scale and sum of each row's activations.
    pub(crate) scales: &'a [f32],
    pub(crate) sums: &'a [i32],
    /// Prepared weights and scales of each panel.
    pub(crate) panels: &'a [(&'a [D::Weight], &'a [f32])],
    /// `[rows, panels * COLS]`.
    pub(crate) c: &'a mut [f32],
}

impl<D: Dot> Tile<'_, D> {
    /// # Panics
    /// If a slice does not cover the shape.
    #[inline(always)]
    pub(crate) fn run(self, dot: D) {
        let (rows, width) = (self.scales.len(), self.panels.len() * COLS);
        assert!(self.sums.len() == rows && self.acts.len() == rows * self.filled);
        assert!(self.steps * D::STEP == self.filled && self.c.len() == rows * width);
        let covers = |(w, s): &(&[D::Weight], &[f32])| w.len() == self.filled * COLS && s.len() == COLS;
        assert!(self.panels.iter().all(covers) && width <= MOST_VECTORS * D::LANES);
        let mut call = Call::<D> {
            steps: self.steps,
            acts: self.acts.as_ptr(),
            act_row: self.filled,
            scales: self.scales.as_ptr(),
            sums: self.sums.as_ptr(),
            weights: [core::ptr::null(); MOST_VECTORS],
            weight_scales: [core::ptr::null(); MOST_VECTORS],
            c: self.c.as_mut_ptr(),
            c_row: width,
        };
        let vectors = width / D::LANES;
        for v in 0..vectors {
            let (weights, scales) = self.panels[v * D::LANES / COLS];
            let col = v * D::LANES % COLS;
            call.weights[v] = weights.as_ptr().wrapping_add(col * D::STEP);
            call.weight_scales[v] = scales.as_ptr().wrapping_add(col);
        }
        let (tiles, rest) = (rows / D::ROWS, rows % D::ROWS);
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

/// Most vectors and rows a register tile of any instruction set has.
const MOST_VECTORS: usize = 3;
const MOST_ROWS: usize = 8;

#[derive(Clone, Copy)]
struct Call<D: Dot> {
    steps: usize,
    acts: *const D::Act,
    act_row: usize,
    scales: *const f32,
    sums: *const i32,
    weights: [*const D::Weight; MOST_VECTORS],
    weight_scales: [*const f32; MOST_VECTORS],
    c: *mut f32,
    c_row: usize,
}

impl<D: Dot> Call<D> {
    /// The call from row `i` on. Addresses are only formed.
    #[inline(always)]
    fn below(self, i: usize) -> Self {
        Self {
            acts: self.acts.wrapping_add(i * self.act_row),
            scales: self.scales.wrapping_add(i),
            sums: self.sums.wrapping_add(i),
            c: self.c.wrapping_add(i * self.c_row),
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
    /// Activations readable for `R` rows of `steps`, scales and sums for `R`, weights for `steps` of each vector, their
    /// scales for one, `c` writable for `R` rows.
    #[inline(always)]
    unsafe fn tile<const R: usize, const V: usize>(&self, dot: D) {
        // SAFETY: the contract covers every address below.
        unsafe {
            let mut sum: [[D::I; V]; R] =
                core::array::from_fn(|i| [dot.all(-D::OFFSET * *self.sums.add(i)); V]);
            let acts: [*const D::Act; R] = core::array::from_fn(|i| self.acts.wrapping_add(i * self.act_row));
            for step in 0..self.steps {
                let w: [D::W; V] =
                    core::array::from_fn(|v| dot.weights(self.weights[v].add(step * COLS * D::STEP)));
                for (sum, acts) in sum.iter_mut().zip(acts) {
                    let a = dot.acts(acts.add(step * D::STEP));
                    for (sum, w) in sum.iter_mut().zip(w) {
                        *sum = dot.dot(*sum, w, a);
                    }
                }
            }
            for (i, sum) in sum.into_iter().enumerate() {
                for (v, sum) in sum.into_iter().enumerate() {
                    let c = self.c.add(i * self.c_row + v * D::LANES);
                    dot.accumulate(sum, *self.scales.add(i), self.weight_scales[v], c);
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
