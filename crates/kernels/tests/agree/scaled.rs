//! Products with weights of four bits and factors are bit-identical to their twin of bytes, and the bits are well chosen.

use demask_kernels::{Bits, QuantizedWeights, Scales, Weights};
use half::f16;
use proptest::prelude::*;

use crate::gemm_quantized::run;
use crate::{each_isa, naive, noise, same};

/// The packed form as it is documented, written here a second time: what column `col` of a panel has at depth `p`, as a place
/// of its factor, a place of its bits and their shift. Groups are whole chunks of 128 but for the last.
fn place(col: usize, p: usize) -> (usize, usize, u32) {
    let (chunk, within) = (p / 128, p % 128);
    let start = chunk * 17 * 64;
    let byte = start + 64 + within / 8 * 64 + col * 4 + within % 4;
    (start + col * 4 + within / 32, byte, if within % 8 < 4 { 0 } else { 4 })
}

/// Random packed weights, and the bytes they stand for as `[n, k]`.
fn random(n: usize, k: usize, group: usize, seed: u64) -> (QuantizedWeights<'static>, Vec<i8>, Vec<f32>) {
    let len = QuantizedWeights::packed_len(n, k, group, Bits::FourScaled).expect("a valid group");
    let random = |len, seed| noise(len, seed).into_iter().map(|x| ((x + 1.0) * 128.0).min(255.0) as u8);
    let mut packed: Vec<u8> = random(len, seed).collect();
    let (panels, groups) = (n.div_ceil(16), k.div_ceil(group));
    let panel = len.checked_div(panels).unwrap_or(0);
    let (mut q, mut factors) = (vec![0_i8; n * k], random(len, seed ^ 5).cycle());
    for at in
        (0..panels).flat_map(|p| (0..panel / 64).filter(|b| b % 17 == 0).map(move |b| p * panel + b * 64))
    {
        for byte in &mut packed[at..at + 64] {
            let random = factors.next().unwrap_or(0);
            *byte = (1 + random % 15) | ((7 + random / 128) << 4);
        }
    }
    let scales: Vec<f16> = noise(panels * groups * 16, seed ^ 1).into_iter().map(f16::from_f32).collect();
    let mut wide = vec![0.0; n * groups];
    for j in 0..n {
        for p in 0..k {
            let (factor, byte, shift) = place(j % 16, p);
            let (factor, n) = (packed[j / 16 * panel + factor], packed[j / 16 * panel + byte] >> shift & 15);
            q[j * k + p] = (factor & 15) as i8 * (n as i8 - (factor >> 4) as i8);
        }
        for g in 0..groups {
            wide[j * groups + g] = scales[(j / 16 * groups + g) * 16 + j % 16].to_f32();
        }
    }
    let weights = QuantizedWeights::from_packed(packed, Scales::Factored(scales.into()), n, k, group);
    (weights.expect("whole slices"), q, wide)
}

proptest! {
    #![proptest_config(crate::cases(60))]

    #[test]
    fn factors_are_the_twins_bytes(
        m in 0usize..70, k in 1usize..600, n in 0usize..120, groups in 1usize..3, with_bias: bool, seed: u64,
    ) {
        let group = 128 * groups;
        let (a, bias) = (noise(m * k, seed), noise(n, seed ^ 3));
        let bias = with_bias.then_some(&bias[..]);
        let (w, q, scales) = random(n, k, group, seed);
        let twin = naive::Quantized { q: &q, scales: &scales, offsets: None, group };
        let expected = naive::gemm_quantized(&a, m, k, twin, n, bias);
        let mut result = Ok(());
        each_isa(|isa| {
            let found = same(&run(&a, m, &w, bias), &expected).map_err(|e| format!("{}: {e}", isa.name()));
            result = result.clone().and(found);
        });
        prop_assert_eq!(result, Ok(()));
        for j in 0..n {
            let scale = |p: usize| scales[j * k.div_ceil(group) + p / group];
            let row: Vec<f32> = (0..k).map(|p| scale(p) * f32::from(q[j * k + p])).collect();
            prop_assert_eq!(same(&w.row(j), &row), Ok(()));
        }
    }

    /// Hardly worse than groups of 32 with a scale of their own each, and every instruction set and number format chooses alike.
    #[test]
    fn factors_are_well_chosen(k in 64usize..400, seed: u64) {
        let halves: Vec<f16> = noise(16 * k, seed).iter().map(|&w| f16::from_f32(w * w * w)).collect();
        let w: Vec<f32> = halves.iter().map(|w| w.to_f32()).collect();
        let quantize = |w| QuantizedWeights::quantize_scaled(w, 16, k, 128, None).expect("a valid shape");
        let found = quantize(Weights::F32(&w));
        each_isa(|_| assert_eq!(quantize(Weights::F16(&halves)).packed(), found.packed()));
        let alone = QuantizedWeights::quantize_four(Weights::F32(&w), 16, k, 32, None).expect("a valid shape");
        let error = |q: &QuantizedWeights<'_>| -> f32 {
            w.chunks(k).enumerate().map(|(j, w)| {
                w.iter().zip(q.row(j)).map(|(w, q)| (w - q) * (w - q)).sum::<f32>()
            }).sum()
        };
        prop_assert!(error(&found) <= error(&alone) * 1.15, "{} and {}", error(&found), error(&alone));
    }
}

/// A weight that is not finite makes its output NaN and no other; zeros stay zero.
#[test]
fn special_weights() {
    let (m, k, n) = (5, 200, 18);
    let (a, mut w) = (noise(m * k, 1), noise(n * k, 2));
    w[3 * k + 7] = f32::NAN;
    w[4 * k + 160] = f32::INFINITY;
    w[5 * k..6 * k].fill(0.0);
    let w = QuantizedWeights::quantize_scaled(Weights::F32(&w), n, k, 128, None).expect("a valid shape");
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

/// Four bits, a byte every 32 and a half-precision scale every 128: 4.375 bits a weight; other groups are refused.
#[test]
fn size() {
    let (n, k) = (64, 512);
    let values = noise(n * k, 1);
    let quantize = |group| QuantizedWeights::quantize_scaled(Weights::F32(&values), n, k, group, None);
    assert_eq!(quantize(128).expect("a valid shape").size_in_bytes() * 8, n * k * 35 / 8);
    assert!(quantize(64).expect_err("half a chunk").to_string().contains("multiple of 128"));
}

/// Where the error of a depth counts more, it is smaller.
#[test]
fn importance_is_heeded() {
    let (n, k) = (16, 256);
    let w = noise(n * k, 4);
    let importance: Vec<f32> = (0..k).map(|p| if p % 8 == 3 { 1000.0 } else { 1.0 }).collect();
    let error = |importance: Option<&[f32]>| -> f32 {
        let q = QuantizedWeights::quantize_scaled(Weights::F32(&w), n, k, 128, importance);
        let q = q.expect("a valid shape");
        let rows = (0..n).flat_map(|j| q.row(j));
        let squares = w.iter().zip(rows).enumerate().filter(|(i, _)| i % k % 8 == 3);
        squares.map(|(_, (w, q))| (w - q) * (w - q)).sum()
    };
    assert!(error(Some(&importance)) < 0.9 * error(None));
}
