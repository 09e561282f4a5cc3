//! LayerNorm: `(x - mean) · w / √(variance + ε) + b` over the last dimension.

use candle_core::{CpuStorage, CustomOp3, D, Layout, Result, Shape, Tensor};
use demask_kernels as kernels;

use crate::layer::cpu;

/// A normalisation about the mean, with its learned scale and bias. On the CPU it has no backward pass.
#[derive(Debug, Clone)]
pub struct LayerNorm {
    weight: Tensor,
    bias: Tensor,
    eps: f32,
}

impl LayerNorm {
    /// `weight` and `bias` are `[d]`.
    pub fn new(weight: Tensor, bias: Tensor, eps: f32) -> Self {
        Self { weight, bias, eps }
    }

    /// Normalises each row of `x` `[rows, d]`.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        if cpu::takes(x) {
            return x.contiguous()?.apply_op3_no_bwd(&self.weight, &self.bias, &Op { eps: self.eps });
        }
        let x = x.broadcast_sub(&x.mean_keepdim(D::Minus1)?)?;
        let variance = (x.sqr()?.mean_keepdim(D::Minus1)? + f64::from(self.eps))?;
        x.broadcast_div(&variance.sqrt()?)?.broadcast_mul(&self.weight)?.broadcast_add(&self.bias)
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
