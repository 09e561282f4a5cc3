//! The gradient by candle's automatic differentiation of the Transformer: any device, and the specification.
//!
//! Parameters go to the device once a batch, and the gradient comes back once.

use candle_core::{DType, Tensor, Var};
use demask_model::{Spec, Transformer};

use super::Gradient;
use crate::compute::Compute;
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
    composed: bool,
}

impl Autograd {
    /// For a backbone of this shape.
    pub fn new(spec: &Spec, layout: &Layout, compute: &Compute) -> Result<Self> {
        let (model, vars) = weights::variables(spec, layout, compute)?;
        Ok(Self { model, vars, layout: layout.clone(), composed: compute.is_composed() })
    }

    /// The loss of a part as a scalar to be differentiated, and its numbers.
    fn loss(&self, part: &BatchPart) -> Result<(Tensor, Loss)> {
        let hidden = self.model.hidden(&part.packed, Some(&part.rows))?;
        let logits = self.model.head(&hidden)?;
        let BatchPart { targets, weights, certainty, .. } = part;
        Ok(loss::differentiable(&logits, targets, weights, certainty.as_ref(), self.composed)?)
    }
}

impl Gradient for Autograd {
    fn add(&mut self, parameters: &[f32], part: &BatchPart, gradient: &mut [f32]) -> Result<Loss> {
        self.add_all(parameters, std::slice::from_ref(part), gradient)
    }

    fn add_all(&mut self, parameters: &[f32], parts: &[BatchPart], gradient: &mut [f32]) -> Result<Loss> {
        for (var, slot) in self.vars.iter().zip(self.layout.slots()) {
            let values = &parameters[slot.range.clone()];
            var.set(&Tensor::from_slice(values, slot.shape.as_slice(), var.device())?)?;
        }
        let (mut sums, mut loss): (Vec<Option<Tensor>>, _) = (vec![None; self.vars.len()], Loss::default());
        for part in parts {
            let (value, own) = self.loss(part)?;
            loss += own;
            let mut grads = value.backward()?;
            for (sum, var) in sums.iter_mut().zip(&self.vars) {
                *sum = match (sum.take(), grads.remove(var)) {
                    // Detached: the graph of a part is no longer needed.
                    (Some(sum), Some(grad)) => Some((sum + grad)?.detach()),
                    (sum, grad) => sum.or(grad.map(|grad| grad.detach())),
                };
            }
        }
        for (sum, slot) in sums.into_iter().zip(self.layout.slots()) {
            if let Some(sum) = sum {
                let sum: Vec<f32> = sum.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?;
                gradient[slot.range.clone()].iter_mut().zip(sum).for_each(|(to, from)| *to += from);
            }
        }
        Ok(loss)
    }

    fn part_tokens(&self) -> usize {
        1 << 14
    }
}
