//! Writing safetensors: one file, or a folder sharded by size with its index.
//!
//! Tensors are declared first and their bytes asked for one at a time, so a checkpoint of any size can be written by a
//! process that never holds it. Invariant: a file appears under its name only when it is complete, the index last, and
//! the same declarations and bytes give the same file.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::{INDEX, Mapped, WEIGHTS};
use crate::error::{Error, Result};
pub use crate::file::replace;
use crate::files;

/// A shard of the Hub's usual size.
pub const SHARD_BYTES: u64 = 5_000_000_000;

/// A tensor to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declared {
    /// Its name in the checkpoint.
    pub name: String,
    /// Its element type.
    pub dtype: safetensors::Dtype,
    /// Its dimensions, outermost first.
    pub shape: Vec<usize>,
}

impl Declared {
    /// A tensor of this name, dtype and shape.
    pub fn new(name: impl Into<String>, dtype: impl Into<safetensors::Dtype>, shape: &[usize]) -> Self {
        Self { name: name.into(), dtype: dtype.into(), shape: shape.to_vec() }
    }

    /// Bytes its elements take; `None` if no file could hold them.
    pub fn size_in_bytes(&self) -> Option<u64> {
        let elements = self.shape.iter().try_fold(1_u64, |product, &dim| product.checked_mul(dim as u64))?;
        elements.checked_mul(self.dtype.bitsize() as u64)?.checked_div(8)
    }
}

/// How to write.
#[derive(Debug, Clone)]
pub struct Options {
    /// Above this, tensors go to the next file; a larger tensor gets a file of its own.
    pub max_shard_bytes: u64,
    /// The files' `__metadata__`; `format: pt`, which transformers insists on, is added.
    pub metadata: BTreeMap<String, String>,
}

impl Default for Options {
    fn default() -> Self {
        Self { max_shard_bytes: SHARD_BYTES, metadata: BTreeMap::new() }
    }
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The weight files, in order.
    pub files: Vec<PathBuf>,
    /// Bytes of all tensors together.
    pub tensor_bytes: u64,
}

/// Writes a checkpoint folder's weights. `fill` is called once per tensor and writes its bytes, little-endian, row-major.
pub fn folder(
    folder: &Path,
    tensors: &[Declared],
    options: &Options,
    mut fill: impl FnMut(&Declared, &mut dyn Write) -> io::Result<()>,
) -> Result<Written> {
    check(folder, tensors)?;
    let shards = shards(tensors, options.max_shard_bytes);
    let (unwanted, sharded) = if shards.len() > 1 { (WEIGHTS, true) } else { (INDEX, false) };
    if folder.join(unwanted).exists() {
        let problem = format!("it holds {unwanted}, which would contradict the new files; delete it first");
        return Err(Error::Plan { path: folder.to_path_buf(), problem });
    }
    fs::create_dir_all(folder).map_err(Error::write(folder))?;
    files::clean(folder);

    let mut weight_map = Map::new();
    let mut files = Vec::new();
    for (number, shard) in shards.iter().enumerate() {
        let name = if sharded {
            format!("model-{:05}-of-{:05}.safetensors", number + 1, shards.len())
        } else {
            WEIGHTS.to_owned()
        };
        let path = folder.join(&name);
        write_file(&path, shard, &options.metadata, &mut fill)?;
        weight_map.extend(shard.iter().map(|tensor| (tensor.name.clone(), Value::from(name.as_str()))));
        files.push(path);
    }
    let tensor_bytes = tensors.iter().filter_map(Declared::size_in_bytes).sum();
    if sharded {
        weight_map.sort_keys();
        let index = json!({ "metadata": { "total_size": tensor_bytes }, "weight_map": weight_map });
        replace(&folder.join(INDEX), |file| serde_json::to_writer_pretty(file, &index).map_err(Into::into))?;
    }
    Ok(Written { files, tensor_bytes })
}

