//! A weight matrix of eight or four bits with one scale per output row and group of depths, in the packed form the
//! kernels read.
//!
//! In a checkpoint the map `NAME` is two tensors: `NAME.weight_packed` (U8) and `NAME.weight_scale` (F32 of bytes, F16 of
//! four bits), and the files' metadata name the group of each, and with it whether four bits have factors. Invariant: the lengths were checked against shape and
//! group, so [`Quantized::weights`] cannot fail, and a mapped matrix is never copied.

use std::borrow::Cow;
use std::ops::Range;

use demask_kernels::{Bits, QuantizeError, QuantizedWeights, Scales, Weights};
use half::f16;
use rayon::prelude::*;

use super::{Bytes, Dtype, Mapped, Store};
use crate::error::{Error, Result};

/// Bits of a weight, and how many depths share a scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packing {
    /// Bits of a weight.
    pub bits: Bits,
    /// Depths that share a scale.
    pub group: usize,
}

impl Packing {
    /// Bytes with the usual group: measured in `docs/numerics.md`.
    pub const INT8: Self = Self { bits: Bits::Eight, group: 128 };
    /// Four bits with the usual group: measured in `docs/numerics.md`.
    pub const Q4: Self = Self { bits: Bits::FourScaled, group: 128 };

    /// Four bits in groups of this many depths: with factors for every 32 of them where the group allows it, since a group as
    /// large as that is too coarse alone.
    pub fn four(group: usize) -> Self {
        let scaled = group > 0 && group.is_multiple_of(Self::Q4.group);
        Self { bits: if scaled { Bits::FourScaled } else { Bits::Four }, group }
    }

    /// Bytes a weight takes, with its share of the scale.
    pub fn size(self) -> f64 {
        match self.bits {
            Bits::Eight => 1.0 + 4.0 / self.group as f64,
            Bits::Four => 0.5 + 2.0 / self.group as f64,
            Bits::FourScaled => 0.5 + 1.0 / 32.0 + 2.0 / self.group as f64,
        }
    }

    /// Number format of the scales.
    pub fn scale_dtype(self) -> Dtype {
        match self.bits {
            Bits::Eight => Dtype::F32,
            Bits::Four | Bits::FourScaled => Dtype::F16,
        }
    }

    /// Key of the files' metadata that names the group.
    pub fn group_key(self) -> &'static str {
        match self.bits {
            Bits::Eight => "demask_int8_group",
            Bits::Four => "demask_q4_group",
            Bits::FourScaled => "demask_q4_scaled_group",
        }
    }
}

/// Rows that are packed together.
const PANEL: usize = 16;

/// The tensor of `name`'s packed bytes.
pub fn packed_name(name: &str) -> String {
    format!("{name}.weight_packed")
}

/// The tensor of `name`'s scales.
pub fn scale_name(name: &str) -> String {
    format!("{name}.weight_scale")
}

/// The shapes of both, outermost first: `[panels, depths / 4, 16, 4]` (of four bits, `depths / 8`, and one more for each 128
/// depths with factors) and `[panels, groups, 16]`.
pub fn stored_shapes(
    shape: [usize; 2],
    packing: Packing,
) -> std::result::Result<[Vec<usize>; 2], QuantizeError> {
    let ([n, k], Packing { bits, group }) = (shape, packing);
    let (packed, scales) =
        (QuantizedWeights::packed_len(n, k, group, bits)?, QuantizedWeights::scales_len(n, k, group)?);
    let panels = n.div_ceil(PANEL).max(1);
    Ok([vec![panels, packed / (panels * 64), 16, 4], vec![panels, scales / (panels * 16), 16]])
}

/// A quantised `[n, k]` matrix; clones share the storage.
#[derive(Debug, Clone)]
pub struct Quantized {
    n: usize,
    k: usize,
    packing: Packing,
    packed: Bytes,
    scales: Mapped,
    /// Of four bits that another program chose.
    offsets: Option<Mapped>,
}

impl Quantized {
    /// Quantises a `[n, k]` weight. `importance`, the mean square of each of the `k` inputs where it is known, decides the
    /// scales of four bits; bytes are fine enough without.
    pub fn quantize(weight: &Mapped, packing: Packing, importance: Option<&[f32]>) -> Result<Self> {
        let (n, k, group) = (weight.shape()[0], weight.row_len(), packing.group);
        let quantized = match packing.bits {
            Bits::Eight => QuantizedWeights::quantize(weight.weights(), n, k, group),
            Bits::Four => QuantizedWeights::quantize_four(weight.weights(), n, k, group, importance),
            Bits::FourScaled => QuantizedWeights::quantize_scaled(weight.weights(), n, k, group, importance),
        };
        Ok(Self::own(quantized.map_err(|e| Error::Query(e.to_string()))?))
    }

