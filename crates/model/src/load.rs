//! A checkpoint's tensors as the parameters of a [`Transformer`]: mapped in place on the CPU, copied
//! to the device elsewhere.

use std::collections::HashSet;
use std::path::Path;

use candle_core::{DType, Device, Tensor};
use demask_kernels::Bits;

use crate::arch;
use crate::checkpoint::digest::{Content, digest};
use crate::checkpoint::quantized::{Packing, packed_name, scale_name};
use crate::checkpoint::{Bytes, Dtype, Mapped, Quantized, Store};
use crate::config::{Activation, Experts, Positions, Spec, Visibility};
use crate::error::{Error, Result};
use crate::gguf::{self, Gguf};
use crate::hash::Hash;
use crate::layer::{Embedding, Linear, Parameter, Parameters, Use, role};
use crate::transformer::{Provenance, Transformer};

/// Where and in which precision a checkpoint is run.
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// Whether files are mapped; otherwise they are read, which takes their size in memory and does not care what
    /// becomes of them.
    pub mapped: bool,
    /// Compute device.
    pub device: Device,
    /// Layers are composed of candle's own operations although the device is the CPU: the reference device, on which what
    /// runs on a GPU is tested without one.
    pub composed: bool,
    /// Precision of the weights; `None` keeps them as stored, mapped and uncopied on the CPU, where
    /// activations are always f32.
    pub dtype: Option<Precision>,
}

/// A precision the weights can be brought to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// All weights in this number format.
    Float(Dtype),
    /// Linear maps (the head among them) as bytes in groups of this many depths; the embedding as stored. CPU only.
    Int8 {
        /// Depths that share a scale.
        group: usize,
    },
    /// Linear maps as four bits in groups of this many depths, the head as bytes; the embedding as stored. CPU only.
    Q4 {
        /// Depths that share a scale.
        group: usize,
    },
}

impl Precision {
    /// Bytes with the usual group.
    pub const INT8: Self = Self::Int8 { group: Packing::INT8.group };
    /// Four bits with the usual group.
    pub const Q4: Self = Self::Q4 { group: Packing::Q4.group };

    pub(crate) fn float(self) -> Option<Dtype> {
        match self {
            Self::Float(dtype) => Some(dtype),
            Self::Int8 { .. } | Self::Q4 { .. } => None,
        }
    }

    /// How a parameter is packed, if it is to be.
    pub fn packing(self, which: &Parameter) -> Option<Packing> {
        match self {
            _ if !which.quantises() => None,
            Self::Float(_) => None,
            Self::Int8 { group } => Some(Packing { bits: Bits::Eight, group }),
            // The last map decides the token, and is a fourteenth of a large model.
            Self::Q4 { .. } if which.layer.is_none() => Some(Packing::INT8),
            Self::Q4 { group } => Some(Packing::four(group)),
        }
    }
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self { mapped: true, device: Device::Cpu, composed: false, dtype: None }
    }
}

impl LoadOptions {
    /// Whether layers are composed of candle's own operations, on the device.
    pub fn is_composed(&self) -> bool {
        self.composed || !self.device.is_cpu()
    }

    /// What a model loaded with these options says of itself.
    pub(crate) fn provenance(&self, files: Vec<Bytes>, aliases: Vec<String>) -> Provenance {
        let precision = self.dtype.map(|precision| match precision {
            Precision::Float(dtype) => dtype.to_string(),
            Precision::Int8 { group } => format!("int8 in groups of {group}"),
            Precision::Q4 { group } => format!("q4 in groups of {group}"),
        });
        Provenance { files, aliases, precision }
    }
}

/// Names that belong to nothing but may lie in the same file: derived buffers of old exports.
const DERIVED: &str = "rotary_emb.inv_freq";

