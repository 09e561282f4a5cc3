//! The tensors of a GGUF file as the parameters of a Transformer.

use std::borrow::Cow;
use std::sync::Arc;

use candle_core::quantized::{GgmlDType, QStorage, QTensor};
use candle_core::{Device, Tensor};
use demask_kernels::Bits;

use super::blocks::{self, BLOCK};
use super::{Gguf, row_in_file};
use crate::checkpoint::digest::digest;
use crate::checkpoint::quantized::Packing;
use crate::checkpoint::{Bytes, Dtype, Mapped, Quantized};
use crate::config::Spec;
use crate::error::{Error, Result};
use crate::layer::{Embedding, Linear, Parameter, Parameters, Table, Use};
use crate::load::{LoadOptions, ORIGIN, Precision, Weight, about, linear_of, old_fingerprint, on_device};
use crate::transformer::Transformer;

/// Loads the model of a file.
pub(crate) fn transformer(gguf: &Gguf, options: &LoadOptions) -> Result<Transformer> {
    let spec = gguf.spec()?;
    let mut from = FromGguf { gguf, options, spec: spec.clone() };
    let norm = from.floats("output_norm.weight", &[spec.hidden], None)?;
    let mut aliases = vec![old_fingerprint(&spec, &norm.to_f32())];
    aliases.extend(gguf.text(ORIGIN).map(str::to_owned));
    let provenance = options.provenance(vec![gguf.bytes.clone()], aliases);
    let fingerprint = digest(&about(&spec), &gguf.contents());
    Ok(Transformer::new(spec, options.device.clone(), fingerprint, &mut from)?.coming_from(provenance))
}

/// What blocks become where only floating point is computed.
const ON_DEVICE: Dtype = Dtype::Bf16;

struct FromGguf<'a> {
    gguf: &'a Gguf,
    options: &'a LoadOptions,
    spec: Spec,
}

