//! Every kernel, on every instruction set this CPU has, against its twin in plain loops: odd sizes, tails, special values.

mod gemm;
mod naive;

use std::sync::{Mutex, PoisonError};

use demask_kernels::{Isa, force};

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
fn near(a: &[f32], b: &[f32], tolerance: f32) -> Result<(), String> {
    assert_eq!(a.len(), b.len());
    for (i, (a, b)) in a.iter().zip(b).enumerate() {
        let close = (a - b).abs() <= tolerance * b.abs().max(1.0) || a == b || (a.is_nan() && b.is_nan());
        if !close {
            return Err(format!("element {i}: {a:e} is not near {b:e}"));
        }
    }
    Ok(())
}
