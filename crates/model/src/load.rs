//! A checkpoint's tensors as the parameters of a [`Transformer`]: mapped in place on the CPU, copied
//! to the device elsewhere.

use std::path::Path;

use candle_core::{DType, Device, Tensor};

use crate::arch;
use crate::checkpoint::{Dtype, Mapped, Store};
use crate::config::Spec;
use crate::error::Result;
use crate::layer::{Embedding, Linear};
use crate::transformer::{Parameters, Transformer};

/// Where and in which precision a checkpoint is run.
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// Compute device.
    pub device: Device,
    /// Precision of the weights; `None` keeps them as stored, mapped and uncopied on the CPU, where
    /// activations are always f32.
    pub dtype: Option<Dtype>,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self { device: Device::Cpu, dtype: None }
    }
}

/// Names that do not belong to the backbone but may lie in the same file: derived buffers of old
/// exports, and a dependency predictor.
const TOLERATED: &[&str] = &["rotary_emb.inv_freq", "predictor", "dependency", "demask"];

impl Transformer {
    /// Loads the checkpoint in `folder`.
    pub fn load(folder: &Path, options: &LoadOptions) -> Result<Self> {
        let spec = Spec::from_folder(folder)?;
        Self::from_store(spec, &Store::open(folder)?, options)
    }

    /// Loads from tensors that are already open.
    pub fn from_store(spec: Spec, store: &Store, options: &LoadOptions) -> Result<Self> {
        let mut used = match arch::by_name(spec.architecture) {
            Some(architecture) => {
                arch::tensors(&spec, &architecture.names).into_iter().map(|(name, _)| name).collect()
            }
            None => Vec::new(),
        };
        used.extend(store.names().filter(|n| TOLERATED.iter().any(|t| n.contains(t))).map(str::to_owned));
        let used: Vec<&str> = used.iter().map(String::as_str).collect();
        store.unused(&used)?;
        let fingerprint = fingerprint(&spec, store)?;
        Self::new(spec, options.device.clone(), fingerprint, &mut FromStore { store, options })
    }
}

/// A hash of the shape and the final norm's weights: equal for every dtype and quantisation of one
/// model, different for another training run.
fn fingerprint(spec: &Spec, store: &Store) -> Result<String> {
    let mut hash = 0xCBF2_9CE4_8422_2325_u64;
    let mut eat =
        |bytes: &[u8]| bytes.iter().for_each(|&b| hash = (hash ^ u64::from(b)).wrapping_mul(0x100_0000_01B3));
    for size in [spec.vocab, spec.hidden, spec.layers, spec.heads, spec.kv_heads, spec.ffn] {
        eat(&(size as u64).to_le_bytes());
    }
    if let Some(architecture) = arch::by_name(spec.architecture) {
        let norm = store.tensor_shaped(&format!("{}.weight", architecture.names.norm), &[spec.hidden])?;
        norm.to_f32().iter().for_each(|w| eat(&half::f16::from_f32(*w).to_le_bytes()));
    }
    Ok(format!("{hash:016x}"))
}

struct FromStore<'a> {
    store: &'a Store,
    options: &'a LoadOptions,
}

impl FromStore<'_> {
    fn tensor(&self, name: &str, shape: &[usize]) -> Result<Mapped> {
        let tensor = self.store.tensor_shaped(name, shape)?;
        Ok(match self.options.dtype {
            Some(dtype) if dtype != tensor.dtype() => tensor.to_dtype(dtype),
            _ => tensor,
        })
    }

    fn on_device(&self, mapped: &Mapped) -> Result<Tensor> {
        let dtype = match mapped.dtype() {
            Dtype::F32 => DType::F32,
            Dtype::Bf16 => DType::BF16,
            Dtype::F16 => DType::F16,
        };
        Ok(Tensor::from_raw_buffer(mapped.as_bytes(), dtype, mapped.shape(), &self.options.device)?)
    }
}

impl Parameters for FromStore<'_> {
    fn embedding(&mut self, name: &str, shape: [usize; 2]) -> Result<Embedding> {
        let table = self.tensor(&format!("{name}.weight"), &shape)?;
        Ok(if self.options.device.is_cpu() {
            Embedding::Mapped(table)
        } else {
            Embedding::Dense(self.on_device(&table)?)
        })
    }

    fn linear(&mut self, name: &str, shape: [usize; 2], bias: bool) -> Result<Linear> {
        let weight = self.tensor(&format!("{name}.weight"), &shape)?;
        let bias = bias.then(|| self.tensor(&format!("{name}.bias"), &shape[..1])).transpose()?;
        Ok(if self.options.device.is_cpu() {
            Linear::Mapped { weight, bias: bias.map(|b| b.to_f32().into()) }
        } else {
            let bias = bias.map(|b| self.on_device(&b)).transpose()?;
            Linear::Dense { weight: self.on_device(&weight)?, bias }
        })
    }

    fn vector(&mut self, name: &str, len: usize) -> Result<Tensor> {
        let values = self.store.tensor_shaped(&format!("{name}.weight"), &[len])?;
        if self.options.device.is_cpu() {
            return Ok(Tensor::from_vec(values.to_f32(), len, &self.options.device)?);
        }
        self.on_device(&match self.options.dtype {
            Some(dtype) => values.to_dtype(dtype),
            None => values,
        })
    }
}
