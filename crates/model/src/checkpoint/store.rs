//! The tensors of a checkpoint folder by name, whatever the number of files.
//!
//! Invariant: after [`Store::open`] every name leads to bytes that are there; opening reads headers only.

use std::borrow::Cow;
use std::collections::btree_map::{self, BTreeMap};
use std::collections::{BTreeSet, HashSet};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;

use super::digest::Content;
use super::header::{self, Entry};
use super::{Bytes, Dtype, INDEX, Mapped, WEIGHTS, map};
use crate::error::{Error, Result};
use crate::files;

/// Every tensor of a checkpoint.
#[derive(Debug, Clone)]
pub struct Store {
    /// The folder, or the single file.
    path: PathBuf,
    files: Vec<Arc<Opened>>,
    tensors: BTreeMap<String, Located>,
    metadata: BTreeMap<String, String>,
}

#[derive(Debug)]
struct Opened {
    path: PathBuf,
    bytes: Bytes,
}

#[derive(Debug, Clone)]
struct Located {
    file: usize,
    entry: Entry,
}

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

impl Index {
    fn read(path: &Path) -> Result<Self> {
        let text = files::read(path).map_err(Error::read(path))?;
        serde_json::from_slice(&text).map_err(Error::json(path))
    }

    fn shards(&self) -> BTreeSet<&str> {
        self.weight_map.values().map(String::as_str).collect()
    }
}