impl FromGguf<'_> {
    fn wanted(&self) -> Option<Dtype> {
        self.options.dtype.and_then(Precision::float)
    }

    /// A tensor's format and bytes; of experts, which share one, the part of this one.
    fn bytes(
        &self,
        name: &str,
        shape: &[usize],
        expert: Option<(usize, usize)>,
    ) -> Result<(GgmlDType, Bytes)> {
        let Some((index, count)) = expert else { return self.gguf.tensor(name, shape) };
        let (dtype, all) = self.gguf.tensor(name, &[&[count], shape].concat())?;
        let size = all.len() / count;
        Ok((dtype, all.slice(index * size..(index + 1) * size)))
    }

    /// A tensor in floating point: mapped where the file has it so, otherwise unpacked.
    fn floats(&self, name: &str, shape: &[usize], expert: Option<(usize, usize)>) -> Result<Mapped> {
        let (dtype, bytes) = self.bytes(name, shape, expert)?;
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
    fn ordered(&self, which: &Parameter, name: &str, shape: &[usize]) -> Result<Mapped> {
        let tensor = self.floats(name, shape, which.expert)?;
        let row = |row| row_in_file(&self.spec, which.role, row);
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

    /// What the kernels take as the file has it.
    fn blocks(&self, which: &Parameter) -> Result<Option<Quantized>> {
        let (dtype, bytes) = self.bytes(&which.gguf_tensor(), &which.shape, which.expert)?;
        let row_of = |row| row_in_file(&self.spec, which.role, row);
        let Some(weights) = blocks::pack(dtype, &bytes, which.matrix(), row_of) else { return Ok(None) };
        bytes.release();
        Ok(Some(Quantized::own(weights.map_err(|e| Error::Query(e.to_string()))?)))
    }

    fn weight(&self, which: &Parameter) -> Result<Weight> {
        let name = which.gguf_tensor();
        if which.kind == Use::Exact {
            return Ok(Weight::Numbers(self.ordered(which, &name, &which.shape)?));
        }
        let (stored, _) = self.bytes(&name, &which.shape, which.expert)?;
        let is_float = matches!(stored, GgmlDType::F32 | GgmlDType::F16 | GgmlDType::BF16);
        let unpacked = (self.options.is_composed() && !is_float).then_some(ON_DEVICE);
        let wanted = self.wanted().or(unpacked);
        if let Some(dtype) = wanted {
            return Ok(Weight::Numbers(self.ordered(which, &name, &which.shape)?.to_dtype(dtype)));
        }
        let asked = self.options.dtype.and_then(|dtype| dtype.packing(which));
        // Four bits were asked for to save memory: what has more is quantised again.
        let fits = asked.is_none_or(|asked| asked.bits == Bits::Eight || blocks::is_four_bits(stored));
        if fits && let Some(weight) = self.blocks(which)? {
            return Ok(Weight::Bytes(weight));
        }
        let weight = self.ordered(which, &name, &which.shape)?;
        Ok(match asked {
            Some(packing) => Weight::Bytes(Quantized::quantize(&weight, packing, None)?),
            None if is_float => Weight::Numbers(weight),
            None => Weight::Bytes(Quantized::quantize(
                &weight,
                Packing { bits: Bits::Eight, group: BLOCK },
                None,
            )?),
        })
    }
}

/// A table in blocks, as it lies in the file: a large one unpacked would be a quarter of a model of four bits.
#[derive(Debug)]
struct Rows {
    dtype: GgmlDType,
    bytes: Bytes,
    width: usize,
}

impl Table for Rows {
    fn width(&self) -> usize {
        self.width
    }

    fn row(&self, row: usize, out: &mut [f32]) -> candle_core::Result<()> {
        let size = self.width / self.dtype.block_size() * self.dtype.type_size();
        let bytes = Cow::Borrowed(&self.bytes[row * size..(row + 1) * size]);
        let storage = QStorage::from_data(bytes, &Device::Cpu, self.dtype)?;
        let values: Vec<f32> = QTensor::new(storage, self.width)?.dequantize(&Device::Cpu)?.to_vec1()?;
        out.copy_from_slice(&values);
        Ok(())
    }
}

impl Parameters for FromGguf<'_> {
    fn embedding(&mut self, which: &Parameter) -> Result<Embedding> {
        let name = which.gguf_tensor();
        let (stored, _) = self.gguf.tensor(&name, &which.shape)?;
        let is_float = matches!(stored, GgmlDType::F32 | GgmlDType::F16 | GgmlDType::BF16);
        let composed = self.options.is_composed();
        if !is_float && self.wanted().is_none() && !composed {
            let (dtype, bytes) = self.bytes(&name, &which.shape, None)?;
            return Ok(Embedding::Blocks(Arc::new(Rows { dtype, bytes, width: which.shape[1] })));
        }
        let mut table = self.floats(&name, &which.shape, None)?;
        if let Some(dtype) = self.wanted() {
            table = table.to_dtype(dtype);
        } else if !is_float {
            // The format of the maps there, and of the stream that begins here: F16 would overflow above 65504.
            table = table.to_dtype(ON_DEVICE);
        }
        Ok(if composed {
            Embedding::Dense(on_device(&table, &self.options.device)?)
        } else {
            Embedding::Mapped(table)
        })
    }

    fn linear(&mut self, which: &Parameter) -> Result<Linear> {
        let bias = which.bias().map(|_| format!("{}.bias", which.gguf()));
        let bias = bias.map(|bias| self.ordered(which, &bias, &which.shape[..1])).transpose()?;
        linear_of(self.weight(which)?, bias, self.options)
    }

    fn vector(&mut self, which: &Parameter) -> Result<Tensor> {
        let values = self.floats(&which.gguf_tensor(), &which.shape, None)?;
        if !self.options.is_composed() {
            return Ok(Tensor::from_vec(values.to_f32(), which.shape[0], &self.options.device)?);
        }
        on_device(&self.wanted().map_or(values.clone(), |dtype| values.to_dtype(dtype)), &self.options.device)
    }

    fn composed(&self) -> bool {
        self.options.is_composed()
    }
}
