//! Every kernel, on every instruction set this CPU has, against its twin in plain loops: odd sizes, tails, special values.

mod attention;
mod four_bits;
mod gemm;
mod gemm_quantized;
mod naive;
mod rows;
mod scaled;

use std::sync::{Mutex, PoisonError};

use demask_kernels::{Isa, force};
use proptest::prelude::ProptestConfig;

/// Runs `body` once per instruction set of this CPU. Forcing is global, hence the lock.
fn each_isa(mut body: impl FnMut(Isa)) {
    static FORCING: Mutex<()> = Mutex::new(());
    let _guard = FORCING.lock().unwrap_or_else(PoisonError::into_inner);
    for isa in Isa::ALL {
        if force(Some(isa)) {
            body(isa);
        }
    }
    force(None);
}

/// Random cases of a property: as many as PROPTEST_CASES says (an emulated CPU is slow), else `usual`.
fn cases(usual: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok());
    ProptestConfig { cases: asked.unwrap_or(usual), ..ProptestConfig::default() }
}

/// Reproducible values in `[-1, 1)`.
fn noise(len: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 40) as f32 / (1 << 23) as f32 - 1.0
        })
        .collect()
}

/// Equal as bits, except that any NaN equals any other.
fn same(a: &[f32], b: &[f32]) -> Result<(), String> {
    assert_eq!(a.len(), b.len());
    for (i, (a, b)) in a.iter().zip(b).enumerate() {
        if a.to_bits() != b.to_bits() && !(a.is_nan() && b.is_nan()) {
            return Err(format!("element {i}: {a:e} is not {b:e}"));
        }
    }
    Ok(())
}

/// Within `tolerance` of each other, relative to the larger of one and the magnitude.
fn near(found: &[f32], expected: &[f64], tolerance: f64) -> Result<(), String> {
    assert_eq!(found.len(), expected.len());
    for (i, (&a, &b)) in found.iter().zip(expected).enumerate() {
        let a = f64::from(a);
        let close = (a - b).abs() <= tolerance * b.abs().max(1.0) || a == b || (a.is_nan() && b.is_nan());
        if !close {
            return Err(format!("element {i}: {a:e} is not near {b:e}"));
        }
    }
    Ok(())
}

fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().map(|&x| f64::from(x)).collect()
}

/// Checks a gradient against the slope of `loss` along a random direction and along single coordinates.
fn slope(x: &[f32], grad: &[f32], seed: u64, loss: impl Fn(&[f64]) -> f64) -> Result<(), String> {
    let x = wide(x);
    let random = wide(&noise(x.len(), seed));
    let mut directions = vec![random];
    for i in [0, x.len() / 3, x.len() - 1] {
        let mut one = vec![0.0; x.len()];
        one[i] = 1.0;
        directions.push(one);
    }
    for (which, direction) in directions.iter().enumerate() {
        let at = |step: f64| loss(&x.iter().zip(direction).map(|(x, d)| x + step * d).collect::<Vec<_>>());
        let measured = (at(1e-4) - at(-1e-4)) / 2e-4;
        let claimed: f64 = grad.iter().zip(direction).map(|(&g, d)| f64::from(g) * d).sum();
        if (measured - claimed).abs() > 1e-4 * measured.abs().max(1.0) {
            return Err(format!("direction {which}: slope {measured:e}, gradient says {claimed:e}"));
        }
    }
    Ok(())
}

fn weighted(values: &[f64], weights: &[f32]) -> f64 {
    values.iter().zip(weights).map(|(v, &w)| v * f64::from(w)).sum()
}
