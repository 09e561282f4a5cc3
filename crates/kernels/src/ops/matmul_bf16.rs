//! The strided product with both factors rounded to `bf16` and sums in `f32`: what mixed-precision training multiplies
//! with. Twice the rate of `f32` where the CPU has AVX-512-BF16.
//!
//! Both factors are first written as words, two neighbouring depths each, and then multiplied by the same tiles as
//! `f32`, at half the depth.
//!
//! Invariant: an element is one fixed-order chain over `k`, so results do not depend on threads. They do depend on the
//! instruction set: without the instruction nothing is rounded and this is [`matmul`](crate::matmul()).

#[cfg(target_arch = "x86_64")]
use {
    crate::arch::pairs::Pairs,
    crate::memory::Scratch,
    crate::meter::{Work, counted},
    crate::pack::Right,
    crate::parallel::{least_run, rows_per_task},
    crate::product::product_with,
    crate::tile::Chain,
    rayon::prelude::*,
};

use crate::ops::matmul::{Shape, Strided, matmul};

/// Whether [`matmul_bf16`] rounds here: the CPU has the instruction and no lesser set was forced.
pub fn has_bf16_products() -> bool {
    #[cfg(target_arch = "x86_64")]
    let has = Pairs::active().is_some();
    #[cfg(not(target_arch = "x86_64"))]
    let has = false;
    has
}

/// As [`matmul`](crate::matmul()), with factors rounded to `bf16` where the CPU multiplies those faster.
///
/// # Panics
/// If a view does not cover its shape.
pub fn matmul_bf16(shape: Shape, a: Strided<'_>, b: Strided<'_>, c: &mut [f32], accumulate: bool) {
    #[cfg(target_arch = "x86_64")]
    if let Some(pairs) = Pairs::active() {
        return rounded(pairs, shape, a, b, c, accumulate);
    }
    matmul(shape, a, b, c, accumulate);
}

#[cfg(target_arch = "x86_64")]
fn rounded(pairs: Pairs, shape: Shape, a: Strided<'_>, b: Strided<'_>, c: &mut [f32], accumulate: bool) {
    let Shape { m, n, k } = shape;
    assert!(a.covers(m, k), "matmul_bf16: a does not cover [{m}, {k}]");
    assert!(b.covers(k, n), "matmul_bf16: b does not cover [{k}, {n}]");
    assert_eq!(c.len(), m * n, "matmul_bf16: c must be [m, n]");
    let chain = if accumulate { Chain::CARRY } else { Chain::FRESH };
    counted(Work::Float, 2 * m * n * k, || {
        let depth = k.div_ceil(2);
        let (mut left, mut right) = (Scratch::take(m * depth), Scratch::take(n * depth));
        let a = words(pairs, a, m, k, left.slice());
        // The right factor's columns are the rows of its transpose.
        let b = words(pairs, b.t(), n, k, right.slice()).t();
        let b = Right::new(b.data, b.row, b.col, depth, n);
        product_with(pairs, Shape { m, n, k: depth }, a, b, c, chain);
    });
}

/// The `[rows, k]` view as words `[rows, k/2]`, in the order of the view.
#[cfg(target_arch = "x86_64")]
fn words<'s>(pairs: Pairs, view: Strided<'_>, rows: usize, k: usize, to: &'s mut [f32]) -> Strided<'s> {
    let depth = k.div_ceil(2);
    if rows == 0 || k == 0 {
        return Strided { data: to, row: depth, col: 1 };
    }
    if view.row == 1 && view.col > 1 {
        // Depths lie in rows of the data: two of them are zipped.
        let line = |p: usize| &view.data[p * view.col..][..rows];
        let (zeros, run) = (vec![0.0; if k % 2 == 1 { rows } else { 0 }], rows_per_task(rows));
        to.par_chunks_mut(rows).enumerate().with_min_len(run.max(least_run())).for_each(|(p, to)| {
            let odd = if 2 * p + 1 < k { line(2 * p + 1) } else { &zeros };
            pairs.zip(line(2 * p), odd, to);
        });
        return Strided { data: to, row: 1, col: rows };
    }
    let (dense, run) = (view.col == 1, rows_per_task(k));
    to.par_chunks_mut(depth).enumerate().with_min_len(run.max(least_run())).for_each(|(i, to)| {
        if dense {
            pairs.words(&view.data[i * view.row..][..k], to);
        } else {
            let row: Vec<f32> = (0..k).map(|p| view.data[i * view.row + p * view.col]).collect();
            pairs.words(&row, to);
        }
    });
    Strided { data: to, row: depth, col: 1 }
}
