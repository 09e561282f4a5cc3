//! The norms of a model: RMSNorm, `x · w / √(mean(x²) + ε)` over the last dimension, or LayerNorm, which has a file of its own.

use candle_core::{CpuStorage, CustomOp2, Layout, Result, Shape, Tensor};
use demask_kernels as kernels;

use super::LayerNorm;
use super::parameter::{Parameter, Parameters, Place, Role, Use};
use crate::config::{NormKind, Spec};
use crate::error::Result as Loaded;
use crate::layer::{composed, cpu};

/// The norm after the last block.
pub const NORM: Role = Role("output_norm");

/// A normalisation of rows.
#[derive(Debug, Clone)]
pub enum Norm {
    /// By the root of the mean square.
    Rms(RmsNorm),
    /// About the mean.
    Layer(LayerNorm),
}

impl Norm {
    /// Its parameters, in the order of a checkpoint.
    pub fn parameters(spec: &Spec, role: Role, width: usize, place: &Place) -> Loaded<Vec<Parameter>> {
        let mut all = vec![place.scale(role, width)?];
        if spec.norm == NormKind::Layer {
            all.push(place.parameter(role, &[width], Use::Bias, None)?);
        }
        Ok(all)
    }

    /// Made of its parameters.
    pub fn load(
        spec: &Spec,
        role: Role,
        width: usize,
        place: &Place,
        from: &mut dyn Parameters,
    ) -> Loaded<Self> {
        let all = Self::parameters(spec, role, width, place)?;
        let scale = from.vector(&all[0])?;
        Ok(match all.get(1) {
            None => Self::Rms(RmsNorm::new(scale, spec.eps).composed(from.composed())),
            Some(bias) => {
                Self::Layer(LayerNorm::new(scale, from.vector(bias)?, spec.eps).composed(from.composed()))
            }
        })
    }

    /// Normalises each row of `x` `[rows, d]`.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        match self {
            Self::Rms(norm) => norm.forward(x),
            Self::Layer(norm) => norm.forward(x),
        }
    }
}

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
