//! A weight tensor as the checkpoint stores it: F32, BF16 or F16, in the mapped file or owned.
//!
//! Invariant: the storage holds exactly `shape.product()` elements and is aligned for its dtype, so [`Mapped::weights`]
//! is a cast and cannot fail.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use demask_kernels::Weights;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use rayon::prelude::*;

use super::Bytes;

// safetensors is little-endian and the bytes are cast in place.
const _: () =
    assert!(cfg!(target_endian = "little"), "checkpoints are mapped in place: little-endian machines only");

/// Elements converted by one task; large enough that a task costs more than its scheduling.
const CHUNK: usize = 1 << 16;

/// A number format a weight may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dtype {
    /// Single precision.
    F32,
    /// Brain floating point.
    Bf16,
    /// IEEE half precision.
    F16,
}

impl Dtype {
    /// Bytes of one element.
    pub fn size(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Bf16 | Self::F16 => 2,
        }
    }

    pub(super) fn of(dtype: safetensors::Dtype) -> Option<Self> {
        match dtype {
            safetensors::Dtype::F32 => Some(Self::F32),
            safetensors::Dtype::BF16 => Some(Self::Bf16),
            safetensors::Dtype::F16 => Some(Self::F16),
            _ => None,
        }
    }
}

impl From<Dtype> for safetensors::Dtype {
    fn from(dtype: Dtype) -> Self {
        match dtype {
            Dtype::F32 => Self::F32,
            Dtype::Bf16 => Self::BF16,
            Dtype::F16 => Self::F16,
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
        })
    }
}

/// A weight tensor, row-major; clones share the storage.
#[derive(Debug, Clone)]
pub struct Mapped {
    dtype: Dtype,
    shape: Arc<[usize]>,
    storage: Storage,
}

#[derive(Debug, Clone)]
enum Storage {
    /// Aligned for the tensor's dtype.
    Bytes(Bytes),
    /// Elements of an owned tensor, from `start`.
    F32(Arc<[f32]>, usize),
    Bf16(Arc<[bf16]>, usize),
    F16(Arc<[f16]>, usize),
}

impl Mapped {
    /// A tensor over bytes of a file whose length was checked; unaligned bytes are copied.
    pub(crate) fn from_bytes(dtype: Dtype, shape: &[usize], bytes: Bytes) -> Self {
        debug_assert_eq!(bytes.len(), shape.iter().product::<usize>() * dtype.size());
        let storage = if bytes.as_ptr().addr().is_multiple_of(dtype.size()) {
            Storage::Bytes(bytes)
        } else {
            match dtype {
                Dtype::F32 => Storage::F32(bytemuck::pod_collect_to_vec(&bytes).into(), 0),
                Dtype::Bf16 => Storage::Bf16(bytemuck::pod_collect_to_vec(&bytes).into(), 0),
                Dtype::F16 => Storage::F16(bytemuck::pod_collect_to_vec(&bytes).into(), 0),
            }
        };
        Self { dtype, shape: shape.into(), storage }
    }

    /// A tensor made in memory.
    ///
    /// # Panics
    /// If `values` does not fill `shape`.
    pub fn from_f32(shape: &[usize], values: Vec<f32>) -> Self {
        assert_eq!(values.len(), shape.iter().product::<usize>(), "the values must fill the shape");
        Self { dtype: Dtype::F32, shape: shape.into(), storage: Storage::F32(values.into(), 0) }
    }

    /// The same in brain floating point.
    ///
    /// # Panics
    /// If `values` does not fill `shape`.
    pub fn from_bf16(shape: &[usize], values: Vec<bf16>) -> Self {
        assert_eq!(values.len(), shape.iter().product::<usize>(), "the values must fill the shape");
        Self { dtype: Dtype::Bf16, shape: shape.into(), storage: Storage::Bf16(values.into(), 0) }
    }

    /// The same in half precision.
    ///
    /// # Panics
    /// If `values` does not fill `shape`.
    pub fn from_f16(shape: &[usize], values: Vec<f16>) -> Self {
        assert_eq!(values.len(), shape.iter().product::<usize>(), "the values must fill the shape");
        Self { dtype: Dtype::F16, shape: shape.into(), storage: Storage::F16(values.into(), 0) }
    }

    /// The stored number format.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// The dimensions, outermost first.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether a dimension is zero.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes the elements take.
    pub fn size_in_bytes(&self) -> usize {
        self.len() * self.dtype.size()
    }

    /// Whether the elements are in a mapped file and not in memory of our own.
    pub fn is_mapped(&self) -> bool {
        matches!(&self.storage, Storage::Bytes(bytes) if bytes.is_mapped())
    }

    /// Lets the system take back the memory of a mapped tensor; it is read again if it is used again.
    pub fn release(&self) {
        if let Storage::Bytes(bytes) = &self.storage {
            bytes.release();
        }
    }