impl Transformer {
    /// Loads the checkpoint in `folder`, or a GGUF file.
    pub fn load(folder: &Path, options: &LoadOptions) -> Result<Self> {
        if gguf::is_gguf(folder) {
            return gguf::transformer(&Gguf::open_as(folder, options.mapped)?, options);
        }
        let spec = Spec::from_folder(folder)?;
        let store = Store::of_model(folder, &spec, options.mapped)?;
        Self::from_store(spec, &store, options)
    }

    /// Loads from tensors that are already open; those that are named like a predictor's are left alone.
    pub fn from_store(spec: Spec, store: &Store, options: &LoadOptions) -> Result<Self> {
        let marked = store.names().filter(|name| names_predictor(name)).map(str::to_owned);
        Self::beside(spec, store, &marked.collect::<Vec<_>>(), options)
    }

    /// Loads from tensors that are already open, where these belong to somebody else: a predictor in the same files.
    /// Any other tensor that the model does not know is refused.
    pub fn beside(spec: Spec, store: &Store, others: &[String], options: &LoadOptions) -> Result<Self> {
        let parameters = arch::parameters(&spec)?;
        let mut used: Vec<String> = parameters.iter().flat_map(stored_names).collect();
        let unread = arch::of(&spec)?.facts.unread;
        used.extend(store.names().filter(|name| is_unread(name, unread)).map(str::to_owned));
        used.extend_from_slice(others);
        store.unused(&used)?;
        let norm = match parameters.iter().find(|p| p.role == role::NORM) {
            Some(norm) => store.tensor_shaped(&norm.tensor(), &norm.shape)?.to_f32(),
            None => Vec::new(),
        };
        let aliases = [Some(old_fingerprint(&spec, &norm)), store.metadata().get(ORIGIN).cloned()];
        let fingerprint = store.fingerprint(&spec);
        let provenance = options.provenance(store.files(), aliases.into_iter().flatten().collect());
        let from = &mut FromStore { store, options };
        Ok(Self::new(spec, options.device.clone(), fingerprint, from)?.coming_from(provenance))
    }
}

impl Store {
    /// Opens the checkpoint in a folder for a model of this shape. A wrapper around the model keeps its tensors under a
    /// prefix (`backbone.model.layers…`); here they have the names of their family.
    pub fn of_model(folder: &Path, spec: &Spec, mapped: bool) -> Result<Self> {
        let store = Self::open_as(folder, mapped)?;
        match store.prefix(spec)? {
            Some(prefix) => store.without_prefix(&prefix),
            None => Ok(store),
        }
    }

    /// What stands before the names of the model's tensors, where something does.
    pub(crate) fn prefix(&self, spec: &Spec) -> Result<Option<String>> {
        let parameters = arch::parameters(spec)?;
        let first = parameters.first().map(Parameter::tensor).unwrap_or_default();
        if self.contains(&first) {
            return Ok(None);
        }
        let before = |name: &str| Some(name.strip_suffix(&first)?.to_owned()).filter(|p| p.ends_with('.'));
        let mut prefixes = self.names().filter_map(before);
        Ok(prefixes.next().filter(|_| prefixes.next().is_none()))
    }

    /// Tensors that a model of this shape has no use for, sorted: a predictor's, if one lies in the same files.
    pub fn unclaimed(&self, spec: &Spec) -> Result<Vec<&str>> {
        let claimed: Vec<String> = arch::parameters(spec)?.iter().flat_map(stored_names).collect();
        let unread = arch::of(spec)?.facts.unread;
        Ok(self.left_over(&claimed).into_iter().filter(|name| !is_unread(name, unread)).collect())
    }

    /// Identifies the weights of a model of this shape: a digest of every tensor that belongs to it.
    pub fn fingerprint(&self, spec: &Spec) -> String {
        let claimed = arch::parameters(spec).unwrap_or_default();
        let claimed: HashSet<String> = claimed.iter().flat_map(stored_names).collect();
        let own = self.names().filter(|name| claimed.contains(*name));
        let contents: Vec<Content<'_>> = own.filter_map(|name| self.content(name)).collect();
        digest(&about(spec), &contents)
    }
}

