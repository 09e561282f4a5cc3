//! MLP without a gate: `down(f(up(x)))`, both maps with a bias.

use candle_core::{CpuStorage, InplaceOp1, Layout, Result, Tensor};
use demask_kernels as kernels;

use super::mlp::{DOWN, UP};
use super::parameter::{Parameter, Parameters, Place};
use crate::config::Activation;
use crate::error::Result as Loaded;
use crate::layer::{Linear, cpu};

/// The feed-forward half of a block of BERT's line.
#[derive(Debug, Clone)]
pub struct PlainMlp {
    up: Linear,
    down: Linear,
    activation: Activation,
}

impl PlainMlp {
    /// Its parameters, in the order of a checkpoint.
    pub fn parameters(hidden: usize, width: usize, place: &Place) -> Loaded<[Parameter; 2]> {
        Ok([place.map(UP, [width, hidden], true)?, place.map(DOWN, [hidden, width], true)?])
    }

    /// Made of its parameters.
    pub fn load(
        hidden: usize,
        width: usize,
        activation: Activation,
        place: &Place,
        from: &mut dyn Parameters,
    ) -> Loaded<Self> {
        let [up, down] = Self::parameters(hidden, width, place)?;
        Ok(Self { up: from.linear(&up)?, down: from.linear(&down)?, activation })
    }

    /// `x` is `[rows, d]`.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.down.forward(&activate(self.activation, self.up.forward(x)?, self.up.is_composed())?)
    }
}

/// The function of every element; of candle's own operations where `composed`, even on the CPU.
pub(super) fn activate(activation: Activation, x: Tensor, composed: bool) -> Result<Tensor> {
    let Some(which) = activation.pointwise() else {
        candle_core::bail!("a gated unit is not a function of one number")
    };
    if cpu::takes(&x) && !composed {
        x.inplace_op1(&Op(which))?;
        return Ok(x);
    }
    match which {
        kernels::Pointwise::Gelu => x.gelu_erf(),
        kernels::Pointwise::GeluTanh => x.gelu(),
        kernels::Pointwise::Relu => x.relu(),
    }
}

struct Op(kernels::Pointwise);

impl InplaceOp1 for Op {
    fn name(&self) -> &'static str {
        "pointwise"
    }

    fn cpu_fwd(&self, x: &mut CpuStorage, layout: &Layout) -> Result<()> {
        let CpuStorage::F32(data) = x else { candle_core::bail!("a kernel takes f32") };
        let Some((start, end)) = layout.contiguous_offsets() else {
            candle_core::bail!("a kernel was given a tensor that is not contiguous: {:?}", layout.shape())
        };
        kernels::pointwise(self.0, &mut data[start..end]);
        Ok(())
    }
}
