//! Writing GGUF: models other programs can run, to compare with them, and files for tests.
//!
//! Names, order of rows and metadata are those llama.cpp's converters write.

use std::path::Path;

use candle_core::quantized::gguf_file::{self, Value};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use serde_json::Value as Json;

use super::row_in_file;
use crate::arch;
use crate::config::Spec;
use crate::error::{Error, Result};
use crate::file::Pending;
use crate::layer::{Parameter, Use};

/// The format of the matrices; vectors are F32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Single precision.
    F32,
    /// IEEE half precision.
    F16,
    /// Brain floating point.
    Bf16,
    /// Bytes with a scale per 32.
    Q8_0,
    /// Nibbles with a scale per 32.
    Q4_0,
    /// Nibbles with scales and minima of 6 bits.
    Q4K,
    /// Five bits, the same.
    Q5K,
    /// Six bits with scales of 8 bits per 16.
    Q6K,
}

impl Kind {
    fn ggml(self) -> GgmlDType {
        match self {
            Self::F32 => GgmlDType::F32,
            Self::F16 => GgmlDType::F16,
            Self::Bf16 => GgmlDType::BF16,
            Self::Q8_0 => GgmlDType::Q8_0,
            Self::Q4_0 => GgmlDType::Q4_0,
            Self::Q4K => GgmlDType::Q4K,
            Self::Q5K => GgmlDType::Q5K,
            Self::Q6K => GgmlDType::Q6K,
        }
    }
}

/// The tokenizer to put into a file.
#[derive(Debug, Clone, Default)]
pub struct Vocabulary {
    /// The content of a `tokenizer.json` of byte-level BPE; without one, other programs see no vocabulary.
    pub tokenizer: Option<Json>,
    /// llama.cpp's name of its pre-tokeniser.
    pub pre: String,
    /// The chat template.
    pub template: Option<String>,
}

/// Tells the values of a checkpoint's tensor by name and shape.
pub type Values<'a> = dyn FnMut(&str, &[usize]) -> Result<Vec<f32>> + 'a;

/// Writes a model. `tensor` gives the values of a checkpoint's tensor by name and shape.
pub fn write(
    path: &Path,
    spec: &Spec,
    kind: Kind,
    vocabulary: &Vocabulary,
    tensor: &mut Values<'_>,
) -> Result<()> {
    if !arch::has_gguf(spec.architecture) {
        let problem =
            format!("{} models have no GGUF form here; keep the checkpoint folder", spec.architecture);
        return Err(Error::Query(problem));
    }
    let parameters = arch::parameters(spec)?;
    let mut tensors = Vec::new();
    let mut rest = parameters.as_slice();
    while let Some(first) = rest.first() {
        // The experts of a layer share a tensor, outermost dimension their number; they are written with the first.
        let (same, others): (Vec<&Parameter>, bool) = match first.expert {
            None => (vec![first], false),
            Some((index, _)) => {
                let same = |p: &&Parameter| p.layer == first.layer && p.role == first.role;
                (rest.iter().filter(same).collect(), index > 0)
            }
        };
        rest = &rest[1..];
        if others {
            continue;
        }
        let stacked = match first.expert {
            None => first.shape.clone(),
            Some((_, count)) => [&[count], first.shape.as_slice()].concat(),
        };
        let mut values = Vec::with_capacity(stacked.iter().product());
        for parameter in same {
            let own = tensor(&parameter.tensor(), &parameter.shape)?;
            values.extend(ordered(spec, parameter, own, parameter.shape[1..].iter().product()));
        }
        let values = Tensor::from_vec(values, stacked, &Device::Cpu)?;
        let exact = first.kind == Use::Exact || first.shape.len() == 1;
        let kind = if exact { GgmlDType::F32 } else { kind.ggml() };
        tensors.push((first.gguf_tensor(), QTensor::quantize(&values, kind)?));
        if let Some(bias) = first.bias() {
            let own = ordered(spec, first, tensor(&bias, &first.shape[..1])?, 1);
            let own = Tensor::from_vec(own, first.shape[0], &Device::Cpu)?;
            tensors.push((format!("{}.bias", first.gguf()), QTensor::quantize(&own, GgmlDType::F32)?));
        }
    }
    let metadata = metadata(spec, vocabulary);
    let metadata: Vec<(&str, &Value)> = metadata.iter().map(|(key, value)| (key.as_str(), value)).collect();
    let tensors: Vec<(&str, &QTensor)> = tensors.iter().map(|(name, t)| (name.as_str(), t)).collect();
    let mut out = Pending::create(path)?;
    gguf_file::write(&mut out, &metadata, &tensors)?;
    out.finish()
}

/// The rows of a tensor in the file's order.
fn ordered(spec: &Spec, parameter: &Parameter, values: Vec<f32>, width: usize) -> Vec<f32> {
    let mut ordered = vec![0.0; values.len()];
    for (row, values) in values.chunks_exact(width).enumerate() {
        let to = row_in_file(spec, parameter.role, row) * width;
        ordered[to..to + width].copy_from_slice(values);
    }
    ordered
}

fn metadata(spec: &Spec, vocabulary: &Vocabulary) -> Vec<(String, Value)> {
    let text = |t: &str| Value::String(t.to_owned());
    let mut all = vec![
        ("general.architecture".to_owned(), text(spec.architecture)),
        ("general.name".to_owned(), text("written by demask")),
    ];
    all.extend(super::spec::metadata(spec));
    match vocabulary.tokenizer.as_ref().and_then(|json| words(json, spec.vocab)) {
        None => all.push(("tokenizer.ggml.model".to_owned(), text("none"))),
        Some((tokens, kinds, merges)) => {
            all.push(("tokenizer.ggml.model".to_owned(), text("gpt2")));
            all.push(("tokenizer.ggml.pre".to_owned(), text(&vocabulary.pre)));
            all.push(("tokenizer.ggml.tokens".to_owned(), Value::Array(tokens)));
            all.push(("tokenizer.ggml.token_type".to_owned(), Value::Array(kinds)));
            all.push(("tokenizer.ggml.merges".to_owned(), Value::Array(merges)));
        }
    }
    if let Some(template) = &vocabulary.template {
        all.push(("tokenizer.chat_template".to_owned(), text(template)));
    }
    all
}

/// Tokens, their types and the merges of a `tokenizer.json`.
fn words(json: &Json, vocab: usize) -> Option<(Vec<Value>, Vec<Value>, Vec<Value>)> {
    let mut tokens: Vec<String> = (0..vocab).map(|id| format!("[PAD{id}]")).collect();
    let mut kinds = vec![5; vocab];
    for (token, id) in json["model"]["vocab"].as_object()? {
        let id = id.as_u64()? as usize;
        *tokens.get_mut(id)? = token.clone();
        kinds[id] = 1;
    }
    for added in json["added_tokens"].as_array()? {
        let id = added["id"].as_u64()? as usize;
        *tokens.get_mut(id)? = added["content"].as_str()?.to_owned();
        kinds[id] = if added["special"].as_bool()? { 3 } else { 4 };
    }
    let merge = |merge: &Json| match merge {
        Json::String(pair) => Some(Value::String(pair.clone())),
        Json::Array(pair) => {
            Some(Value::String(format!("{} {}", pair.first()?.as_str()?, pair.get(1)?.as_str()?)))
        }
        _ => None,
    };
    let merges = json["model"]["merges"].as_array()?.iter().map(merge).collect::<Option<Vec<_>>>()?;
    let tokens = tokens.into_iter().map(Value::String).collect();
    Some((tokens, kinds.into_iter().map(Value::I32).collect(), merges))
}
