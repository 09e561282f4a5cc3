//! Writing GGUF: models other programs can run, to compare with them, and files for tests.
//!
//! Names, order of rows and metadata are those llama.cpp's converters write.

use std::collections::BTreeMap;
use std::io::BufWriter;
use std::path::Path;

use candle_core::quantized::gguf_file::{self, Value};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use serde_json::Value as Json;

use super::{names, row_in_file};
use crate::arch;
use crate::config::Spec;
use crate::error::{Error, Result};
use crate::files;

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
    let architecture = arch::by_name(spec.architecture)
        .ok_or_else(|| Error::Query(format!("unknown architecture {}", spec.architecture)))?;
    let theirs: BTreeMap<String, String> = names(spec)?.into_iter().collect();
    let mut tensors = Vec::new();
    for (name, shape) in arch::tensors(spec, &architecture.names) {
        let (base, suffix) = name.rsplit_once('.').unwrap_or((&name, ""));
        let Some(renamed) = theirs.get(base) else { continue };
        let values = tensor(&name, &shape)?;
        let width: usize = shape[1..].iter().product();
        let mut ordered = vec![0.0; values.len()];
        for (row, values) in values.chunks_exact(width).enumerate() {
            let to = row_in_file(spec, renamed, row) * width;
            ordered[to..to + width].copy_from_slice(values);
        }
        let values = Tensor::from_vec(ordered, shape.as_slice(), &Device::Cpu)?;
        let kind = if shape.len() == 2 { kind.ggml() } else { GgmlDType::F32 };
        tensors.push((format!("{renamed}.{suffix}"), QTensor::quantize(&values, kind)?));
    }
    let metadata = metadata(spec, vocabulary);
    let metadata: Vec<(&str, &Value)> = metadata.iter().map(|(key, value)| (key.as_str(), value)).collect();
    let tensors: Vec<(&str, &QTensor)> = tensors.iter().map(|(name, t)| (name.as_str(), t)).collect();
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let temporary =
        tempfile::Builder::new().prefix(&files::partial_prefix()).suffix(files::PARTIAL).tempfile_in(folder);
    let mut out = BufWriter::new(temporary.map_err(Error::write(path))?);
    gguf_file::write(&mut out, &metadata, &tensors)?;
    let file = out.into_inner().map_err(|cause| Error::write(path)(cause.into_error()))?;
    file.as_file().sync_all().map_err(Error::write(path))?;
    file.persist(path).map_err(|cause| Error::write(path)(cause.error))?;
    files::sync_folder_of(path).map_err(Error::write(path))
}

fn metadata(spec: &Spec, vocabulary: &Vocabulary) -> Vec<(String, Value)> {
    let count = |n: usize| Value::U32(n as u32);
    let text = |t: &str| Value::String(t.to_owned());
    let arch = spec.architecture;
    let mut all = vec![
        ("general.architecture".to_owned(), text(arch)),
        ("general.name".to_owned(), text("written by demask")),
        (format!("{arch}.block_count"), count(spec.layers)),
        (format!("{arch}.context_length"), count(spec.max_positions)),
        (format!("{arch}.embedding_length"), count(spec.hidden)),
        (format!("{arch}.feed_forward_length"), count(spec.ffn)),
        (format!("{arch}.attention.head_count"), count(spec.heads)),
        (format!("{arch}.attention.head_count_kv"), count(spec.kv_heads)),
        (format!("{arch}.attention.key_length"), count(spec.head_dim)),
        (format!("{arch}.attention.value_length"), count(spec.head_dim)),
        (format!("{arch}.attention.layer_norm_rms_epsilon"), Value::F32(spec.eps)),
        (format!("{arch}.attention.causal"), Value::Bool(false)),
        (format!("{arch}.rope.dimension_count"), count(spec.head_dim)),
        (format!("{arch}.rope.freq_base"), Value::F32(spec.rope_theta as f32)),
        (format!("{arch}.vocab_size"), count(spec.vocab)),
        ("diffusion.shift_logits".to_owned(), Value::Bool(spec.shift)),
        ("tokenizer.ggml.mask_token_id".to_owned(), Value::U32(spec.ids.mask)),
    ];
    let ids = [("eos", spec.ids.eos.first().copied()), ("padding", spec.ids.pad), ("bos", spec.ids.bos)];
    for (name, id) in ids {
        all.extend(id.map(|id| (format!("tokenizer.ggml.{name}_token_id"), Value::U32(id))));
    }
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
