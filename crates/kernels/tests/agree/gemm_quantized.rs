//! The product with bytes is bit-identical to its twin whatever the shape, group, threads, batch and instruction set.

use std::borrow::Cow;

use demask_kernels::{
    Bits, Product, QuantizeError, QuantizedWeights, Scales, Weights, gemm_quantized, gemm_quantized_each,
    gemm_silu_gate, peak_four, peak_int8, silu_gate,
};
use half::{bf16, f16};
use proptest::prelude::*;

use crate::{each_isa, naive, noise, same};

/// Scales of bytes.
fn single<'a>(w: &'a QuantizedWeights<'_>) -> &'a [f32] {
    let Scales::Single(scales) = w.scales() else { panic!("scales of bytes are in single precision") };
    scales
}

pub(crate) fn run(a: &[f32], m: usize, w: &QuantizedWeights<'_>, bias: Option<&[f32]>) -> Vec<f32> {
    let mut c = vec![f32::NAN; m * w.n()];
    gemm_quantized(a, m, w, bias, &mut c);
    c
}

proptest! {
    #![proptest_config(crate::cases(60))]

    #[test]
    fn bytes_are_the_twins_sum(
        m in 0usize..70, k in 0usize..300, n in 0usize..120, group in 1usize..140, with_bias: bool, seed: u64,
    ) {
        let (a, w, bias) = (noise(m * k, seed), noise(n * k, seed ^ 1), noise(n, seed ^ 2));
        let bias = with_bias.then_some(&bias[..]);
        let (q, scales) = if k == 0 { (vec![], vec![]) } else { naive::quantize_rows(&w, k, group) };
        let expected =
            if k == 0 { naive::gemm(&a, m, k, Weights::F32(&w), n, bias) }
            else { naive::gemm_quantized(&a, m, k, naive::Quantized { q: &q, scales: &scales, offsets: None, group }, n, bias) };
        let quantized = QuantizedWeights::quantize(Weights::F32(&w), n, k, group).expect("a valid shape");
        let mut result = Ok(());
        each_isa(|isa| {
            let found = same(&run(&a, m, &quantized, bias), &expected).map_err(|e| format!("{}: {e}", isa.name()));
            result = result.clone().and(found);
        });
        prop_assert_eq!(result, Ok(()));
    }

    #[test]
    fn every_way_in_packs_the_same(k in 1usize..200, n in 1usize..50, group in 1usize..100, seed: u64) {
        let halves: Vec<f16> = noise(n * k, seed).iter().map(|&w| f16::from_f32(w)).collect();
        let short: Vec<bf16> = halves.iter().map(|w| bf16::from_f32(w.to_f32())).collect();
        let w: Vec<f32> = halves.iter().map(|w| w.to_f32()).collect();
        let shorter: Vec<f32> = short.iter().map(|w| w.to_f32()).collect();
        let quantize = |w| QuantizedWeights::quantize(w, n, k, group).expect("a valid shape");
        let whole = quantize(Weights::F32(&w));
        let (q, scales) = naive::quantize_rows(&w, k, group);
        let rows = QuantizedWeights::from_rows(&q, &scales, n, k, group).expect("a valid shape");
        let stored = QuantizedWeights::from_packed(whole.packed(), whole.scales().clone(), n, k, group).expect("what was stored");
        for other in [&rows, &stored, &quantize(Weights::F16(&halves))] {
            prop_assert_eq!(other.packed(), whole.packed());
            prop_assert_eq!(single(other), single(&whole));
        }
        let (short, shorter) = (quantize(Weights::Bf16(&short)), quantize(Weights::F32(&shorter)));
        prop_assert_eq!(short.packed(), shorter.packed());
        for j in 0..n {
            let expected: Vec<f32> = (0..k)
                .map(|p| scales[j * k.div_ceil(group) + p / group] * f32::from(q[j * k + p]))
                .collect();
            prop_assert_eq!(same(&whole.row(j), &expected), Ok(()));
        }
    }
}

/// The largest byte products meet in one sum: nothing saturates.
#[test]
fn extreme_bytes_are_exact() {
    let (m, k, n) = (9, 4096, 20);
    let a: Vec<f32> = (0..m * k).map(|i| if i / k % 2 == 0 { 127.0 } else { -127.0 }).collect();
    let q: Vec<i8> = (0..n * k).map(|i| if i / k % 3 == 0 { 127 } else { -127 }).collect();
    for group in [32, 512, 4096] {
        let scales = vec![1.0; n * (k / group)];
        let w = QuantizedWeights::from_rows(&q, &scales, n, k, group).expect("a valid shape");
        each_isa(|isa| {
            for (i, c) in run(&a, m, &w, None).chunks(n).enumerate() {
                for (j, &c) in c.iter().enumerate() {
                    let sign = if (i % 2 == 0) == (j % 3 == 0) { 1.0 } else { -1.0 };
                    assert_eq!(c, sign * (127 * 127 * k) as f32, "{} group {group}", isa.name());
                }
            }
        });
    }
}

/// A number that is not finite shows in its own row and no other; zeros and denormals give zero.
#[test]
fn special_rows() {
    let (m, k, n) = (7, 96, 33);
    let w = noise(n * k, 3);
    let w = QuantizedWeights::quantize(Weights::F32(&w), n, k, 32).expect("a valid shape");
    let mut a = noise(m * k, 4);
    a[k + 40] = f32::NAN;
    a[2 * k + 95] = f32::NEG_INFINITY;
    a[3 * k..4 * k].fill(f32::MIN_POSITIVE / 4.0);
    a[4 * k..5 * k].fill(0.0);
    each_isa(|isa| {
        let c = run(&a, m, &w, None);
        for (i, row) in c.chunks(n).enumerate() {
            let right = match i {
                1 | 2 => row.iter().all(|c| c.is_nan()),
                3 | 4 => row.iter().all(|&c| c == 0.0),
                _ => row.iter().all(|c| c.is_finite() && *c != 0.0),
            };
            assert!(right, "{} row {i}: {row:?}", isa.name());
        }
    });
}

