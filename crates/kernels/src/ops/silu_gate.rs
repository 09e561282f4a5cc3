//! The gated unit of the MLP: `silu(gate) · up` with `silu(g) = g / (1 + e^{-g})`, and its gradient.

use rayon::prelude::*;

use crate::arch::{Op, Simd};
use crate::dispatch::Level;
use crate::math::sigmoid;
use crate::parallel::{GRAIN, least_run};

/// `out = silu(gate) · up`, element by element.
///
/// # Panics
/// If the lengths disagree.
pub fn silu_gate(gate: &[f32], up: &[f32], out: &mut [f32]) {
    assert_eq!(gate.len(), up.len(), "silu_gate: gate and up must have the same length");
    assert_eq!(gate.len(), out.len(), "silu_gate: out must have the length of gate");
    let level = Level::active();
    let inputs = gate.par_chunks(GRAIN).zip(up.par_chunks(GRAIN));
    let tasks = inputs.zip(out.par_chunks_mut(GRAIN)).with_min_len(least_run());
    tasks.for_each(|((gate, up), out)| level.run(Forward { gate, up, out }));
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
    let level = Level::active();
    let inputs = gate.par_chunks(GRAIN).zip(up.par_chunks(GRAIN)).zip(grad_out.par_chunks(GRAIN));
    let outputs = grad_gate.par_chunks_mut(GRAIN).zip(grad_up.par_chunks_mut(GRAIN));
    inputs.zip(outputs).for_each(|(((gate, up), grad_out), (grad_gate, grad_up))| {
        level.run(Backward { gate, up, grad_out, grad_gate, grad_up });
    });
}

/// `silu(gate) · up`.
#[inline(always)]
pub(crate) fn gated<S: Simd>(simd: S, gate: S::F, up: S::F) -> S::F {
    simd.mul(simd.mul(gate, sigmoid(simd, gate)), up)
}

struct Forward<'a> {
    gate: &'a [f32],
    up: &'a [f32],
    out: &'a mut [f32],
}

impl Op for Forward<'_> {
    type Out = ();

    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        let (gate, up) = (self.gate.chunks_exact(S::LANES), self.up.chunks_exact(S::LANES));
        let tail = (gate.remainder(), up.remainder());
        let mut out = self.out.chunks_exact_mut(S::LANES);
        for ((gate, up), out) in gate.zip(up).zip(&mut out) {
            simd.write(out, gated(simd, simd.read(gate), simd.read(up)));
        }
        let last = gated(simd, simd.read_tail(tail.0, 0.0), simd.read_tail(tail.1, 0.0));
        simd.write_tail(out.into_remainder(), last);
    }
}

struct Backward<'a> {
    gate: &'a [f32],
    up: &'a [f32],
    grad_out: &'a [f32],
    grad_gate: &'a mut [f32],
    grad_up: &'a mut [f32],
}

impl Op for Backward<'_> {
    type Out = ();

    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        #[inline(always)]
        fn one<S: Simd>(simd: S, gate: S::F, up: S::F, grad: S::F) -> (S::F, S::F) {
            let sigmoid = sigmoid(simd, gate);
            let silu = simd.mul(gate, sigmoid);
            // silu' = sigmoid + silu (1 - sigmoid)
            let slope = simd.fma(silu, simd.sub(simd.splat(1.0), sigmoid), sigmoid);
            (simd.mul(simd.mul(grad, up), slope), simd.mul(grad, silu))
        }
        let lanes = S::LANES;
        let whole = self.gate.len() / lanes * lanes;
        for i in (0..whole).step_by(lanes) {
            let (gate, up, grad) = (&self.gate[i..], &self.up[i..], &self.grad_out[i..]);
            let (grad_gate, grad_up) = one(simd, simd.read(gate), simd.read(up), simd.read(grad));
            simd.write(&mut self.grad_gate[i..], grad_gate);
            simd.write(&mut self.grad_up[i..], grad_up);
        }
        let gate = simd.read_tail(&self.gate[whole..], 0.0);
        let up = simd.read_tail(&self.up[whole..], 0.0);
        let grad = simd.read_tail(&self.grad_out[whole..], 0.0);
        let (grad_gate, grad_up) = one(simd, gate, up, grad);
        simd.write_tail(&mut self.grad_gate[whole..], grad_gate);
        simd.write_tail(&mut self.grad_up[whole..], grad_up);
    }
}
