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
use crate::layer::{Embedding, Linear};
use crate::load::Precision;
use crate::transformer::{Parameters, Transformer};

/// Random weights by the role of a map (`q_proj`, `up_proj`, …).
pub struct Repeated {
    precision: Precision,
    seed: u64,
    roles: HashMap<String, Linear>,
}

impl Repeated {
    /// Weights of this precision.
    pub fn new(precision: Precision, seed: u64) -> Self {
        Self { precision, seed, roles: HashMap::new() }
    }

    fn make(&self, role: &str, shape: [usize; 2], bias: bool) -> Result<Linear> {
        // Keeps activations of every layer at about the size of its input.
        let deviation = 1.0 / (shape[1] as f32).sqrt();
        let mut values = vec![0.0; shape[0] * shape[1]];
        normal(role, self.seed, deviation, &mut values);
        let weight = Mapped::from_f32(&shape, values);
        let bias = bias.then(|| vec![0.0; shape[0]].into());
        Ok(match self.precision {
            Precision::Float(dtype) => Linear::Mapped { weight: weight.to_dtype(dtype), bias },
            Precision::Int8 { group } => {
                Linear::Quantized { weight: Quantized::quantize(&weight, group)?, bias }
            }
        })
    }
}

impl Parameters for Repeated {
    fn embedding(&mut self, name: &str, shape: [usize; 2]) -> Result<Embedding> {
        // Made in bands: in single precision a large table would take more memory than everything else.
        let mut table = Vec::with_capacity(shape[0] * shape[1]);
        let mut band = vec![0.0; shape[1] * 1024];
        for (index, start) in (0..shape[0]).step_by(1024).enumerate() {
            let band = &mut band[..shape[1] * 1024.min(shape[0] - start)];
            normal(name, self.seed + 1 + index as u64, 1.0, band);
            table.extend(band.iter().map(|&x| half::bf16::from_f32(x)));
        }
        Ok(Embedding::Mapped(Mapped::from_bf16(&shape, table)))
    }

    fn linear(&mut self, name: &str, shape: [usize; 2], bias: bool) -> Result<Linear> {
        let role = name.rsplit('.').next().unwrap_or(name).to_owned();
        let key = format!("{role} {shape:?}");
        if let Some(linear) = self.roles.get(&key) {
            return Ok(linear.clone());
        }
        let linear = self.make(&role, shape, bias)?;
        self.roles.insert(key, linear.clone());
        Ok(linear)
    }

    fn vector(&mut self, _: &str, len: usize) -> Result<Tensor> {
        Ok(Tensor::ones(len, candle_core::DType::F32, &Device::Cpu)?)
    }
}

/// Values of a checkpoint's tensor by name and shape, as `demask synthesize` would make them.
pub fn values(name: &str, shape: &[usize]) -> Vec<f32> {
    let mut values = vec![if name.ends_with(".bias") { 0.0 } else { 1.0 }; shape.iter().product()];
    if let [_, width] = shape {
        normal(name, 0, 1.0 / (*width as f32).sqrt(), &mut values);
    }
    values
}

/// A Transformer of this shape on the CPU.
pub fn transformer(spec: Spec, precision: Precision, seed: u64) -> Result<Transformer> {
    Transformer::new(spec, Device::Cpu, "synthetic".into(), &mut Repeated::new(precision, seed))
}