/// Whether a tensor is a derived buffer or one that its family does not read.
fn is_unread(name: &str, unread: &[&str]) -> bool {
    name.contains(DERIVED) || unread.iter().any(|part| name.contains(part))
}

/// Whether a tensor's name says that it belongs to a dependency predictor.
pub fn names_predictor(name: &str) -> bool {
    let name = name.to_lowercase();
    ["predictor", "dependency", "demask"].iter().any(|mark| name.contains(mark))
}

/// Everything besides the weights that a model's numbers depend on. What is as in the plainest Transformer is not named, so
/// that parts made for one before something was added here still know it.
pub(crate) fn about(spec: &Spec) -> String {
    let mut more = match spec.activation {
        Activation::SiluGate => String::new(),
        other => format!(" {other:?}"),
    };
    if spec.positions == Positions::Rotary && spec.rotary != spec.head_dim {
        more += &format!(" rotary {}", spec.rotary);
    }
    if spec.qk_norm {
        more += " qk-norm";
    }
    if spec.attention != Visibility::Full {
        more += &format!(" {:?} {:?} {:?}", spec.attention, spec.block, spec.origin);
    }
    if let Some(experts) = &spec.experts {
        let Experts {
            count,
            chosen,
            width,
            shared,
            scoring,
            groups,
            groups_chosen,
            bias,
            normalise,
            scale,
            ..
        } = experts;
        more += &format!(" experts {count} {chosen} {width} {shared} {scoring:?} {groups} {groups_chosen}");
        more += &format!(" {bias} {normalise} {scale:?}");
    }
    format!(
        "{} {} {} {} {} {} {} {} {:?} {:?} {}{more}",
        spec.architecture,
        spec.vocab,
        spec.hidden,
        spec.layers,
        spec.heads,
        spec.kv_heads,
        spec.head_dim,
        spec.ffn,
        spec.eps,
        spec.rope_theta,
        spec.shift.is_some()
    )
}

/// Metadata of a file that was made of another checkpoint in another precision: that one's fingerprint.
pub(crate) const ORIGIN: &str = "demask.origin";

/// What versions before 0.2 told models apart by: a hash of the shape and the final norm's weights. Predictors of that
/// time carry it.
pub(crate) fn old_fingerprint(spec: &Spec, norm: &[f32]) -> String {
    let sizes = [spec.vocab, spec.hidden, spec.layers, spec.heads, spec.kv_heads, spec.ffn];
    let experts = spec.experts.iter().flat_map(|experts| [experts.count, experts.width]);
    let hash = sizes
        .into_iter()
        .chain(experts)
        .fold(Hash::new(), |hash, size| hash.bytes(&(size as u64).to_le_bytes()));
    norm.iter().fold(hash, |hash, w| hash.bytes(&half::f16::from_f32(*w).to_le_bytes())).to_string()
}

/// The names under which a checkpoint may store a parameter.
pub(crate) fn stored_names(parameter: &Parameter) -> Vec<String> {
    let mut names: Vec<String> = parameter.tensors().map(|(name, _)| name).collect();
    if parameter.quantises() {
        names.extend([packed_name(&parameter.name), scale_name(&parameter.name)]);
    }
    names
}

/// Weights of a linear map.
pub(crate) enum Weight {
    /// In floating point.
    Numbers(Mapped),
    /// Quantised.
    Bytes(Quantized),
}