impl Store {
    /// Opens a checkpoint folder: `model.safetensors`, or the shards its index names.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self> {
        Self::open_as(folder, true)
    }

    /// The same, with the files mapped or read into memory.
    pub fn open_as(folder: impl AsRef<Path>, mapped: bool) -> Result<Self> {
        let folder = folder.as_ref();
        std::fs::read_dir(folder).map_err(Error::read(folder))?;
        let (single, index) = (folder.join(WEIGHTS), folder.join(INDEX));
        if single.exists() {
            let mut store = Self::empty(&single);
            store.add(&single, mapped)?;
            Ok(store)
        } else if index.exists() {
            Self::open_shards(folder, &index, mapped)
        } else {
            Err(Error::NotACheckpoint {
                path: folder.to_path_buf(),
                wanted: "model.safetensors (nor model.safetensors.index.json)",
            })
        }
    }

    /// Opens one safetensors file of any name.
    pub fn open_file(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let mut store = Self::empty(path);
        store.add(path, true)?;
        Ok(store)
    }

    /// A safetensors file that is already in memory, e.g. compiled into the program; `name` stands for it in messages.
    pub fn from_bytes(name: impl Into<PathBuf>, bytes: impl Into<Cow<'static, [u8]>>) -> Result<Self> {
        let mut store = Self::empty(&name.into());
        store.add_bytes(store.path.clone(), Bytes::from(bytes.into()))?;
        Ok(store)
    }

    /// The folder or file this was opened from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The names of all tensors, sorted.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// Whether there is a tensor of this name.
    pub fn contains(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// The `__metadata__` of the files, merged; the first file wins.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    /// Bytes of all tensors together.
    pub fn size_in_bytes(&self) -> usize {
        self.tensors.values().map(|tensor| tensor.entry.range.len()).sum()
    }

    /// A tensor's shape, without touching its elements.
    pub fn shape(&self, name: &str) -> Result<&[usize]> {
        Ok(&self.locate(name)?.entry.shape)
    }

    /// A weight.
    pub fn tensor(&self, name: &str) -> Result<Mapped> {
        let located = self.locate(name)?;
        let Some(dtype) = Dtype::of(located.entry.dtype) else {
            return Err(Error::Dtype {
                path: self.files[located.file].path.clone(),
                tensor: name.to_owned(),
                found: located.entry.dtype.to_string(),
            });
        };
        Ok(Mapped::from_bytes(dtype, &located.entry.shape, self.slice(located)))
    }

    /// A weight that must have this shape.
    pub fn tensor_shaped(&self, name: &str, expected: &[usize]) -> Result<Mapped> {
        let located = self.locate(name)?;
        if located.entry.shape == expected {
            return self.tensor(name);
        }
        Err(Error::Shape {
            path: self.files[located.file].path.clone(),
            tensor: name.to_owned(),
            expected: expected.to_vec(),
            found: located.entry.shape.clone(),
        })
    }

    /// A tensor of any dtype as bytes, e.g. quantized weights or recorded ids.
    pub fn bytes(&self, name: &str) -> Result<(safetensors::Dtype, &[usize], Bytes)> {
        let located = self.locate(name)?;
        Ok((located.entry.dtype, &located.entry.shape, self.slice(located)))
    }

    /// Whole files, as they were opened.
    pub(crate) fn files(&self) -> Vec<Bytes> {
        self.files.iter().map(|file| file.bytes.clone()).collect()
    }

    /// A tensor with all that tells it from another.
    pub(crate) fn content(&self, name: &str) -> Option<Content<'_>> {
        let (name, located) = self.tensors.get_key_value(name)?;
        let (format, shape) = (located.entry.dtype.to_string(), located.entry.shape.as_slice());
        Some(Content { name, format, shape, bytes: self.slice(located) })
    }

    /// The same tensors, those under `prefix` by the rest of their names.
    pub(crate) fn without_prefix(mut self, prefix: &str) -> Result<Self> {
        let mut tensors = BTreeMap::new();
        for (name, located) in self.tensors {
            let bare = name.strip_prefix(prefix).unwrap_or(&name).to_owned();
            if tensors.insert(bare, located).is_some() {
                let cause = format!("tensor `{name}` is there twice, with and without the prefix `{prefix}`");
                return Err(Error::Safetensors { path: self.path, cause });
            }
        }
        self.tensors = tensors;
        Ok(self)
    }

    /// The tensors no one asked for, sorted.
    pub fn left_over<S: AsRef<str>>(&self, used: &[S]) -> Vec<&str> {
        let used: HashSet<&str> = used.iter().map(AsRef::as_ref).collect();
        self.names().filter(|name| !used.contains(name)).collect()
    }

    /// Refuses a checkpoint with tensors its architecture does not know.
    pub fn unused<S: AsRef<str>>(&self, used: &[S]) -> Result<()> {
        let unused = self.left_over(used);
        let Some(&first) = unused.first() else { return Ok(()) };
        Err(Error::TensorsUnused { path: self.path.clone(), count: unused.len(), first: first.to_owned() })
    }

    fn empty(path: &Path) -> Self {
        Self {
            path: path.to_path_buf(),
            files: Vec::new(),
            tensors: BTreeMap::new(),
            metadata: BTreeMap::new(),
        }
    }

    fn open_shards(folder: &Path, index_path: &Path, mapped: bool) -> Result<Self> {
        let index = Index::read(index_path)?;
        let missing =
            |shard: &str| Error::ShardMissing { index: index_path.to_path_buf(), shard: shard.to_owned() };

        let mut store = Self::empty(folder);
        let mut numbers = BTreeMap::new();
        for shard in index.shards() {
            let path = folder.join(shard);
            if !is_file_name(shard) || !path.exists() {
                return Err(missing(shard));
            }
            numbers.insert(shard, store.files.len());
            store.add(&path, mapped)?;
        }
        for (tensor, shard) in &index.weight_map {
            let found = store.tensors.get(tensor).map(|located| located.file);
            if found != numbers.get(shard.as_str()).copied() {
                return Err(Error::WrongShard {
                    index: index_path.to_path_buf(),
                    tensor: tensor.clone(),
                    shard: shard.clone(),
                });
            }
        }
        Ok(store)
    }

    fn add(&mut self, path: &Path, mapped: bool) -> Result<()> {
        self.add_bytes(path.to_path_buf(), bytes_of(path, mapped)?)
    }

    fn add_bytes(&mut self, path: PathBuf, bytes: Bytes) -> Result<()> {
        let header = header::read(&path, &bytes)?;
        let file = self.files.len();
        for (name, entry) in header.entries {
            match self.tensors.entry(name) {
                btree_map::Entry::Vacant(place) => place.insert(Located { file, entry }),
                btree_map::Entry::Occupied(place) => {
                    let other = &self.files[place.get().file].path;
                    let cause = format!("tensor `{}` is also in {}", place.key(), other.display());
                    return Err(Error::Safetensors { path, cause });
                }
            };
        }
        for (key, value) in header.metadata {
            self.metadata.entry(key).or_insert(value);
        }
        self.files.push(Arc::new(Opened { path, bytes }));
        Ok(())
    }

    fn locate(&self, name: &str) -> Result<&Located> {
        self.tensors
            .get(name)
            .ok_or_else(|| Error::TensorMissing { path: self.path.clone(), tensor: name.to_owned() })
    }

    fn slice(&self, located: &Located) -> Bytes {
        self.files[located.file].bytes.slice(located.entry.range.clone())
    }
}

/// A whole file, mapped or read.
pub(crate) fn bytes_of(path: &Path, mapped: bool) -> Result<Bytes> {
    if mapped {
        return Ok(Bytes::from(map::map(path).map_err(Error::read(path))?));
    }
    let bytes = files::read_at_most(path, u64::MAX - 1).map_err(Error::read(path))?;
    Ok(Bytes::from(Cow::Owned(bytes)))
}

/// The names of the files in a folder that hold a checkpoint's weights.
pub fn weight_files(folder: &Path) -> BTreeSet<String> {
    let shards = shard_names(&folder.join(INDEX)).unwrap_or_default();
    shards.into_iter().chain([WEIGHTS.to_owned()]).collect()
}

/// The files an index names.
pub(crate) fn shard_names(index: &Path) -> Result<BTreeSet<String>> {
    Ok(Index::read(index)?.shards().into_iter().map(str::to_owned).collect())
}

/// A plain name: an index must not lead out of its folder.
pub(super) fn is_file_name(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    matches!((parts.next(), parts.next()), (Some(Component::Normal(part)), None) if part == name)
}
