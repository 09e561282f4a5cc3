//! The tensors of a GGUF file as the parameters of a Transformer.

use std::borrow::Cow;
use std::collections::HashMap;

use candle_core::quantized::{GgmlDType, QStorage, QTensor};
use candle_core::{Device, Tensor};
use demask_kernels::QuantizedWeights;
use rayon::prelude::*;

use super::{Gguf, names, row_in_file};
use crate::checkpoint::digest::digest;
use crate::checkpoint::{Dtype, Mapped, Quantized};
use crate::config::Spec;
use crate::error::{Error, Result};
use crate::layer::{Embedding, Linear};
use crate::load::{LoadOptions, ORIGIN, Precision, Weight, about, linear_of, old_fingerprint, on_device};
use crate::transformer::{Parameters, Transformer};

/// Depths of a group of the file's block formats, kept where weights are quantised again.
const BLOCK: usize = 32;

/// Loads the model of a file.
pub(crate) fn transformer(gguf: &Gguf, options: &LoadOptions) -> Result<Transformer> {
    let spec = gguf.spec()?;
    let names: HashMap<String, String> = names(&spec)?.into_iter().collect();
    let mut from = FromGguf { gguf, options, spec: spec.clone(), names };
    let norm = from.floats("output_norm.weight", &[spec.hidden])?;
    let mut aliases = vec![old_fingerprint(&spec, &norm.to_f32())];
    aliases.extend(gguf.text(ORIGIN).map(str::to_owned));
    let provenance = options.provenance(vec![gguf.bytes.clone()], aliases);
    let fingerprint = digest(&about(&spec), &gguf.contents());
    Ok(Transformer::new(spec, options.device.clone(), fingerprint, &mut from)?.coming_from(provenance))
}

struct FromGguf<'a> {
    gguf: &'a Gguf,
    options: &'a LoadOptions,
    spec: Spec,
    names: HashMap<String, String>,
}

impl FromGguf<'_> {
    fn name(&self, ours: &str) -> Result<&str> {
        let name = self.names.get(ours).map(String::as_str);
        name.ok_or_else(|| self.gguf.bad(format!("nothing in it stands for `{ours}`")))
    }

    fn wanted(&self) -> Option<Dtype> {
        self.options.dtype.and_then(Precision::float)
    }

    /// A tensor in floating point: mapped where the file has it so, otherwise unpacked.
    fn floats(&self, name: &str, shape: &[usize]) -> Result<Mapped> {
        let (dtype, bytes) = self.gguf.tensor(name, shape)?;
        let stored = match dtype {
            GgmlDType::F32 => Some(Dtype::F32),
            GgmlDType::F16 => Some(Dtype::F16),
            GgmlDType::BF16 => Some(Dtype::Bf16),
            _ => None,
        };
        if let Some(dtype) = stored {
            return Ok(Mapped::from_bytes(dtype, shape, bytes));
        }
        let storage = QStorage::from_data(Cow::Borrowed(&bytes[..]), &Device::Cpu, dtype)?;
        let values = QTensor::new(storage, shape)?.dequantize(&Device::Cpu)?.flatten_all()?.to_vec1()?;
        Ok(Mapped::from_f32(shape, values))
    }

    /// The same with the rows in our order.
    fn ordered(&self, name: &str, shape: &[usize]) -> Result<Mapped> {
        let tensor = self.floats(name, shape)?;
        let base = name.rsplit_once('.').map_or(name, |(base, _)| base);
        let row = |row| row_in_file(&self.spec, base, row);
        if (0..shape[0]).all(|r| row(r) == r) {
            return Ok(tensor);
        }
        let (dtype, width) = (tensor.dtype(), tensor.row_len());
        let mut values = vec![0.0; tensor.len()];
        for (r, out) in values.chunks_exact_mut(width).enumerate() {
            tensor.row_f32(row(r), out);
        }
        Ok(Mapped::from_f32(shape, values).to_dtype(dtype))
    }

    /// Blocks of 32 bytes or nibbles with one scale each are what the int8 kernels take: no number changes.
    fn blocks(&self, name: &str, shape: [usize; 2]) -> Result<Option<Quantized>> {
        let full = format!("{name}.weight");
        let (dtype, bytes) = self.gguf.tensor(&full, &shape)?;
        type Unpack = fn(&[u8], &mut [i8]);
        let (size, unpack) = match dtype {
            GgmlDType::Q8_0 => (34, bytes_of as Unpack),
            GgmlDType::Q4_0 => (18, nibbles_of as Unpack),
            _ => return Ok(None),
        };
        let [n, k] = shape;
        let (mut q, mut scales) = (vec![0_i8; n * k], vec![0.0_f32; n * k / BLOCK]);
        q.par_chunks_mut(k).zip(scales.par_chunks_mut(k / BLOCK)).enumerate().for_each(
            |(row, (q, scales))| {
                let from = row_in_file(&self.spec, name, row) * (k / BLOCK) * size;
                let blocks = bytes[from..from + k / BLOCK * size].chunks_exact(size);
                for ((block, q), scale) in blocks.zip(q.chunks_exact_mut(BLOCK)).zip(scales) {
                    *scale = half::f16::from_le_bytes([block[0], block[1]]).to_f32();
                    unpack(&block[2..], q);
                }
            },
        );
        bytes.release();
        let weights = QuantizedWeights::from_rows(&q, &scales, n, k, BLOCK);
        Ok(Some(Quantized::own(weights.map_err(|e| Error::Query(e.to_string()))?)))
    }

    fn weight(&self, name: &str, shape: [usize; 2]) -> Result<Weight> {
        let full = format!("{name}.weight");
        let (stored, _) = self.gguf.tensor(&full, &shape)?;
        let is_float = matches!(stored, GgmlDType::F32 | GgmlDType::F16 | GgmlDType::BF16);
        let on_cpu = self.options.device.is_cpu();
        let wanted = self.wanted().or((!on_cpu).then_some(Dtype::Bf16).filter(|_| !is_float));
        if let Some(dtype) = wanted {
            return Ok(Weight::Numbers(self.ordered(&full, &shape)?.to_dtype(dtype)));
        }
        if let Some(weight) = self.blocks(name, shape)? {
            return Ok(Weight::Bytes(weight));
        }
        let weight = self.ordered(&full, &shape)?;
        Ok(match self.options.dtype {
            Some(Precision::Int8 { group }) => Weight::Bytes(Quantized::quantize(&weight, group)?),
            _ if is_float => Weight::Numbers(weight),
            _ => Weight::Bytes(Quantized::quantize(&weight, BLOCK)?),
        })
    }
}

