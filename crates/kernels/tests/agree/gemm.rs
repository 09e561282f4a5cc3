//! Products are bit-identical to the twin: one chain per element whatever the shape, threads, batch and instruction set.

use demask_kernels::{Shape, Strided, Weights, gemm, has_bf16_products, matmul, matmul_bf16};
use half::{bf16, f16};
use proptest::prelude::*;

use crate::{each_isa, naive, near, noise, same};

fn run(a: &[f32], m: usize, k: usize, w: Weights<'_>, n: usize, bias: Option<&[f32]>) -> Vec<f32> {
    let mut c = vec![f32::NAN; m * n];
    gemm(a, m, k, w, n, bias, &mut c);
    c
}

proptest! {
    #![proptest_config(crate::cases(40))]

    #[test]
    fn gemm_is_the_twins_chain(m in 0usize..40, k in 0usize..600, n in 0usize..70, with_bias: bool, seed: u64) {
        let (a, w, bias) = (noise(m * k, seed), noise(n * k, seed ^ 1), noise(n, seed ^ 2));
        let bias = with_bias.then_some(&bias[..]);
        let (wb, wh): (Vec<_>, Vec<_>) = w.iter().map(|&w| (bf16::from_f32(w), f16::from_f32(w))).unzip();
        for w in [Weights::F32(&w), Weights::Bf16(&wb), Weights::F16(&wh)] {
            let expected = naive::gemm(&a, m, k, w, n, bias);
            let mut result = Ok(());
            each_isa(|isa| {
                let found = same(&run(&a, m, k, w, n, bias), &expected).map_err(|e| format!("{}: {e}", isa.name()));
                result = result.clone().and(found);
            });
            prop_assert_eq!(result, Ok(()));
        }
    }

    #[test]
    fn matmul_is_the_twins_chain(
        m in 1usize..40, k in 1usize..600, n in 1usize..70, turned: (bool, bool), gap in 0usize..3, carry: bool, seed: u64,
    ) {
        let strided = |rows: usize, cols: usize, turned: bool| if turned { (1 + gap % 2, 2 * rows + gap) } else { (2 * cols + gap, 1 + gap % 2) };
        let ((ar, ac), (br, bc)) = (strided(m, k, turned.0), strided(k, n, turned.1));
        let (a, b, c) = (noise(m * ar + k * ac, seed), noise(k * br + n * bc, seed ^ 1), noise(m * n, seed ^ 2));
        let (a, b) = (Strided { data: &a, row: ar, col: ac }, Strided { data: &b, row: br, col: bc });
        let shape = Shape { m, n, k };
        let mut expected = if carry { c.clone() } else { vec![0.0; m * n] };
        naive::matmul(shape, a, b, &mut expected);
        let mut result = Ok(());
        each_isa(|isa| {
            let mut found = c.clone();
            matmul(shape, a, b, &mut found, carry);
            let found = same(&found, &expected).map_err(|e| format!("{}: {e}", isa.name()));
            result = result.clone().and(found);
        });
        prop_assert_eq!(result, Ok(()));
    }
}

