//! A Transformer of any shape with random weights in memory, for measuring speed without a checkpoint.
//!
//! Every layer shares one set of weights, so any number of layers fits; a layer of a real size is larger than the
//! caches, so sharing does not make it faster.

use std::collections::HashMap;

use candle_core::{Device, Tensor};

use crate::checkpoint::synthetic::normal;
use crate::checkpoint::{Mapped, Quantized};
use crate::config::Spec;
use crate::error::Result;
use crate::layer::{Embedding, Linear, Parameter, Parameters, Use};
use crate::load::Precision;
use crate::transformer::Transformer;

/// Random weights by the role of a map; experts of a layer differ, or a pass would read one of them from the caches.
pub struct Repeated {
    precision: Precision,
    seed: u64,
    /// Whether every map has weights of its own.
    distinct: bool,
    roles: HashMap<String, Linear>,
}

impl Repeated {
    /// Weights of this precision.
    pub fn new(precision: Precision, seed: u64) -> Self {
        Self { precision, seed, distinct: false, roles: HashMap::new() }
    }

    /// The same with weights of its own for every map.
    pub fn distinct(precision: Precision, seed: u64) -> Self {
        Self { distinct: true, ..Self::new(precision, seed) }
    }

    fn make(&self, key: &str, which: &Parameter) -> Result<Linear> {
        // Keeps activations of every layer at about the size of its input.
        let shape = which.matrix();
        let deviation = 1.0 / (shape[1] as f32).sqrt();
        let mut values = vec![0.0; shape[0] * shape[1]];
        normal(key, self.seed, deviation, &mut values);
        let weight = Mapped::from_f32(&shape, values);
        let bias = which.bias().map(|_| vec![0.0; shape[0]].into());
        Ok(match (self.precision.packing(which), self.precision) {
            (Some(packing), _) => {
                Linear::Quantized { weight: Quantized::quantize(&weight, packing, None)?, bias }
            }
            (None, Precision::Float(dtype)) => Linear::Mapped { weight: weight.to_dtype(dtype), bias },
            (None, _) => Linear::Mapped { weight, bias },
        })
    }
}

impl Parameters for Repeated {
    fn embedding(&mut self, which: &Parameter) -> Result<Embedding> {
        // Made in bands: in single precision a large table would take more memory than everything else.
        let shape = which.matrix();
        let mut table = Vec::with_capacity(shape[0] * shape[1]);
        let mut band = vec![0.0; shape[1] * 1024];
        for (index, start) in (0..shape[0]).step_by(1024).enumerate() {
            let band = &mut band[..shape[1] * 1024.min(shape[0] - start)];
            normal(which.role.0, self.seed + 1 + index as u64, 1.0, band);
            table.extend(band.iter().map(|&x| half::bf16::from_f32(x)));
        }
        Ok(Embedding::Mapped(Mapped::from_bf16(&shape, table)))
    }

    fn linear(&mut self, which: &Parameter) -> Result<Linear> {
        let expert = which.expert.map_or(0, |(index, _)| index);
        let key = match self.distinct {
            true => which.name.clone(),
            false => format!("{:?} {expert} {:?}", which.role, which.shape),
        };
        if let Some(linear) = self.roles.get(&key) {
            return Ok(linear.clone());
        }
        let linear = self.make(&key, which)?;
        self.roles.insert(key, linear.clone());
        Ok(linear)
    }

    fn vector(&mut self, which: &Parameter) -> Result<Tensor> {
        let value = if which.kind == Use::Scale { 1.0 } else { 0.0 };
        Ok(Tensor::full(value as f32, which.shape[0], &Device::Cpu)?)
    }
}

/// Values of a checkpoint's tensor by name and shape, as `demask synthesize` would make them.
pub fn values(name: &str, shape: &[usize]) -> Vec<f32> {
    let added = name.ends_with(".bias") || name.ends_with("_bias");
    let mut values = vec![if added { 0.0 } else { 1.0 }; shape.iter().product()];
    if let [_, width] = shape {
        normal(name, 0, 1.0 / (*width as f32).sqrt(), &mut values);
    }
    values
}

/// A Transformer of this shape on the CPU.
pub fn transformer(spec: Spec, precision: Precision, seed: u64) -> Result<Transformer> {
    Transformer::new(spec, Device::Cpu, "synthetic".into(), &mut Repeated::new(precision, seed))
}
