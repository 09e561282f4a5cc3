//! LayerNorm: `(x - mean) · w / √(variance + ε) + b` over the last dimension.

use candle_core::{CpuStorage, CustomOp3, Layout, Result, Shape, Tensor};
use demask_kernels as kernels;

use crate::layer::{composed, cpu};

/// A normalisation about the mean, with its learned scale and bias. On the CPU it has no backward pass.
#[derive(Debug, Clone)]
pub struct LayerNorm {
    weight: Tensor,
    bias: Tensor,
    eps: f32,
    composed: bool,
}

impl LayerNorm {
    /// `weight` and `bias` are `[d]`.
    pub fn new(weight: Tensor, bias: Tensor, eps: f32) -> Self {
        Self { weight, bias, eps, composed: false }
    }

    /// The same, of candle's own operations even on the CPU.
    pub fn composed(self, composed: bool) -> Self {
        Self { composed, ..self }
    }

    /// Normalises each row of `x` `[rows, d]`.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        if cpu::takes(x) && !self.composed {
            return x.contiguous()?.apply_op3_no_bwd(&self.weight, &self.bias, &Op { eps: self.eps });
        }
        composed::layer_norm(x, &self.weight, &self.bias, self.eps)
    }
}

struct Op {
    eps: f32,
}

impl CustomOp3 for Op {
    fn name(&self) -> &'static str {
        "layer-norm"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        xl: &Layout,
        w: &CpuStorage,
        wl: &Layout,
        b: &CpuStorage,
        bl: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (x, w, b) = (cpu::slice(x, xl)?, cpu::slice(w, wl)?, cpu::slice(b, bl)?);
        let mut out = vec![0.0; x.len()];
        kernels::layer_norm(x, w, b, self.eps, &mut out);
        Ok((CpuStorage::F32(out), xl.shape().clone()))
    }
}
