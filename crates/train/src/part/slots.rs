//! Named tensors in one flat vector, and as variables to differentiate.

use std::ops::Range;

use candle_core::backprop::GradStore;
use candle_core::{DType, Device, Tensor, Var};
use demask_decode::rng::{Purpose, Rng};

use crate::error::{Error, Result};

/// A named tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// Its name in the part's file.
    pub name: String,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Where it lies in the flat vector.
    pub range: Range<usize>,
}

/// All tensors of a part.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Slots(Vec<Slot>);

impl Slots {
    /// In this order.
    pub fn new<'a>(tensors: impl IntoIterator<Item = (&'a str, Vec<usize>)>) -> Self {
        let mut slots: Vec<Slot> = Vec::new();
        for (name, shape) in tensors {
            let start = slots.last().map_or(0, |last| last.range.end);
            let range = start..start + shape.iter().product::<usize>();
            slots.push(Slot { name: name.to_owned(), shape, range });
        }
        Self(slots)
    }

    /// The tensors.
    pub fn all(&self) -> &[Slot] {
        &self.0
    }

    /// Parameters of all tensors.
    pub fn len(&self) -> usize {
        self.0.last().map_or(0, |last| last.range.end)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where a tensor lies.
    ///
    /// # Panics
    /// If there is no tensor of this name.
    pub fn range(&self, name: &str) -> Range<usize> {
        let slot = self.0.iter().find(|slot| slot.name == name);
        slot.unwrap_or_else(|| panic!("the part has no {name}")).range.clone()
    }

    /// Matrices, which weight decay applies to.
    pub fn matrices(&self) -> Vec<Range<usize>> {
        self.0.iter().filter(|slot| slot.shape.len() > 1).map(|slot| slot.range.clone()).collect()
    }

    /// Matrices uniform within ±1/√inputs, as a linear layer usually begins; vectors 0, or 1 where the name says a norm's
    /// weight.
    pub fn initial(&self, seed: u64) -> Vec<f32> {
        let rng = Rng::new(seed, 0);
        let mut values = vec![0.0; self.len()];
        for slot in &self.0 {
            let scale = slot.name.contains("norm") && slot.name.ends_with("weight");
            for index in slot.range.clone() {
                values[index] = match slot.shape.as_slice() {
                    [_, inputs] => {
                        let bound = 1.0 / (*inputs as f64).sqrt();
                        ((2.0 * rng.uniform(Purpose::Token, 0, index as u64) - 1.0) * bound) as f32
                    }
                    _ => f32::from(scale),
                };
            }
        }
        values
    }

    /// The named tensors of these parameters.
    pub fn named<'a>(&'a self, parameters: &'a [f32]) -> Vec<(&'a str, &'a [usize], &'a [f32])> {
        let of =
            |slot: &'a Slot| (slot.name.as_str(), slot.shape.as_slice(), &parameters[slot.range.clone()]);
        self.0.iter().map(of).collect()
    }

    /// Reads the parameters from a part's file.
    pub fn read(&self, path: &std::path::Path) -> Result<Vec<f32>> {
        let store = demask_model::checkpoint::Store::open_file(path)?;
        let mut parameters = Vec::with_capacity(self.len());
        for slot in &self.0 {
            parameters.extend(store.tensor_shaped(&slot.name, &slot.shape)?.to_f32());
        }
        Ok(parameters)
    }
}

/// The tensors as variables.
pub struct Vars {
    slots: Slots,
    vars: Vec<Var>,
}

impl Vars {
    /// Zeros.
    pub fn new(slots: &Slots) -> Result<Self> {
        let var = |slot: &Slot| Var::zeros(slot.shape.as_slice(), DType::F32, &Device::Cpu);
        let vars = slots.all().iter().map(var).collect::<candle_core::Result<_>>()?;
        Ok(Self { slots: slots.clone(), vars })
    }

    /// Takes these values.
    pub fn set(&self, parameters: &[f32]) -> Result<()> {
        for (var, slot) in self.vars.iter().zip(self.slots.all()) {
            let values = &parameters[slot.range.clone()];
            var.set(&Tensor::from_slice(values, slot.shape.as_slice(), &Device::Cpu)?)?;
        }
        Ok(())
    }

    /// The variable of this name.
    pub fn get(&self, name: &str) -> Result<Tensor> {
        let index = self.slots.all().iter().position(|slot| slot.name == name);
        let missing =
            || Error::Setting { name: "a part's tensor", value: name.into(), allowed: "one it has" };
        Ok(self.vars[index.ok_or_else(missing)?].as_tensor().clone())
    }

    /// Writes the gradient of every tensor, 0 where there is none.
    pub fn collect(&self, grads: &GradStore, gradient: &mut [f32]) -> Result<()> {
        for (var, slot) in self.vars.iter().zip(self.slots.all()) {
            let into = &mut gradient[slot.range.clone()];
            match grads.get(var.as_tensor()) {
                Some(grad) => into.copy_from_slice(&grad.flatten_all()?.to_vec1::<f32>()?),
                None => into.fill(0.0),
            }
        }
        Ok(())
    }
}