/// Writes tensors that are in memory (or mapped) as one safetensors file.
pub fn file(path: &Path, tensors: &[(String, Mapped)], metadata: &BTreeMap<String, String>) -> Result<()> {
    let declared: Vec<_> =
        tensors.iter().map(|(name, tensor)| Declared::new(name, tensor.dtype(), tensor.shape())).collect();
    check(path, &declared)?;
    let by_name: BTreeMap<&str, &Mapped> =
        tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
    let order: Vec<&Declared> = ordered(declared.iter());
    write_file(path, &order, metadata, &mut |tensor, out| {
        out.write_all(by_name[tensor.name.as_str()].as_bytes())
    })
}

fn check(path: &Path, tensors: &[Declared]) -> Result<()> {
    let refuse = |problem| Err(Error::Plan { path: path.to_path_buf(), problem });
    let mut names = HashSet::new();
    for tensor in tensors {
        if !names.insert(tensor.name.as_str()) {
            return refuse(format!("tensor `{}` is declared twice", tensor.name));
        }
        if tensor.size_in_bytes().is_none_or(|bytes| bytes > i64::MAX as u64) {
            return refuse(format!(
                "tensor `{}` of shape {:?} is too large for a file",
                tensor.name, tensor.shape
            ));
        }
    }
    Ok(())
}

/// Cuts the tensors, in the order given, into files of at most `max` bytes.
fn shards(tensors: &[Declared], max: u64) -> Vec<Vec<&Declared>> {
    let mut shards: Vec<Vec<&Declared>> = vec![Vec::new()];
    let mut filled = 0_u64;
    for tensor in tensors {
        let bytes = tensor.size_in_bytes().unwrap_or(u64::MAX);
        if filled > 0 && filled.saturating_add(bytes) > max {
            shards.push(Vec::new());
            filled = 0;
        }
        filled = filled.saturating_add(bytes);
        if let Some(last) = shards.last_mut() {
            last.push(tensor);
        }
    }
    shards.into_iter().map(|shard| ordered(shard.into_iter())).collect()
}

/// Wider elements first, so that every tensor is aligned for its own.
fn ordered<'a>(tensors: impl Iterator<Item = &'a Declared>) -> Vec<&'a Declared> {
    let mut tensors: Vec<_> = tensors.collect();
    tensors.sort_by_key(|tensor| std::cmp::Reverse(tensor.dtype.bitsize()));
    tensors
}

fn write_file(
    path: &Path,
    tensors: &[&Declared],
    metadata: &BTreeMap<String, String>,
    fill: &mut dyn FnMut(&Declared, &mut dyn Write) -> io::Result<()>,
) -> Result<()> {
    let header = header(tensors, metadata);
    replace(path, |out| {
        out.write_all(&(header.len() as u64).to_le_bytes())?;
        out.write_all(&header)?;
        for tensor in tensors {
            let mut counted = Counted { out, written: 0 };
            fill(tensor, &mut counted)?;
            if Some(counted.written) != tensor.size_in_bytes() {
                let problem = format!("tensor `{}` was given {} bytes", tensor.name, counted.written);
                return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
            }
        }
        Ok(())
    })
}

/// The header in a fixed key order, padded so that the data starts at a cache line.
fn header(tensors: &[&Declared], metadata: &BTreeMap<String, String>) -> Vec<u8> {
    let mut about = BTreeMap::from([("format", "pt")]);
    about.extend(metadata.iter().map(|(key, value)| (key.as_str(), value.as_str())));
    let mut map = Map::new();
    map.insert("__metadata__".to_owned(), json!(about));
    let mut start = 0;
    for tensor in tensors {
        let end = start + tensor.size_in_bytes().unwrap_or(0);
        let dtype = tensor.dtype.to_string();
        map.insert(
            tensor.name.clone(),
            json!({ "dtype": dtype, "shape": tensor.shape, "data_offsets": [start, end] }),
        );
        start = end;
    }
    let mut header = Value::Object(map).to_string().into_bytes();
    header.resize((header.len() + 8).next_multiple_of(64) - 8, b' ');
    header
}

struct Counted<'a> {
    out: &'a mut dyn Write,
    written: u64,
}

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.written += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
