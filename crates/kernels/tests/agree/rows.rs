//! Row and element operations: normalisation, rotary embedding, gate, softmax statistics, total variation.

use demask_kernels::{
    Isa, Pointwise, layer_norm, pointwise, rms_norm, rms_norm_backward, rope, silu_gate, silu_gate_backward,
    softmax_stats, total_variation,
};
use proptest::prelude::*;

use crate::{each_isa, naive, near, noise, same, slope, weighted, wide};

const EPS: f32 = 1e-6;

/// Runs a check on every instruction set and names the one that failed.
fn all(check: impl Fn() -> Result<(), String>) -> Result<(), String> {
    let mut result = Ok(());
    each_isa(|isa: Isa| {
        if result.is_ok() {
            result = check().map_err(|e| format!("{}: {e}", isa.name()));
        }
    });
    result
}

proptest! {
    #![proptest_config(crate::cases(48))]

    #[test]
    fn rms_norm_agrees(rows in 0usize..9, width in 1usize..300, seed: u64) {
        let (x, weight) = (noise(rows * width, seed), noise(width, seed ^ 1));
        let expected = naive::rms_norm(&wide(&x), &wide(&weight), f64::from(EPS));
        prop_assert_eq!(all(|| {
            let mut out = vec![f32::NAN; x.len()];
            rms_norm(&x, &weight, EPS, &mut out);
            near(&out, &expected, 2e-6)
        }), Ok(()));
    }

    #[test]
    fn layer_norm_agrees(rows in 0usize..9, width in 1usize..300, far in -3f32..3.0, seed: u64) {
        // Rows away from zero: a variance about zero would drown in the mean.
        let x: Vec<f32> = noise(rows * width, seed).iter().map(|x| x + far).collect();
        let (weight, bias) = (noise(width, seed ^ 1), noise(width, seed ^ 2));
        let expected = naive::layer_norm(&wide(&x), &wide(&weight), &wide(&bias), 1e-3);
        prop_assert_eq!(all(|| {
            let mut out = vec![f32::NAN; x.len()];
            layer_norm(&x, &weight, &bias, 1e-3, &mut out);
            near(&out, &expected, 2e-5)
        }), Ok(()));
    }

    #[test]
    fn functions_of_one_number_agree(len in 0usize..200, seed: u64) {
        let x: Vec<f32> = noise(len, seed).iter().map(|x| x * 6.0).collect();
        let root = (2.0 / std::f64::consts::PI).sqrt();
        let exact = |which: Pointwise, x: f64| match which {
            Pointwise::Gelu => 0.5 * x * (1.0 + naive::erf(x / 2f64.sqrt())),
            Pointwise::GeluTanh => 0.5 * x * (1.0 + (root * (x + 0.044715 * x.powi(3))).tanh()),
            Pointwise::Relu => x.max(0.0),
        };
        for which in [Pointwise::Gelu, Pointwise::GeluTanh, Pointwise::Relu] {
            let expected: Vec<f64> = x.iter().map(|&x| exact(which, f64::from(x))).collect();
            prop_assert_eq!(all(|| {
                let mut out = x.clone();
                pointwise(which, &mut out);
                near(&out, &expected, 1e-6)
            }), Ok(()));
        }
    }

    #[test]
    fn rms_norm_backward_is_the_slope(rows in 1usize..150, width in 1usize..40, seed: u64) {
        let (x, weight, pull) = (noise(rows * width, seed), noise(width, seed ^ 1), noise(rows * width, seed ^ 2));
        // Rows near zero have slopes too steep for differences.
        let x: Vec<f32> = x.iter().map(|x| x + x.signum()).collect();
        prop_assert_eq!(all(|| {
            let (mut grad_x, mut grad_weight) = (vec![f32::NAN; x.len()], vec![1.0; width]);
            rms_norm_backward(&x, &weight, EPS, &pull, &mut grad_x, &mut grad_weight);
            grad_weight.iter_mut().for_each(|g| *g -= 1.0);
            let eps = f64::from(EPS);
            slope(&x, &grad_x, seed, |x| weighted(&naive::rms_norm(x, &wide(&weight), eps), &pull))?;
            slope(&weight, &grad_weight, seed, |w| weighted(&naive::rms_norm(&wide(&x), w, eps), &pull))
        }), Ok(()));
    }

    #[test]
    fn silu_gate_agrees_and_its_gradient_is_the_slope(len in 1usize..70, scale in 0.1f32..30.0, seed: u64) {
        let (gate, up, pull) = (noise(len, seed), noise(len, seed ^ 1), noise(len, seed ^ 2));
        let gate: Vec<f32> = gate.iter().map(|g| g * scale).collect();
        let expected = naive::silu_gate(&wide(&gate), &wide(&up));
        prop_assert_eq!(all(|| {
            let mut out = vec![f32::NAN; len];
            silu_gate(&gate, &up, &mut out);
            near(&out, &expected, 1e-6)?;
            let (mut grad_gate, mut grad_up) = (vec![f32::NAN; len], vec![f32::NAN; len]);
            silu_gate_backward(&gate, &up, &pull, &mut grad_gate, &mut grad_up);
            slope(&gate, &grad_gate, seed, |g| weighted(&naive::silu_gate(g, &wide(&up)), &pull))?;
            slope(&up, &grad_up, seed, |u| weighted(&naive::silu_gate(&wide(&gate), u), &pull))
        }), Ok(()));
    }

    #[test]
    fn rope_agrees_and_turns_back(rows in 0usize..7, heads in 1usize..4, half in 1usize..40, far: u32, seed: u64) {
        let dim = 2 * half;
        let x = noise(rows * heads * dim, seed);
        let positions: Vec<u32> = (0..rows as u32).map(|i| if i == 5 { far % (1 << 22) } else { i * 37 }).collect();
        let expected = naive::rope(&wide(&x), &positions, heads, dim, 10_000.0);
        prop_assert_eq!(all(|| {
            let mut turned = x.clone();
            rope(&mut turned, &positions, heads, dim, 10_000.0, false);
            near(&turned, &expected, 1e-6)?;
            rope(&mut turned, &positions, heads, dim, 10_000.0, true);
            near(&turned, &wide(&x), 1e-6)
        }), Ok(()));
    }

    #[test]
    fn softmax_stats_agree(len in 1usize..5000, scale in 0.0f32..60.0, steps in 1u32..100_000, hidden: bool, seed: u64) {
        // Coarse steps make ties.
        let mut x: Vec<f32> = noise(len, seed).iter().map(|x| (x * steps as f32).round() / steps as f32 * scale).collect();
        if hidden {
            x.iter_mut().skip(1).step_by(3).for_each(|x| *x = f32::NEG_INFINITY);
        }
        let (max, lse, argmax, top1, top2, entropy) = naive::softmax_stats(&x);
        prop_assert_eq!(all(|| {
            let stats = softmax_stats(&x);
            same(&[stats.max], &[max])?;
            if stats.argmax != argmax {
                return Err(format!("argmax {} is not {argmax}", stats.argmax));
            }
            near(&[stats.logsumexp, stats.top1, stats.top2, stats.entropy], &[lse, top1, top2, entropy], 2e-6)
        }), Ok(()));
    }

    #[test]
    fn total_variation_agrees(len in 1usize..5000, scale in 0.0f32..60.0, seed: u64) {
        let a: Vec<f32> = noise(len, seed).iter().map(|x| x * scale).collect();
        let b: Vec<f32> = noise(len, seed ^ 1).iter().map(|x| x * scale).collect();
        let expected = naive::total_variation(&a, &b);
        prop_assert_eq!(all(|| {
            let (lse_a, lse_b) = (softmax_stats(&a).logsumexp, softmax_stats(&b).logsumexp);
            near(&[total_variation(&a, lse_a, &b, lse_b)], &[expected], 4e-6)
        }), Ok(()));
    }
}

