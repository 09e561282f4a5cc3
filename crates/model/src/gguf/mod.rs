//! GGUF, the file format of llama.cpp: one file with shape, tokenizer, chat template and weights.
//!
//! A GGUF file may be named wherever a checkpoint folder may. F32, F16 and BF16 weights stay in the mapped file; Q8_0,
//! Q4_0 and Q4_K run in the kernels with their own bits and scales; other K-quants are brought to int8 in groups of 32.
//! Invariant: a tensor's range was checked against the file before anything refers to it.

mod blocks;
mod load;
mod scan;
mod spec;
mod text;
mod write;

use std::io::Cursor;
use std::path::{Path, PathBuf};

use candle_core::quantized::GgmlDType;
use candle_core::quantized::gguf_file::{self, TensorInfo, Value};
use serde_json::Map;

use crate::arch;
use crate::checkpoint::digest::Content;
use crate::checkpoint::{Bytes, bytes_of};
use crate::config::Spec;
use crate::error::{Error, Result};
use crate::guard::caught;
use crate::layer::{Role, role};

pub(crate) use load::transformer;
pub(crate) use text::{settings, tokenizer_json};
pub use write::{Kind, Values, Vocabulary, write};

/// An opened file.
pub struct Gguf {
    path: PathBuf,
    content: gguf_file::Content,
    bytes: Bytes,
}

/// Whether a path names such a file.
pub fn is_gguf(path: &Path) -> bool {
    path.extension().is_some_and(|e| e.eq_ignore_ascii_case("gguf")) && path.is_file()
}

impl Gguf {
    /// Maps a file and reads its header.
    pub fn open(path: &Path) -> Result<Self> {
        Self::open_as(path, true)
    }

    /// The same, mapped or read.
    pub(crate) fn open_as(path: &Path, mapped: bool) -> Result<Self> {
        let bytes = bytes_of(path, mapped)?;
        let bad = |cause: String| Error::Gguf { path: path.to_path_buf(), cause };
        scan::check(&bytes).map_err(bad)?;
        let content = caught(|| gguf_file::Content::read(&mut Cursor::new(&*bytes))).map_err(bad)?;
        let content = content.map_err(|cause| bad(first_line(&cause.to_string())))?;
        Ok(Self { path: path.to_path_buf(), content, bytes })
    }

    /// Bytes of all tensors together.
    pub fn size_in_bytes(&self) -> usize {
        let infos = self.content.tensor_infos.values();
        infos.map(|i| i.shape.elem_count() / i.ggml_dtype.block_size() * i.ggml_dtype.type_size()).sum()
    }

    /// How many tensors there are.
    pub fn tensors(&self) -> usize {
        self.content.tensor_infos.len()
    }

    /// Its tensors, as far as they are inside the file.
    fn contents(&self) -> Vec<Content<'_>> {
        let infos = self.content.tensor_infos.iter();
        infos.filter_map(|(name, info)| self.content_of(name, info)).collect()
    }

    fn content_of<'a>(&'a self, name: &'a str, info: &'a TensorInfo) -> Option<Content<'a>> {
        let dtype = info.ggml_dtype;
        let size = info.shape.elem_count() / dtype.block_size() * dtype.type_size();
        let start = usize::try_from(self.content.tensor_data_offset.checked_add(info.offset)?).ok()?;
        let end = start.checked_add(size).filter(|&end| end <= self.bytes.len())?;
        let bytes = self.bytes.slice(start..end);
        Some(Content { name, format: format!("{dtype:?}"), shape: info.shape.dims(), bytes })
    }

    fn bad(&self, cause: String) -> Error {
        Error::Gguf { path: self.path.clone(), cause }
    }

    fn text(&self, key: &str) -> Option<&str> {
        match self.content.metadata.get(key)? {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    fn number(&self, key: &str) -> Option<f64> {
        number(self.content.metadata.get(key)?)
    }

    fn list(&self, key: &str) -> Option<&[Value]> {
        match self.content.metadata.get(key)? {
            Value::Array(values) => Some(values),
            _ => None,
        }
    }

    fn strings(&self, key: &str) -> Option<Vec<&str>> {
        self.list(key)?.iter().map(|v| v.to_string().ok().map(String::as_str)).collect()
    }

    fn token_id(&self, names: &[&str]) -> Option<u64> {
        let tokens = self.strings("tokenizer.ggml.tokens")?;
        tokens.iter().position(|t| names.contains(t)).map(|id| id as u64)
    }

    /// A tensor's format and bytes; it must have this shape.
    fn tensor(&self, name: &str, shape: &[usize]) -> Result<(GgmlDType, Bytes)> {
        let info = self
            .content
            .tensor_infos
            .get(name)
            .ok_or_else(|| Error::TensorMissing { path: self.path.clone(), tensor: name.to_owned() })?;
        if info.shape.dims() != shape {
            return Err(Error::Shape {
                path: self.path.clone(),
                tensor: name.to_owned(),
                expected: shape.to_vec(),
                found: info.shape.dims().to_vec(),
            });
        }
        let dtype = info.ggml_dtype;
        let elements = info.shape.elem_count();
        let width = shape.last().copied().unwrap_or(1);
        if !width.is_multiple_of(dtype.block_size()) {
            return Err(self.bad(format!("tensor `{name}` of rows of {width} cannot be {dtype:?}")));
        }
        let start = self.content.tensor_data_offset.checked_add(info.offset);
        let start = start.and_then(|s| usize::try_from(s).ok()).filter(|s| s.is_multiple_of(4));
        let end = start.and_then(|s| s.checked_add(elements / dtype.block_size() * dtype.type_size()));
        match (start, end) {
            (Some(start), Some(end)) if end <= self.bytes.len() => Ok((dtype, self.bytes.slice(start..end))),
            _ => Err(self.bad(format!(
                "tensor `{name}` is not inside the file or not aligned; it is damaged or incomplete"
            ))),
        }
    }
}

/// Row of the file that holds row `row` of ours. llama.cpp's LLaDA rotates neighbouring pairs and ours halves of a head,
/// so its queries and keys are stored in another order; every other tensor has the same.
fn row_in_file(spec: &Spec, role: Role, row: usize) -> usize {
    let pairs = arch::by_name(spec.architecture).is_some_and(|family| family.facts.gguf_pairs);
    if !pairs || ![role::Q, role::K].contains(&role) {
        return row;
    }
    let (head, within, half) = (row / spec.head_dim, row % spec.head_dim, spec.head_dim / 2);
    head * spec.head_dim + within % half * 2 + within / half
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::U8(n) => Some(f64::from(*n)),
        Value::I8(n) => Some(f64::from(*n)),
        Value::U16(n) => Some(f64::from(*n)),
        Value::I16(n) => Some(f64::from(*n)),
        Value::U32(n) => Some(f64::from(*n)),
        Value::I32(n) => Some(f64::from(*n)),
        Value::U64(n) => Some(*n as f64),
        Value::I64(n) => Some(*n as f64),
        // Through text, so that 1e-6 stays 1e-6 and does not grow digits.
        Value::F32(n) => n.to_string().parse().ok(),
        Value::F64(n) => Some(*n),
        _ => None,
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

/// An object of the entries that are there.
fn object(entries: Vec<(&str, Option<serde_json::Value>)>) -> Map<String, serde_json::Value> {
    entries.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
}