impl Parameters for FromGguf<'_> {
    fn embedding(&mut self, name: &str, shape: [usize; 2]) -> Result<Embedding> {
        let name = format!("{}.weight", self.name(name)?);
        let (stored, _) = self.gguf.tensor(&name, &shape)?;
        let mut table = self.floats(&name, &shape)?;
        if let Some(dtype) = self.wanted() {
            table = table.to_dtype(dtype);
        } else if !matches!(stored, GgmlDType::F32 | GgmlDType::F16 | GgmlDType::BF16) {
            // Unpacked numbers have few digits; half precision holds them in half the memory.
            table = table.to_dtype(Dtype::F16);
        }
        Ok(if self.options.device.is_cpu() {
            Embedding::Mapped(table)
        } else {
            Embedding::Dense(on_device(&table, &self.options.device)?)
        })
    }

    fn linear(&mut self, name: &str, shape: [usize; 2], bias: bool) -> Result<Linear> {
        let name = self.name(name)?;
        let bias = bias.then(|| self.ordered(&format!("{name}.bias"), &shape[..1])).transpose()?;
        linear_of(self.weight(name, shape)?, bias, &self.options.device)
    }

    fn vector(&mut self, name: &str, len: usize) -> Result<Tensor> {
        let values = self.floats(&format!("{}.weight", self.name(name)?), &[len])?;
        if self.options.device.is_cpu() {
            return Ok(Tensor::from_vec(values.to_f32(), len, &self.options.device)?);
        }
        on_device(&self.wanted().map_or(values.clone(), |dtype| values.to_dtype(dtype)), &self.options.device)
    }
}

/// Q8_0: 32 signed bytes.
fn bytes_of(block: &[u8], out: &mut [i8]) {
    for (out, byte) in out.iter_mut().zip(block) {
        *out = *byte as i8;
    }
}

/// Q4_0: 32 nibbles offset by 8, the low halves first.
fn nibbles_of(block: &[u8], out: &mut [i8]) {
    let (low, high) = out.split_at_mut(block.len());
    for ((low, high), byte) in low.iter_mut().zip(high).zip(block) {
        *low = (byte & 15) as i8 - 8;
        *high = (byte >> 4) as i8 - 8;
    }
}
