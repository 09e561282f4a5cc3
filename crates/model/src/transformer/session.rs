//! What happens to the keys and values of a layer between projection and attention: nothing in training, and in decoding
//! they are kept in each canvas's cache, in place.
//!
//! Invariant: a cache is written where it lies and read from there; it is copied only where somebody looks at the keys
//! besides attention (maps, shadows) or the device is not the CPU.

use candle_core::{DType, Tensor};
use demask_kernels::Segment;

use super::Asked;
use super::pack::Placed;
use crate::backbone::{KvCache, Query};
use crate::config::{Spec, Visibility};
use crate::error::Result;
use crate::layer::{Attention, OwnKeys, cpu};

/// Attention of one layer, with whatever is kept beside it.
pub(super) trait Keys {
    /// Attends, and keeps what is to be kept.
    fn attend(&mut self, layer: usize, attention: &Attention, asked: &Asked<'_>) -> Result<Tensor>;
}

/// Keeps nothing.
pub(super) struct Uncached;

impl Keys for Uncached {
    fn attend(&mut self, _: usize, attention: &Attention, asked: &Asked<'_>) -> Result<Tensor> {
        Ok(attention.forward_with(&asked.q, &asked.k, &asked.v, asked.segments, asked.shadows)?)
    }
}

/// Forgets a cache that was filled for a canvas of another length, where every row depends on every other and all are
/// computed afresh. A canvas that was cut off and is now longer keeps the rows that are not.
pub(super) fn prepare(spec: &Spec, query: &mut Query<'_>) {
    let full = spec.attention == Visibility::Full && query.blocks.is_none();
    let len = query.tokens.len();
    if let Some(reuse) = query.cache.as_mut().filter(|r| full && !r.cache.holds(len) && r.rows.len() == len) {
        reuse.cache.clear();
    }
}

/// Bookkeeping of one pass: caches, and attention maps where asked for.
pub(super) struct Session<'a, 'b> {
    batch: &'a mut [Query<'b>],
    placed: Vec<Placed>,
    layers: usize,
    maps: Vec<Option<Tensor>>,
}

impl<'a, 'b> Session<'a, 'b> {
    pub(super) fn new(batch: &'a mut [Query<'b>], placed: Vec<Placed>, layers: usize) -> Self {
        let maps = vec![None; batch.len()];
        Self { batch, placed, layers, maps }
    }

    /// Marks what the caches now hold.
    pub(super) fn finish(self) -> (&'a mut [Query<'b>], Vec<Placed>, Vec<Option<Tensor>>) {
        for (query, placed) in self.batch.iter_mut().zip(&self.placed) {
            if let Some(reuse) = &mut query.cache {
                reuse.cache.rows = placed.keys.len();
            }
        }
        (self.batch, self.placed, self.maps)
    }

    /// Keeps the fresh keys and values of a layer where they were computed.
    fn store_resident(&mut self, layer: usize, asked: &Asked<'_>) -> Result<()> {
        for (query, placed) in self.batch.iter_mut().zip(&self.placed) {
            let Some(reuse) = &mut query.cache else { continue };
            let fresh = |x: &Tensor| x.narrow(0, placed.fresh.start, placed.fresh.len());
            let (keys, values) = (fresh(&asked.k)?, fresh(&asked.v)?);
            reuse.cache.store_resident(layer, query.tokens.len(), reuse.rows, [&keys, &values])?;
        }
        Ok(())
    }

    /// Attention of every canvas to its own keys on the device, without putting those of all canvases together.
    fn resident(&self, layer: usize, attention: &Attention, asked: &Asked<'_>) -> Result<Tensor> {
        let mut parts = Vec::with_capacity(self.batch.len());
        for (query, placed) in self.batch.iter().zip(&self.placed) {
            let [keys, values] = match &query.cache {
                Some(reuse) => reuse.cache.resident(layer, placed.keys.len())?,
                None => {
                    let fresh = |x: &Tensor| x.narrow(0, placed.fresh.start, placed.fresh.len());
                    [fresh(&asked.k)?, fresh(&asked.v)?]
                }
            };
            let segments: Vec<Segment> = of(asked.segments, placed).map(|s| from_start(s, placed)).collect();
            if !segments.is_empty() {
                parts.push(attention.forward(&asked.q, &keys, &values, &segments.into())?);
            }
        }
        Ok(Tensor::cat(&parts, 0)?)
    }

    /// Keeps the fresh keys and values of a layer.
    fn store(&mut self, layer: usize, asked: &Asked<'_>) -> Result<()> {
        let width = asked.k.dim(1)?;
        let plain = |x: &Tensor| x.to_dtype(DType::F32)?.to_device(&candle_core::Device::Cpu);
        let (k, v) = (plain(&asked.k)?, plain(&asked.v)?);
        cpu::with(&k, |k| {
            cpu::with(&v, |v| {
                for (query, placed) in self.batch.iter_mut().zip(&self.placed) {
                    let Some(reuse) = &mut query.cache else { continue };
                    let fresh = placed.fresh.start * width..placed.fresh.end * width;
                    let fresh = [&k[fresh.clone()], &v[fresh]];
                    reuse.cache.store(layer, placed.keys.len(), query.tokens.len(), reuse.rows, width, fresh);
                }
            })
        })??;
        Ok(())
    }

    /// Attention of every canvas to its own cache where it lies.
    fn in_place(&self, layer: usize, attention: &Attention, asked: &Asked<'_>) -> Result<Tensor> {
        let width = asked.k.dim(1)?;
        let out = cpu::with(&asked.k, |k| {
            cpu::with(&asked.v, |v| {
                let mut parts = Vec::with_capacity(self.batch.len());
                for (query, placed) in self.batch.iter().zip(&self.placed) {
                    let (keys, values) = match &query.cache {
                        Some(reuse) => {
                            let (keys, values) = &reuse.cache.layers[layer];
                            (keys.as_slice(), values.as_slice())
                        }
                        None => {
                            let fresh = placed.fresh.start * width..placed.fresh.end * width;
                            (&k[fresh.clone()], &v[fresh])
                        }
                    };
                    let segments: Vec<Segment> =
                        of(asked.segments, placed).map(|s| from_start(s, placed)).collect();
                    if !segments.is_empty() {
                        parts.push(OwnKeys { keys, values, segments });
                    }
                }
                attention.forward_own(&asked.q, &parts)
            })
        })???;
        Ok(out)
    }

    /// All keys (or values) of the batch in one tensor.
    fn gathered(&self, layer: usize, fresh: &Tensor, which: usize) -> Result<Tensor> {
        let width = fresh.dim(1)?;
        let mut parts = Vec::with_capacity(self.batch.len() + 1);
        for (query, placed) in self.batch.iter().zip(&self.placed) {
            parts.push(match &query.cache {
                None => fresh.narrow(0, placed.fresh.start, placed.fresh.len())?,
                Some(reuse) if !reuse.cache.resident.is_empty() => {
                    reuse.cache.resident(layer, placed.keys.len())?[which].clone()
                }
                Some(reuse) => {
                    let (keys, values) = &reuse.cache.layers[layer];
                    let kept = [keys, values][which].as_slice();
                    Tensor::from_slice(kept, (kept.len() / width, width), fresh.device())?
                        .to_dtype(fresh.dtype())?
                }
            });
        }
        // Shadows come after all canvases and are kept by no cache.
        let real = self.placed.last().map_or(0, |p| p.fresh.end);
        if fresh.dim(0)? > real {
            parts.push(fresh.narrow(0, real, fresh.dim(0)? - real)?);
        }
        Ok(Tensor::cat(&parts, 0)?)
    }

    /// Adds the layer's mean attention to the maps of the canvases that want it: `[fresh rows, canvas]` each.
    fn watch(
        &mut self,
        layer: usize,
        attention: &Attention,
        q: &Tensor,
        k: &Tensor,
        all: &[Segment],
    ) -> Result<()> {
        for (index, placed) in self.placed.iter().enumerate() {
            let count = self.batch[index].attention_layers.min(self.layers);
            if count == 0 || layer + count < self.layers {
                continue;
            }
            let len = self.batch[index].tokens.len();
            let mut rows = Vec::new();
            for segment in of(all, placed) {
                let map = attention.mean_probabilities(q, k, std::slice::from_ref(segment))?.remove(0);
                // What a row does not see, it gives no attention.
                rows.push(map.pad_with_zeros(1, 0, len - segment.k.len())?);
            }
            let map = (Tensor::cat(&rows, 0)? / count as f64)?;
            self.maps[index] = Some(match self.maps[index].take() {
                None => map,
                Some(sum) => (sum + map)?,
            });
        }
        Ok(())
    }
}