    /// Takes weights quantised elsewhere.
    pub fn own(weights: QuantizedWeights<'static>) -> Self {
        let (n, k) = (weights.n(), weights.k());
        let packing = Packing { bits: weights.bits(), group: weights.group() };
        let (packed, scales) = weights.into_parts();
        let half = |halves: Cow<'static, [f16]>| Mapped::from_f16(&[halves.len()], halves.into_owned());
        let (scales, offsets) = match scales {
            Scales::Single(scales) => (Mapped::from_f32(&[scales.len()], scales.into_owned()), None),
            Scales::Half(scales, offsets) => (half(scales), offsets.map(half)),
            Scales::Factored(scales) => (half(scales), None),
        };
        Self { n, k, packing, packed: Bytes::from(packed), scales, offsets }
    }

    /// The matrix a checkpoint stores for the map `name`, which must have this shape.
    pub fn open(store: &Store, name: &str, shape: [usize; 2]) -> Result<Self> {
        let bad = |cause: String| Error::Safetensors { path: store.path().to_path_buf(), cause };
        let scales = store.tensor(&scale_name(name))?;
        let factored = Packing { bits: Bits::FourScaled, group: 0 }.group_key();
        let bits = match scales.dtype() {
            Dtype::F32 => Bits::Eight,
            Dtype::F16 if store.metadata().contains_key(factored) => Bits::FourScaled,
            Dtype::F16 => Bits::Four,
            other => {
                return Err(bad(format!("tensor `{}` is {other}, not f32 or f16", scale_name(name))));
            }
        };
        let key = Packing { bits, group: 0 }.group_key();
        let group = store.metadata().get(key).and_then(|g| g.parse().ok());
        let group = group.ok_or_else(|| {
            bad(format!("it has `{}`, but its metadata have no `{key}`", packed_name(name)))
        })?;
        let packing = Packing { bits, group };
        let [packed_shape, scale_shape] = stored_shapes(shape, packing).map_err(|e| bad(e.to_string()))?;
        let (dtype, found, packed) = store.bytes(&packed_name(name))?;
        if dtype != safetensors::Dtype::U8 || found != packed_shape {
            return Err(bad(format!(
                "tensor `{}` is {dtype} {found:?}, config.json asks for U8 {packed_shape:?}",
                packed_name(name)
            )));
        }
        let scales = store.tensor_shaped(&scale_name(name), &scale_shape)?;
        let [n, k] = shape;
        Ok(Self { n, k, packing, packed, scales, offsets: None })
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
            offsets: self.offsets.as_ref().map(|o| o.rows(part.start * scales..part.end * scales)),
            ..*self
        })
    }

    /// The matrix as the kernels take it.
    pub fn weights(&self) -> QuantizedWeights<'_> {
        let scales = match (self.scales.weights(), self.offsets.as_ref().map(Mapped::weights)) {
            (Weights::F32(scales), None) => Scales::Single(scales.into()),
            (Weights::F16(scales), None) if self.packing.bits == Bits::FourScaled => {
                Scales::Factored(scales.into())
            }
            (Weights::F16(scales), None) => Scales::Half(scales.into(), None),
            (Weights::F16(scales), Some(Weights::F16(offsets))) => {
                Scales::Half(scales.into(), Some(offsets.into()))
            }
            _ => unreachable!("scales are f32, or f16 with offsets like them"),
        };
        QuantizedWeights::from_packed(&*self.packed, scales, self.n, self.k, self.packing.group)
            .unwrap_or_else(|_| unreachable!("the lengths were checked"))
    }

    /// Rows and depths.
    pub fn shape(&self) -> [usize; 2] {
        [self.n, self.k]
    }

    /// Bits and group.
    pub fn packing(&self) -> Packing {
        self.packing
    }

    /// Whether the bytes are in a mapped file.
    pub fn is_mapped(&self) -> bool {
        self.packed.is_mapped()
    }

    /// Bytes of all parts.
    pub fn size_in_bytes(&self) -> usize {
        self.packed.len()
            + self.scales.size_in_bytes()
            + self.offsets.as_ref().map_or(0, Mapped::size_in_bytes)
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