/// The layer of some weights on a device.
pub(crate) fn linear_of(weight: Weight, bias: Option<Mapped>, options: &LoadOptions) -> Result<Linear> {
    let vector = |b: Mapped| b.to_f32().into();
    let (device, composed) = (&options.device, options.is_composed());
    Ok(match weight {
        Weight::Numbers(weight) if !composed => Linear::Mapped { weight, bias: bias.map(vector) },
        Weight::Numbers(weight) => {
            let bias = bias.map(|b| on_device(&b, device)).transpose()?;
            Linear::Composed { weight: on_device(&weight, device)?, bias }
        }
        Weight::Bytes(weight) if !composed => Linear::Quantized { weight, bias: bias.map(vector) },
        Weight::Bytes(_) => {
            let problem = "quantised weights run on the CPU only; this device takes bfloat16";
            return Err(Error::Query(problem.into()));
        }
    })
}

/// A copy of a tensor on a device, in its own number format.
pub(crate) fn on_device(mapped: &Mapped, device: &Device) -> Result<Tensor> {
    let dtype = match mapped.dtype() {
        Dtype::F32 => DType::F32,
        Dtype::Bf16 => DType::BF16,
        Dtype::F16 => DType::F16,
    };
    Ok(Tensor::from_raw_buffer(mapped.as_bytes(), dtype, mapped.shape(), device)?)
}

/// The tensors of a checkpoint, in the precision that was asked for.
pub(crate) struct FromStore<'a> {
    pub(crate) store: &'a Store,
    pub(crate) options: &'a LoadOptions,
}

impl FromStore<'_> {
    fn tensor(&self, name: &str, shape: &[usize]) -> Result<Mapped> {
        let tensor = self.store.tensor_shaped(name, shape)?;
        Ok(match self.options.dtype.and_then(Precision::float) {
            Some(dtype) => tensor.to_dtype(dtype),
            None => tensor,
        })
    }

    /// The weights of a linear map: bytes if they are stored or wanted so, else numbers.
    fn weight(&self, which: &Parameter) -> Result<Weight> {
        let (name, dtype) = (which.tensor(), self.options.dtype);
        if which.kind == Use::Exact {
            return Ok(Weight::Numbers(self.store.tensor_shaped(&name, &which.shape)?));
        }
        if self.store.contains(&packed_name(&which.name)) {
            let weight = Quantized::open(self.store, &which.name, which.matrix())?;
            return Ok(match dtype.and_then(Precision::float) {
                Some(dtype) => Weight::Numbers(weight.to_f32().to_dtype(dtype)),
                None => Weight::Bytes(weight),
            });
        }
        match dtype.and_then(|dtype| dtype.packing(which)) {
            Some(packing) => {
                let stored = self.store.tensor_shaped(&name, &which.shape)?;
                let weight = Quantized::quantize(&stored, packing, None)?;
                // Its pages are not needed any more, and would otherwise count beside the bytes made of them.
                stored.release();
                Ok(Weight::Bytes(weight))
            }
            None => Ok(Weight::Numbers(self.tensor(&name, &which.shape)?)),
        }
    }
}

impl Parameters for FromStore<'_> {
    fn embedding(&mut self, which: &Parameter) -> Result<Embedding> {
        let table = self.tensor(&which.tensor(), &which.shape)?;
        Ok(if !self.options.is_composed() {
            Embedding::Mapped(table)
        } else {
            Embedding::Dense(on_device(&table, &self.options.device)?)
        })
    }

    fn linear(&mut self, which: &Parameter) -> Result<Linear> {
        let weight = self.weight(which)?;
        let bias = which.bias().map(|bias| self.tensor(&bias, &which.shape[..1])).transpose()?;
        linear_of(weight, bias, self.options)
    }

    fn vector(&mut self, which: &Parameter) -> Result<Tensor> {
        let values = self.store.tensor_shaped(&which.tensor(), &which.shape)?;
        if !self.options.is_composed() {
            return Ok(Tensor::from_vec(values.to_f32(), which.shape[0], &self.options.device)?);
        }
        let values = match self.options.dtype.and_then(Precision::float) {
            Some(dtype) => values.to_dtype(dtype),
            None => values,
        };
        on_device(&values, &self.options.device)
    }

    fn composed(&self) -> bool {
        self.options.is_composed()
    }
}