proptest! {
    #![proptest_config(crate::cases(40))]

    /// Where factors are rounded: the exact product of the rounded factors, but for the rounding of its sums. Elsewhere the
    /// twin's chain over factors as they are.
    #[test]
    fn matmul_bf16_rounds_factors_and_nothing_else(
        m in 1usize..40, k in 1usize..600, n in 1usize..70, turned: (bool, bool), gap in 0usize..3, carry: bool, seed: u64,
    ) {
        let strided = |rows: usize, cols: usize, turned: bool| if turned { (1 + gap % 2, 2 * rows + gap) } else { (2 * cols + gap, 1 + gap % 2) };
        let ((ar, ac), (br, bc)) = (strided(m, k, turned.0), strided(k, n, turned.1));
        let (a, b, c) = (noise(m * ar + k * ac, seed), noise(k * br + n * bc, seed ^ 1), noise(m * n, seed ^ 2));
        let mut result = Ok(());
        each_isa(|isa| {
            let round = |x: &[f32]| -> Vec<f32> {
                let rounds = has_bf16_products();
                x.iter().map(|&x| if rounds { bf16::from_f32(x).to_f32() } else { x }).collect()
            };
            let (left, right) = (round(&a), round(&b));
            let at = |i: usize, j: usize| {
                let products = (0..k).map(|p| f64::from(left[i * ar + p * ac]) * f64::from(right[p * br + j * bc]));
                products.sum::<f64>() + if carry { f64::from(c[i * n + j]) } else { 0.0 }
            };
            let expected: Vec<f64> = (0..m * n).map(|e| at(e / n, e % n)).collect();
            let (a, b) = (Strided { data: &a, row: ar, col: ac }, Strided { data: &b, row: br, col: bc });
            let mut found = c.clone();
            matmul_bf16(Shape { m, n, k }, a, b, &mut found, carry);
            result = result.clone().and(near(&found, &expected, 1e-4).map_err(|e| format!("{}: {e}", isa.name())));
        });
        prop_assert_eq!(result, Ok(()));
    }
}

/// Denormals, infinities and NaN take the twin's path too.
#[test]
fn special_values_follow_the_chain() {
    let (m, k, n) = (7, 37, 19);
    let special =
        [f32::MIN_POSITIVE / 8.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, 1e-38];
    for &value in &special {
        let (mut a, mut w) = (noise(m * k, 3), noise(n * k, 4));
        a[2 * k + 5] = value;
        w[11 * k + 30] = value;
        let expected = naive::gemm(&a, m, k, Weights::F32(&w), n, None);
        each_isa(|isa| {
            let found = run(&a, m, k, Weights::F32(&w), n, None);
            same(&found, &expected).unwrap_or_else(|e| panic!("{} with {value:e}: {e}", isa.name()));
        });
    }
}

/// A row gives the same bits alone, in any batch and on any number of threads.
#[test]
fn a_row_does_not_know_its_batch() {
    let (m, k, n) = (301, 700, 530);
    let (a, w) = (noise(m * k, 5), noise(n * k, 6));
    let w = Weights::F32(&w);
    each_isa(|isa| {
        if isa == demask_kernels::Isa::Generic {
            return;
        }
        let whole = run(&a, m, k, w, n, None);
        for threads in [1, 2, 5] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
            let found = pool.install(|| run(&a, m, k, w, n, None));
            same(&found, &whole).unwrap_or_else(|e| panic!("{threads} threads: {e}"));
        }
        for rows in [0..1, 17..18, 100..107, 290..301] {
            let found = run(&a[rows.start * k..rows.end * k], rows.len(), k, w, n, None);
            same(&found, &whole[rows.start * n..rows.end * n]).unwrap_or_else(|e| panic!("{rows:?}: {e}"));
        }
    });
}

/// No rows, no columns or no depth is a product too.
#[test]
fn empty_shapes() {
    for (m, k, n) in [(0, 5, 7), (3, 0, 7), (3, 5, 0), (0, 0, 0)] {
        let (a, w, bias) = (noise(m * k, 7), noise(n * k, 8), noise(n, 9));
        let expected = naive::gemm(&a, m, k, Weights::F32(&w), n, Some(&bias));
        each_isa(|isa| {
            let found = run(&a, m, k, Weights::F32(&w), n, Some(&bias));
            same(&found, &expected).unwrap_or_else(|e| panic!("{} {m}x{k}x{n}: {e}", isa.name()));
        });
    }
}

#[test]
fn instruction_sets_are_found_by_name() {
    for isa in demask_kernels::Isa::ALL {
        assert_eq!(demask_kernels::Isa::named(isa.name()), Some(isa));
    }
    assert_eq!(demask_kernels::Isa::named("abacus"), None);
}
