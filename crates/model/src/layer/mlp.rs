//! Gated MLP: `down(silu(gate(x)) ⊙ up(x))`.

use candle_core::{CpuStorage, CustomOp2, Layout, Result, Shape, Tensor};
use demask_kernels::{self as kernels, QuantizedWeights};

use super::parameter::{Parameter, Parameters, Place, Role};
use crate::error::Result as Loaded;
use crate::layer::{Linear, cpu};
use crate::memory::MLP_ROWS;

/// Gate projection.
pub const GATE: Role = Role("ffn_gate");
/// Up projection.
pub const UP: Role = Role("ffn_up");
/// Down projection.
pub const DOWN: Role = Role("ffn_down");

/// The feed-forward half of a block.
#[derive(Debug, Clone)]
pub struct Mlp {
    /// Gate projection.
    pub gate: Linear,
    /// Up projection.
    pub up: Linear,
    /// Down projection.
    pub down: Linear,
}

impl Mlp {
    /// Its parameters, in the order of a checkpoint.
    pub fn parameters(hidden: usize, width: usize, place: &Place) -> Loaded<[Parameter; 3]> {
        let inward = |role| place.map(role, [width, hidden], false);
        Ok([inward(GATE)?, inward(UP)?, place.map(DOWN, [hidden, width], false)?])
    }

    /// Made of its parameters.
    pub fn load(hidden: usize, width: usize, place: &Place, from: &mut dyn Parameters) -> Loaded<Self> {
        Self::of(&Self::parameters(hidden, width, place)?, from)
    }

    /// Made of these gate, up and down projections.
    pub fn of([gate, up, down]: &[Parameter; 3], from: &mut dyn Parameters) -> Loaded<Self> {
        Ok(Self { gate: from.linear(gate)?, up: from.linear(up)?, down: from.linear(down)? })
    }

    /// `[rows, d]` to `[rows, d]` without tensors around the numbers.
    pub(super) fn on_rows(&self, x: &[f32], rows: usize) -> Result<Vec<f32>> {
        let inner = match (self.gate.quantized(), self.up.quantized()) {
            (Some(gate), Some(up)) => gated(x, rows, &gate, &up),
            _ => {
                let (gate, up) = (self.gate.on_rows(x, rows)?, self.up.on_rows(x, rows)?);
                let mut inner = vec![0.0; gate.len()];
                kernels::silu_gate(&gate, &up, &mut inner);
                inner
            }
        };
        self.down.on_rows(&inner, rows)
    }

    /// `x` is `[rows, d]`.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let rows = x.dim(0)?;
        // Nothing is kept for a backward pass here, so long canvases are cut to bound the memory.
        if !self.gate.is_dense() && rows > MLP_ROWS {
            let starts = (0..rows).step_by(MLP_ROWS);
            let parts = starts.map(|start| self.inner(&x.narrow(0, start, MLP_ROWS.min(rows - start))?));
            return Tensor::cat(&parts.collect::<Result<Vec<_>>>()?, 0);
        }
        self.inner(x)
    }

    fn inner(&self, x: &Tensor) -> Result<Tensor> {
        if let (Some(gate), Some(up), true) = (self.gate.quantized(), self.up.quantized(), cpu::takes(x)) {
            let rows = x.dim(0)?;
            let inner = cpu::with(x, |x| gated(x, rows, &gate, &up))?;
            return self.down.forward(&Tensor::from_vec(inner, (rows, gate.n()), x.device())?);
        }
        let (gate, up) = (self.gate.forward(x)?, self.up.forward(x)?);
        let inner = if cpu::takes(&gate) && !self.gate.is_composed() {
            gate.apply_op2(&up, Op)?
        } else {
            (gate.silu()? * up)?
        };
        self.down.forward(&inner)
    }
}

/// `silu(gate(x)) ⊙ up(x)` of quantised maps, neither of the two in memory.
fn gated(x: &[f32], rows: usize, gate: &QuantizedWeights<'_>, up: &QuantizedWeights<'_>) -> Vec<f32> {
    let mut inner = vec![0.0; rows * gate.n()];
    kernels::gemm_silu_gate(x, rows, gate, up, &mut inner);
    inner
}

struct Op;

impl CustomOp2 for Op {
    fn name(&self) -> &'static str {
        "silu-gate"
    }

    fn cpu_fwd(
        &self,
        gate: &CpuStorage,
        gl: &Layout,
        up: &CpuStorage,
        ul: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (gate, up) = (cpu::slice(gate, gl)?, cpu::slice(up, ul)?);
        let mut out = vec![0.0; gate.len()];
        kernels::silu_gate(gate, up, &mut out);
        Ok((CpuStorage::F32(out), gl.shape().clone()))
    }

    fn bwd(
        &self,
        gate: &Tensor,
        up: &Tensor,
        _: &Tensor,
        grad: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let (mut grad_gate, mut grad_up) = (vec![0.0; gate.elem_count()], vec![0.0; up.elem_count()]);
        cpu::with(gate, |gate| {
            cpu::with(up, |up| {
                cpu::with(grad, |g| kernels::silu_gate_backward(gate, up, g, &mut grad_gate, &mut grad_up))
            })
        })???;
        let tensor = |data, like: &Tensor| Tensor::from_vec(data, like.shape(), like.device()).map(Some);
        Ok((tensor(grad_gate, gate)?, tensor(grad_up, up)?))
    }
}
