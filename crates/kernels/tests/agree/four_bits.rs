//! Products with weights of four bits are bit-identical to their twin, with and without offsets, and the bits are well
//! chosen.

use demask_kernels::{QuantizedWeights, Scales, Weights};
use half::f16;
use proptest::prelude::*;

use crate::gemm_quantized::run;
use crate::{each_isa, naive, noise, same};

/// Numbers 0..=15, scales and offsets of a matrix.
fn random(n: usize, k: usize, group: usize, seed: u64) -> (Vec<u8>, Vec<f16>, Vec<f16>) {
    let q = noise(n * k, seed).iter().map(|x| ((x + 1.0) * 8.0).min(15.0) as u8).collect();
    let halves = |seed| noise(n * k.div_ceil(group), seed).iter().map(|&x| f16::from_f32(x)).collect();
    (q, halves(seed ^ 1), halves(seed ^ 2))
}

fn wide(halves: &[f16]) -> Vec<f32> {
    halves.iter().map(|h| h.to_f32()).collect()
}

fn signed(q: &[u8]) -> Vec<i8> {
    q.iter().map(|&q| q as i8 - 8).collect()
}

proptest! {
    #![proptest_config(crate::cases(60))]

    #[test]
    fn four_bits_are_the_twins_sum(
        m in 0usize..70, k in 1usize..300, n in 0usize..120, group in 1usize..140, with_bias: bool, shifted: bool,
        seed: u64,
    ) {
        let (a, bias) = (noise(m * k, seed), noise(n, seed ^ 3));
        let bias = with_bias.then_some(&bias[..]);
        let (q, scales, offsets) = random(n, k, group, seed);
        let offsets = shifted.then_some(&offsets[..]);
        let w = QuantizedWeights::from_nibbles(&q, &scales, offsets, n, k, group).expect("a valid shape");
        let wide_offsets = offsets.map(wide);
        let twin = naive::Quantized { q: &signed(&q), scales: &wide(&scales), offsets: wide_offsets.as_deref(), group };
        let expected = naive::gemm_quantized(&a, m, k, twin, n, bias);
        let mut result = Ok(());
        each_isa(|isa| {
            let found = same(&run(&a, m, &w, bias), &expected).map_err(|e| format!("{}: {e}", isa.name()));
            result = result.clone().and(found);
        });
        prop_assert_eq!(result, Ok(()));
        for j in 0..n {
            let row: Vec<f32> = (0..k)
                .map(|p| {
                    let at = j * k.div_ceil(group) + p / group;
                    let w = scales[at].to_f32() * (f32::from(q[j * k + p]) - 8.0);
                    offsets.map_or(w, |offsets| w + offsets[at].to_f32())
                })
                .collect();
            prop_assert_eq!(same(&w.row(j), &row), Ok(()));
        }
    }

    /// The scale is no worse than that of plain rounding, where large weights count more, and every instruction set and
    /// number format chooses alike.
    #[test]
    fn scales_are_well_chosen(k in 1usize..200, group in 1usize..100, seed: u64) {
        let halves: Vec<f16> = noise(3 * k, seed).iter().map(|&w| f16::from_f32(w)).collect();
        let w: Vec<f32> = wide(&halves);
        let quantize = |w| QuantizedWeights::quantize_four(w, 3, k, group, None).expect("a valid shape");
        let found = quantize(Weights::F32(&w));
        each_isa(|_| assert_eq!(quantize(Weights::F16(&halves)).packed(), found.packed()));
        let (mut error, mut plain, mut rounded) = (0.0, 0.0, 0.0);
        for j in 0..3 {
            for (exact, found) in w[j * k..(j + 1) * k].chunks(group).zip(found.row(j).chunks(group)) {
                let most = exact.iter().fold(0.0f32, |m, w| m.max(w.abs()));
                let mean = exact.iter().map(|w| w * w).sum::<f32>() / exact.len() as f32;
                for (exact, found) in exact.iter().zip(found) {
                    let counts = f64::from(exact * exact + mean);
                    error += counts * f64::from(exact - found).powi(2);
                    // What half precision may take from a scale, which plain rounding here does not have.
                    rounded += counts * f64::from(exact / 2048.0).powi(2);
                    let scale = most / 7.0;
                    plain += counts * f64::from(exact - scale * (exact / scale).round()).powi(2);
                }
            }
        }
        prop_assert!(error <= plain * 1.01 + rounded + 1e-9, "{error} is more than {plain}");
    }
}

