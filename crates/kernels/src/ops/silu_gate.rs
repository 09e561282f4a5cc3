//! The gated unit of the MLP: `silu(gate) · up` with `silu(g) = g / (1 + e^{-g})`, and its gradient.

use rayon::prelude::*;

/// `out = silu(gate) · up`, element by element.
///
/// # Panics
/// If the lengths disagree.
pub fn silu_gate(gate: &[f32], up: &[f32], out: &mut [f32]) {
    assert_eq!(gate.len(), up.len(), "silu_gate: gate and up must have one length");
    assert_eq!(gate.len(), out.len(), "silu_gate: out must have the length of gate");
    out.par_iter_mut()
        .with_min_len(4096)
        .zip(gate)
        .zip(up)
        .for_each(|((out, &gate), &up)| *out = gate * sigmoid(gate) * up);
}

/// Gradient of [`silu_gate`]: writes `grad_gate` and `grad_up`.
///
/// # Panics
/// If the lengths disagree.
pub fn silu_gate_backward(
    gate: &[f32],
    up: &[f32],
    grad_out: &[f32],
    grad_gate: &mut [f32],
    grad_up: &mut [f32],
) {
    for len in [up.len(), grad_out.len(), grad_gate.len(), grad_up.len()] {
        assert_eq!(gate.len(), len, "silu_gate_backward: every slice must have the length of gate");
    }
    let outputs = grad_gate.par_iter_mut().with_min_len(4096).zip(grad_up);
    outputs.zip(gate).zip(up).zip(grad_out).for_each(|((((grad_gate, grad_up), &gate), &up), &grad)| {
        let sigmoid = sigmoid(gate);
        *grad_up = grad * gate * sigmoid;
        *grad_gate = grad * up * sigmoid * (1.0 + gate * (1.0 - sigmoid));
    });
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}