#[test]
fn a_row_does_not_know_its_batch() {
    let (m, k, n) = (203, 700, 530);
    let (a, w) = (noise(m * k, 5), noise(n * k, 6));
    let w = QuantizedWeights::quantize(Weights::F32(&w), n, k, 64).expect("a valid shape");
    let whole = run(&a, m, &w, None);
    for threads in [1, 2, 5] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
        assert_eq!(same(&pool.install(|| run(&a, m, &w, None)), &whole), Ok(()), "{threads} threads");
    }
    for rows in [0..1, 17..18, 100..107, 150..203] {
        let found = run(&a[rows.start * k..rows.end * k], rows.len(), &w, None);
        assert_eq!(same(&found, &whole[rows.start * n..rows.end * n]), Ok(()), "{rows:?}");
    }
}

#[test]
fn empty_shapes() {
    for (m, k, n) in [(0, 5, 7), (3, 0, 7), (3, 5, 0)] {
        let (a, w, bias) = (noise(m * k, 7), noise(n * k, 8), noise(n, 9));
        let w = QuantizedWeights::quantize(Weights::F32(&w), n, k, 32).expect("a valid shape");
        each_isa(|isa| {
            let found = run(&a, m, &w, Some(&bias));
            assert_eq!(found.len(), m * n);
            let right = k > 0 || found.chunks(n).all(|row| same(row, &bias).is_ok());
            assert!(right, "{} {m}x{k}x{n}: {found:?}", isa.name());
        });
    }
}

#[test]
fn wrong_shapes_are_refused() {
    let short = QuantizedWeights::quantize(Weights::F32(&[0.0; 5]), 2, 3, 32);
    assert!(matches!(short, Err(QuantizeError::Length { expected: 6, found: 5, .. })));
    assert_eq!(QuantizedWeights::packed_len(17, 6, 4, Bits::Eight), Ok(2 * 16 * 8));
    assert_eq!(QuantizedWeights::scales_len(17, 6, 4), Ok(2 * 2 * 16));
    let cut =
        QuantizedWeights::from_packed(&[0u8; 255][..], Scales::Single(Cow::Borrowed(&[0.0; 64])), 17, 6, 4);
    assert!(matches!(cut, Err(QuantizeError::Length { expected: 256, found: 255, .. })));
    assert_eq!(
        QuantizedWeights::quantize(Weights::F32(&[]), 0, 0, 0).map(|w| w.n()),
        Err(QuantizeError::Group(0))
    );
}

#[test]
fn the_peak_is_positive() {
    each_isa(|isa| {
        let rates = [peak_int8(), peak_four(), demask_kernels::peak_fma()];
        assert!(rates.iter().all(|&rate| rate > 1e6), "{}: {rates:?}", isa.name());
    });
    assert!(demask_kernels::bandwidth() > 1e6);
}

/// Products that share their activations, and a gate that is never in memory, change no number; some are grouped
/// differently and cannot share.
#[test]
fn sharing_changes_nothing() {
    for (m, k, n) in [(1, 40, 16), (7, 96, 37), (66, 300, 130), (530, 64, 100)] {
        let a = noise(m * k, 10);
        let weights: Vec<QuantizedWeights<'_>> = [(n, 32), (n / 2, 32), (n, 64), (n, 64)]
            .into_iter()
            .enumerate()
            .map(|(seed, (n, group))| {
                let w = noise(n * k, 20 + seed as u64);
                if m % 2 == 1 {
                    QuantizedWeights::quantize(Weights::F32(&w), n, k, group).expect("a valid shape")
                } else {
                    QuantizedWeights::quantize_four(Weights::F32(&w), n, k, group, None)
                        .expect("a valid shape")
                }
            })
            .collect();
        let bias = noise(n, 30);
        let biases = [Some(&bias[..]), None, Some(&bias[..]), None];
        each_isa(|isa| {
            let apart: Vec<Vec<f32>> = weights.iter().zip(biases).map(|(w, b)| run(&a, m, w, b)).collect();
            let mut together: Vec<Vec<f32>> = weights.iter().map(|w| vec![f32::NAN; m * w.n()]).collect();
            let mut products: Vec<Product<'_>> = weights
                .iter()
                .zip(biases)
                .zip(&mut together)
                .map(|((w, bias), c)| Product { w, bias, c })
                .collect();
            gemm_quantized_each(&a, m, &mut products);
            for (apart, together) in apart.iter().zip(&together) {
                assert_eq!(same(together, apart), Ok(()), "{} {m}x{k}x{n}", isa.name());
            }
            for (gate, up) in [(2, 3), (0, 3)] {
                let mut expected = vec![0.0; m * n];
                let (g, u) = (run(&a, m, &weights[gate], None), run(&a, m, &weights[up], None));
                silu_gate(&g, &u, &mut expected);
                let mut found = vec![f32::NAN; m * n];
                gemm_silu_gate(&a, m, &weights[gate], &weights[up], &mut found);
                assert_eq!(same(&found, &expected), Ok(()), "{} {m}x{k}x{n} gated", isa.name());
            }
        });
    }
}
