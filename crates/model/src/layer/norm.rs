//! RMSNorm: `x · w / √(mean(x²) + ε)` over the last dimension.

use candle_core::{CpuStorage, CustomOp2, Layout, Result, Shape, Tensor};
use demask_kernels as kernels;

use super::parameter::Role;
use crate::layer::{composed, cpu};

/// The norm after the last block.
pub const NORM: Role = Role("output_norm");

/// A normalisation with its learned scale.
#[derive(Debug, Clone)]
pub struct RmsNorm {
    weight: Tensor,
    eps: f32,
    composed: bool,
}

impl RmsNorm {
    /// `weight` is `[d]`.
    pub fn new(weight: Tensor, eps: f32) -> Self {
        Self { weight, eps, composed: false }
    }

    /// The same, of candle's own operations even on the CPU.
    pub fn composed(self, composed: bool) -> Self {
        Self { composed, ..self }
    }

    /// Normalises each row of `x` `[rows, d]`.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        if cpu::takes(x) && !self.composed {
            return x.contiguous()?.apply_op2(&self.weight, Op { eps: self.eps });
        }
        composed::rms_norm(x, &self.weight, self.eps)
    }
}

struct Op {
    eps: f32,
}

impl CustomOp2 for Op {
    fn name(&self) -> &'static str {
        "rms-norm"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        xl: &Layout,
        w: &CpuStorage,
        wl: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (x, w) = (cpu::slice(x, xl)?, cpu::slice(w, wl)?);
        let mut out = vec![0.0; x.len()];
        kernels::rms_norm(x, w, self.eps, &mut out);
        Ok((CpuStorage::F32(out), xl.shape().clone()))
    }

    fn bwd(
        &self,
        x: &Tensor,
        w: &Tensor,
        _: &Tensor,
        grad: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let (mut grad_x, mut grad_w) = (vec![0.0; x.elem_count()], vec![0.0; w.elem_count()]);
        cpu::with(x, |x| {
            cpu::with(w, |w| {
                cpu::with(grad, |g| kernels::rms_norm_backward(x, w, self.eps, g, &mut grad_x, &mut grad_w))
            })
        })???;
        let grad_x = Tensor::from_vec(grad_x, x.shape(), x.device())?;
        Ok((Some(grad_x), Some(Tensor::from_vec(grad_w, w.shape(), w.device())?)))
    }
}