#[test]
fn softmax_stats_of_special_rows() {
    let check = || {
        for at in [0, 7, 8, 4100] {
            for value in [f32::NAN, f32::INFINITY] {
                let mut x = noise(4101, 9);
                x[at] = value;
                let stats = softmax_stats(&x);
                if !(stats.top1.is_nan() && stats.entropy.is_nan() && stats.logsumexp.is_nan()) {
                    return Err(format!("{value} at {at} gave {stats:?}"));
                }
            }
        }
        let hidden = softmax_stats(&[f32::NEG_INFINITY; 21]);
        let alone = softmax_stats(&[-3.0]);
        let tied = softmax_stats(&[f32::NEG_INFINITY, 2.0, -1e30, 2.0]);
        let flat = (tied.argmax, tied.top1, tied.top2, tied.max);
        let denormal = softmax_stats(&[f32::MIN_POSITIVE / 4.0, 0.0]);
        if !hidden.top1.is_nan() || (alone.top1, alone.top2, alone.entropy) != (1.0, 0.0, 0.0) {
            return Err(format!("{hidden:?} {alone:?}"));
        }
        if flat != (1, 0.5, 0.5, 2.0) || (tied.entropy - 2f32.ln()).abs() > 1e-6 || denormal.argmax != 0 {
            return Err(format!("{tied:?} {denormal:?}"));
        }
        Ok(())
    };
    assert_eq!(all(check), Ok(()));
}

/// The exponential over its whole range, seen through two logits, and element by element through the gate.
#[test]
fn the_exponential_keeps_its_accuracy() {
    let check = || {
        for step in 0..=8000 {
            let x = -100.0 + 0.0125 * step as f32;
            // Two equal terms, of which half is returned.
            let found = f64::from(total_variation(&[x; 2], 0.0, &[f32::NEG_INFINITY; 2], 0.0));
            let expected = f64::from(x).exp();
            // A denormal has no more digits than its spacing allows.
            let allowed = 2.5e-7 * expected + 2e-45;
            if (found - expected).abs() > allowed {
                return Err(format!("e^{x} gave {found:e}, not {expected:e}"));
            }
        }
        let mut out = [0.0; 5];
        let gate = [f32::NEG_INFINITY, -1e4, 1e4, f32::NAN, f32::MIN_POSITIVE / 16.0];
        silu_gate(&gate, &[1.0; 5], &mut out);
        near(&out, &[f64::NAN, 0.0, 1e4, f64::NAN, 0.0], 1e-6)
    };
    assert_eq!(all(check), Ok(()));
}