/// The largest products meet in one word and in one sum: nothing saturates.
#[test]
fn extreme_numbers_are_exact() {
    let (m, k, n) = (9, 4096, 20);
    let a: Vec<f32> = (0..m * k).map(|i| if i / k % 2 == 0 { 127.0 } else { -127.0 }).collect();
    let q: Vec<u8> = (0..n * k).map(|i| if i / k % 3 == 0 { 15 } else { 0 }).collect();
    for group in [32, 512, 4096] {
        let scales = vec![f16::ONE; n * (k / group)];
        let w = QuantizedWeights::from_nibbles(&q, &scales, None, n, k, group).expect("a valid shape");
        each_isa(|isa| {
            for (i, c) in run(&a, m, &w, None).chunks(n).enumerate() {
                for (j, &c) in c.iter().enumerate() {
                    let (sign, q) = (if i % 2 == 0 { 1 } else { -1 }, if j % 3 == 0 { 7 } else { -8 });
                    assert_eq!(c, (sign * q * 127 * k as i32) as f32, "{} group {group}", isa.name());
                }
            }
        });
    }
}

/// A weight that is not finite makes its output NaN and no other; zeros stay zero.
#[test]
fn special_weights() {
    let (m, k, n) = (5, 64, 18);
    let (a, mut w) = (noise(m * k, 1), noise(n * k, 2));
    w[3 * k + 7] = f32::NAN;
    w[4 * k + 60] = f32::INFINITY;
    w[5 * k..6 * k].fill(0.0);
    let w = QuantizedWeights::quantize_four(Weights::F32(&w), n, k, 32, None).expect("a valid shape");
    each_isa(|isa| {
        for row in run(&a, m, &w, None).chunks(n) {
            for (j, c) in row.iter().enumerate() {
                let right = match j {
                    3 | 4 => c.is_nan(),
                    5 => *c == 0.0,
                    _ => c.is_finite(),
                };
                assert!(right, "{} column {j}: {c}", isa.name());
            }
        }
    });
}

/// Four bits and a half-precision scale a group: what a laptop has to hold.
#[test]
fn size() {
    let (n, k) = (64, 512);
    let w = QuantizedWeights::quantize_four(Weights::F32(&noise(n * k, 1)), n, k, 32, None)
        .expect("a valid shape");
    assert_eq!(w.size_in_bytes() * 8, n * k * 9 / 2);
    let Scales::Half(scales, None) = w.scales() else { panic!("half precision and no offsets") };
    let again =
        QuantizedWeights::from_packed(w.packed(), w.scales().clone(), n, k, 32).expect("what was stored");
    assert_eq!(again.row(5), w.row(5));
    let short = Scales::Half(scales[1..].to_vec().into(), None);
    assert!(QuantizedWeights::from_packed(w.packed(), short, n, k, 32).is_err());
}

/// Where the error of a depth counts more, it is smaller.
#[test]
fn importance_is_heeded() {
    let (n, k) = (16, 128);
    let w = noise(n * k, 4);
    let importance: Vec<f32> = (0..k).map(|p| if p % 8 == 3 { 1000.0 } else { 1.0 }).collect();
    let error = |importance: Option<&[f32]>| -> f32 {
        let q =
            QuantizedWeights::quantize_four(Weights::F32(&w), n, k, 32, importance).expect("a valid shape");
        let rows = (0..n).flat_map(|j| q.row(j));
        let squares = w.iter().zip(rows).enumerate().filter(|(i, _)| i % k % 8 == 3);
        squares.map(|(_, (w, q))| (w - q) * (w - q)).sum()
    };
    assert!(error(Some(&importance)) < 0.9 * error(None));
}
