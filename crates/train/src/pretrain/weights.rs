//! The flat vector of parameters made into a Transformer: plain tensors to decode with, variables to differentiate.

use candle_core::{Tensor, Var};
use demask_model::hash::Hash;
use demask_model::layer::{Embedding, Linear};
use demask_model::{Error, Parameter, Parameters, Result, Spec, Transformer};

use super::layout::Layout;
use crate::compute::Compute;

/// A Transformer with a copy of these parameters, for decoding.
pub fn transformer(
    spec: &Spec,
    layout: &Layout,
    parameters: &[f32],
    compute: &Compute,
) -> Result<Transformer> {
    let (device, composed) = (compute.device(), compute.is_composed());
    let slots = layout.slots().iter();
    let tensors =
        slots.map(|slot| Tensor::from_slice(&parameters[slot.range.clone()], slot.shape.as_slice(), device));
    let tensors = tensors.collect::<candle_core::Result<_>>()?;
    Transformer::new(
        spec.clone(),
        device.clone(),
        fingerprint(parameters),
        &mut Tensors { layout, tensors, composed },
    )
}

/// A Transformer whose parameters are variables, and those variables in the layout's order.
pub(super) fn variables(spec: &Spec, layout: &Layout, compute: &Compute) -> Result<(Transformer, Vec<Var>)> {
    let (device, composed) = (compute.device(), compute.is_composed());
    let slots = layout.slots().iter();
    let vars = slots.map(|slot| Var::zeros(slot.shape.as_slice(), candle_core::DType::F32, device));
    let vars: Vec<Var> = vars.collect::<candle_core::Result<_>>()?;
    let tensors = vars.iter().map(|var| var.as_tensor().clone()).collect();
    let from = &mut Tensors { layout, tensors, composed };
    let model = Transformer::new(spec.clone(), device.clone(), String::new(), from)?;
    Ok((model, vars))
}

/// Identifies weights in training by a hash of their bits.
fn fingerprint(parameters: &[f32]) -> String {
    parameters.iter().fold(Hash::new(), |hash, value| hash.word(value.to_bits().into())).to_string()
}

struct Tensors<'a> {
    layout: &'a Layout,
    tensors: Vec<Tensor>,
    composed: bool,
}

impl Tensors<'_> {
    fn tensor(&self, name: &str, shape: &[usize]) -> Result<Tensor> {
        let index = self.layout.slots().iter().position(|slot| slot.name == name && slot.shape == shape);
        let index = index
            .ok_or_else(|| Error::Query(format!("no parameter {name} of shape {shape:?} is trained")))?;
        Ok(self.tensors[index].clone())
    }
}

impl Parameters for Tensors<'_> {
    fn embedding(&mut self, which: &Parameter) -> Result<Embedding> {
        Ok(Embedding::Dense(self.tensor(&which.tensor(), &which.shape)?))
    }

    fn linear(&mut self, which: &Parameter) -> Result<Linear> {
        let weight = self.tensor(&which.tensor(), &which.shape)?;
        let bias = which.bias().map(|bias| self.tensor(&bias, &which.shape[..1])).transpose()?;
        Ok(if self.composed { Linear::Composed { weight, bias } } else { Linear::Dense { weight, bias } })
    }

    fn vector(&mut self, which: &Parameter) -> Result<Tensor> {
        self.tensor(&which.tensor(), &which.shape)
    }

    fn composed(&self) -> bool {
        self.composed
    }
}