/// The segments of one canvas.
fn of<'s>(all: &'s [Segment], placed: &Placed) -> impl Iterator<Item = &'s Segment> {
    let start = placed.keys.start;
    all.iter().filter(move |segment| segment.k.start == start)
}

/// A segment with its keys counted from the canvas's first.
fn from_start(segment: &Segment, placed: &Placed) -> Segment {
    let start = placed.keys.start;
    let k = segment.k.start - start..segment.k.end - start;
    Segment { q: segment.q.clone(), k, causal_offset: segment.causal_offset }
}

impl Keys for Session<'_, '_> {
    fn attend(&mut self, layer: usize, attention: &Attention, asked: &Asked<'_>) -> Result<Tensor> {
        let cached = self.batch.iter().any(|q| q.cache.is_some());
        let maps = self.batch.iter().any(|q| q.attention_layers > 0);
        if attention.composed && cached {
            self.store_resident(layer, asked)?;
            if !maps && asked.shadows.is_empty() {
                return self.resident(layer, attention, asked);
            }
        } else if cached {
            self.store(layer, asked)?;
        }
        if cached && !attention.composed && !maps && asked.shadows.is_empty() && cpu::takes(&asked.q) {
            return self.in_place(layer, attention, asked);
        }
        let (k, v) = if cached {
            (self.gathered(layer, &asked.k, 0)?, self.gathered(layer, &asked.v, 1)?)
        } else {
            (asked.k.clone(), asked.v.clone())
        };
        if maps {
            self.watch(layer, attention, &asked.q, &k, asked.segments)?;
        }
        Ok(attention.forward_with(&asked.q, &k, &v, asked.segments, asked.shadows)?)
    }
}

impl KvCache {
    /// Writes fresh rows of a layer, which then has `extent` rows; what lay behind them is dropped.
    fn store(
        &mut self,
        layer: usize,
        extent: usize,
        canvas: usize,
        rows: &[usize],
        width: usize,
        fresh: [&[f32]; 2],
    ) {
        if self.layers.len() <= layer {
            // Room for the whole canvas at once, so that growing never moves what is there.
            let room = || Vec::with_capacity(canvas * width);
            self.layers.push((room(), room()));
        }
        let (keys, values) = &mut self.layers[layer];
        for (kept, fresh) in [keys, values].into_iter().zip(fresh) {
            kept.resize(extent * width, 0.0);
            for (&row, fresh) in rows.iter().zip(fresh.chunks_exact(width)) {
                kept[row * width..(row + 1) * width].copy_from_slice(fresh);
            }
        }
    }
}
