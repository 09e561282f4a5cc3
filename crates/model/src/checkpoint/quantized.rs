//! A weight matrix as bytes with one scale per output row and group of depths, in the packed form the kernels read.
//!
//! In a checkpoint the map `NAME` is two tensors: `NAME.weight_packed` (U8) and `NAME.weight_scale` (F32), and the
//! files' metadata name the group. Invariant: the lengths were checked against shape and group, so
//! [`Quantized::weights`] cannot fail, and a mapped matrix is never copied.

use std::borrow::Cow;
use std::ops::Range;

use demask_kernels::{QuantizeError, QuantizedWeights, Weights};
use rayon::prelude::*;

use super::{Bytes, Mapped, Store};
use crate::error::{Error, Result};

/// Depths of a group unless another is named: measured in `docs/numerics.md`.
pub const GROUP: usize = 128;
/// Rows that are packed together.
const PANEL: usize = 16;
/// Key of the files' metadata that names the group.
pub const GROUP_KEY: &str = "demask_int8_group";

/// The tensor of `name`'s packed bytes.
pub fn packed_name(name: &str) -> String {
    format!("{name}.weight_packed")
}

/// The tensor of `name`'s scales.
pub fn scale_name(name: &str) -> String {
    format!("{name}.weight_scale")
}

/// The shapes of both, outermost first: `[panels, depths / 4, 16, 4]` and `[panels, groups, 16]`.
pub fn stored_shapes(shape: [usize; 2], group: usize) -> std::result::Result<[Vec<usize>; 2], QuantizeError> {
    let [n, k] = shape;
    let (packed, scales) =
        (QuantizedWeights::packed_len(n, k, group)?, QuantizedWeights::scales_len(n, k, group)?);
    let panels = n.div_ceil(PANEL).max(1);
    Ok([vec![panels, packed / (panels * 64), 16, 4], vec![panels, scales / (panels * 16), 16]])
}

/// A quantised `[n, k]` matrix; clones share the storage.
#[derive(Debug, Clone)]
pub struct Quantized {
    n: usize,
    k: usize,
    group: usize,
    packed: Bytes,
    scales: Mapped,
}

impl Quantized {
    /// Quantises a `[n, k]` weight.
    pub fn quantize(weight: &Mapped, group: usize) -> Result<Self> {
        let (n, k) = (weight.shape()[0], weight.row_len());
        Ok(Self::own(
            QuantizedWeights::quantize(weight.weights(), n, k, group)
                .map_err(|e| Error::Query(e.to_string()))?,
        ))
    }

    /// Takes weights quantised elsewhere.
    pub fn own(weights: QuantizedWeights<'static>) -> Self {
        let (n, k, group) = (weights.n(), weights.k(), weights.group());
        let (packed, scales) = weights.into_parts();
        let scales = Mapped::from_f32(&[scales.len()], scales);
        Self { n, k, group, packed: Bytes::from(Cow::Owned(packed)), scales }
    }

    /// The matrix a checkpoint stores for the map `name`, which must have this shape.
    pub fn open(store: &Store, name: &str, shape: [usize; 2]) -> Result<Self> {
        let bad = |cause: String| Error::Safetensors { path: store.path().to_path_buf(), cause };
        let group = store.metadata().get(GROUP_KEY).and_then(|g| g.parse().ok());
        let group = group.ok_or_else(|| {
            bad(format!("it has `{}`, but its metadata have no `{GROUP_KEY}`", packed_name(name)))
        })?;
        let [packed_shape, scale_shape] = stored_shapes(shape, group).map_err(|e| bad(e.to_string()))?;
        let (dtype, found, packed) = store.bytes(&packed_name(name))?;
        if dtype != safetensors::Dtype::U8 || found != packed_shape {
            return Err(bad(format!(
                "tensor `{}` is {dtype} {found:?}, config.json asks for U8 {packed_shape:?}",
                packed_name(name)
            )));
        }
        let scales = store.tensor_shaped(&scale_name(name), &scale_shape)?;
        if scales.dtype() != super::Dtype::F32 {
            return Err(bad(format!("tensor `{}` is {}, not f32", scale_name(name), scales.dtype())));
        }
        let [n, k] = shape;
        Ok(Self { n, k, group, packed, scales })
    }

    /// Some rows as a matrix of their own, sharing the storage; `None` if they do not begin and end with whole packed panels.
    pub fn rows(&self, rows: Range<usize>) -> Option<Self> {
        let ends = rows.end.is_multiple_of(PANEL) || rows.end == self.n;
        if !rows.start.is_multiple_of(PANEL) || !ends || rows.is_empty() || rows.end > self.n {
            return None;
        }
        let panels = self.n.div_ceil(PANEL);
        let part = rows.start / PANEL..rows.end.div_ceil(PANEL);
        let bytes = self.packed.len() / panels;
        let scales = self.scales.shape()[0] / panels;
        Some(Self {
            n: rows.len(),
            packed: self.packed.slice(part.start * bytes..part.end * bytes),
            scales: self.scales.rows(part.start * scales..part.end * scales),
            ..*self
        })
    }

    /// The matrix as the kernels take it.
    pub fn weights(&self) -> QuantizedWeights<'_> {
        let Weights::F32(scales) = self.scales.weights() else { unreachable!("scales are f32") };
        QuantizedWeights::from_packed(&*self.packed, scales, self.n, self.k, self.group)
            .unwrap_or_else(|_| unreachable!("the lengths were checked"))
    }

    /// Rows and depths.
    pub fn shape(&self) -> [usize; 2] {
        [self.n, self.k]
    }

    /// Depths of a group.
    pub fn group(&self) -> usize {
        self.group
    }

    /// Whether the bytes are in a mapped file.
    pub fn is_mapped(&self) -> bool {
        self.packed.is_mapped()
    }

    /// Bytes of both parts.
    pub fn size_in_bytes(&self) -> usize {
        self.packed.len() + self.scales.size_in_bytes()
    }

    /// The packed bytes, as a file stores them.
    pub fn packed(&self) -> &[u8] {
        &self.packed
    }

    /// The scales, as a file stores them.
    pub fn scale_bytes(&self) -> &[u8] {
        self.scales.as_bytes()
    }

    /// The matrix in single precision.
    pub fn to_f32(&self) -> Mapped {
        let weights = self.weights();
        let mut values = vec![0.0; self.n * self.k];
        values
            .par_chunks_mut(self.k.max(1))
            .enumerate()
            .for_each(|(row, out)| out.copy_from_slice(&weights.row(row)));
        Mapped::from_f32(&[self.n, self.k], values)
    }
}
