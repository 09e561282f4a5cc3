//! The gradient by candle's automatic differentiation of the Transformer: any device, and the specification.

use candle_core::{DType, Device, Tensor, Var};
use demask_model::{Spec, Transformer};

use super::Gradient;
use crate::error::Result;
use crate::pretrain::batch::BatchPart;
use crate::pretrain::layout::Layout;
use crate::pretrain::loss::{self, Loss};
use crate::pretrain::weights;

/// Differentiates the Transformer itself.
pub struct Autograd {
    model: Transformer,
    vars: Vec<Var>,
    layout: Layout,
}

impl Autograd {
    /// For a backbone of this shape on this device.
    pub fn new(spec: &Spec, layout: &Layout, device: &Device) -> Result<Self> {
        let (model, vars) = weights::variables(spec, layout, device)?;
        Ok(Self { model, vars, layout: layout.clone() })
    }
}

impl Gradient for Autograd {
    fn add(&mut self, parameters: &[f32], part: &BatchPart, gradient: &mut [f32]) -> Result<Loss> {
        for (var, slot) in self.vars.iter().zip(self.layout.slots()) {
            var.set(&Tensor::from_slice(
                &parameters[slot.range.clone()],
                slot.shape.as_slice(),
                var.device(),
            )?)?;
        }
        let hidden = self.model.hidden(&part.packed, Some(&part.rows))?;
        let logits = self.model.head(&hidden)?;
        let (value, loss) =
            loss::differentiable(&logits, &part.targets, &part.weights, part.certainty.as_ref())?;
        let mut grads = value.backward()?;
        for (var, slot) in self.vars.iter().zip(self.layout.slots()) {
            if let Some(grad) = grads.remove(var) {
                let grad: Vec<f32> = grad.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?;
                gradient[slot.range.clone()].iter_mut().zip(grad).for_each(|(sum, g)| *sum += g);
            }
        }
        Ok(loss)
    }

    fn part_tokens(&self) -> usize {
        1 << 14
    }
}