    /// The elements, as the kernels take them.
    pub fn weights(&self) -> Weights<'_> {
        let len = self.len();
        match (&self.storage, self.dtype) {
            (Storage::F32(values, start), _) => Weights::F32(&values[*start..start + len]),
            (Storage::Bf16(values, start), _) => Weights::Bf16(&values[*start..start + len]),
            (Storage::F16(values, start), _) => Weights::F16(&values[*start..start + len]),
            (Storage::Bytes(bytes), Dtype::F32) => Weights::F32(bytemuck::cast_slice(bytes)),
            (Storage::Bytes(bytes), Dtype::Bf16) => Weights::Bf16(bytemuck::cast_slice(bytes)),
            (Storage::Bytes(bytes), Dtype::F16) => Weights::F16(bytemuck::cast_slice(bytes)),
        }
    }

    /// The elements as bytes, as a safetensors file holds them.
    pub fn as_bytes(&self) -> &[u8] {
        match self.weights() {
            Weights::F32(values) => bytemuck::cast_slice(values),
            Weights::Bf16(values) => bytemuck::cast_slice(values),
            Weights::F16(values) => bytemuck::cast_slice(values),
        }
    }

    /// All elements in single precision.
    pub fn to_f32(&self) -> Vec<f32> {
        let mut out = vec![0.0; self.len()];
        widen(self.weights(), &mut out);
        out
    }

    /// Elements of one index of the first dimension.
    pub fn row_len(&self) -> usize {
        self.shape.iter().skip(1).product()
    }

    /// One row in single precision, e.g. a token's embedding.
    ///
    /// # Panics
    /// If `row` is outside the first dimension or `out` is not one row long.
    pub fn row_f32(&self, row: usize, out: &mut [f32]) {
        let width = self.row_len();
        assert_eq!(out.len(), width, "`out` must be one row");
        widen_serial(section(self.weights(), row * width..(row + 1) * width), out);
    }

    /// Some rows as a tensor of their own, sharing the storage.
    ///
    /// # Panics
    /// If `rows` is not inside the first dimension.
    pub fn rows(&self, rows: Range<usize>) -> Self {
        let count = self.shape.first().copied().unwrap_or(0);
        assert!(rows.start <= rows.end && rows.end <= count, "rows must be inside the first dimension");
        let width = self.row_len();
        let storage = match &self.storage {
            Storage::Bytes(bytes) => {
                let row = width * self.dtype.size();
                Storage::Bytes(bytes.slice(rows.start * row..rows.end * row))
            }
            Storage::F32(values, start) => Storage::F32(values.clone(), start + rows.start * width),
            Storage::Bf16(values, start) => Storage::Bf16(values.clone(), start + rows.start * width),
            Storage::F16(values, start) => Storage::F16(values.clone(), start + rows.start * width),
        };
        let shape = std::iter::once(rows.len()).chain(self.shape[1..].iter().copied()).collect();
        Self { dtype: self.dtype, shape, storage }
    }

    /// The same tensor in another number format, rounded to nearest, ties to even; no copy if it has it already.
    pub fn to_dtype(&self, dtype: Dtype) -> Self {
        if dtype == self.dtype {
            return self.clone();
        }
        let storage = match dtype {
            Dtype::F32 => Storage::F32(self.to_f32().into(), 0),
            Dtype::Bf16 => Storage::Bf16(self.narrow(bf16::from_f32).into(), 0),
            Dtype::F16 => Storage::F16(self.narrow(f16::from_f32).into(), 0),
        };
        Self { dtype, shape: self.shape.clone(), storage }
    }

    fn narrow<T: Copy + Default + Send>(&self, round: fn(f32) -> T) -> Vec<T> {
        let weights = self.weights();
        let mut out = vec![T::default(); self.len()];
        out.par_chunks_mut(CHUNK).enumerate().for_each(|(chunk, out)| {
            let mut wide = [0.0; CHUNK / 64];
            for (part, out) in out.chunks_mut(wide.len()).enumerate() {
                let start = chunk * CHUNK + part * wide.len();
                let wide = &mut wide[..out.len()];
                widen_serial(section(weights, start..start + wide.len()), wide);
                for (out, &value) in out.iter_mut().zip(&*wide) {
                    *out = round(value);
                }
            }
        });
        out
    }
}

fn section(weights: Weights<'_>, range: Range<usize>) -> Weights<'_> {
    match weights {
        Weights::F32(values) => Weights::F32(&values[range]),
        Weights::Bf16(values) => Weights::Bf16(&values[range]),
        Weights::F16(values) => Weights::F16(&values[range]),
    }
}

fn widen(weights: Weights<'_>, out: &mut [f32]) {
    out.par_chunks_mut(CHUNK).enumerate().for_each(|(chunk, out)| {
        let start = chunk * CHUNK;
        widen_serial(section(weights, start..start + out.len()), out);
    });
}

fn widen_serial(weights: Weights<'_>, out: &mut [f32]) {
    match weights {
        Weights::F32(values) => out.copy_from_slice(values),
        Weights::Bf16(values) => values.convert_to_f32_slice(out),
        Weights::F16(values) => values.convert_to_f32_slice(out),
    }
}
