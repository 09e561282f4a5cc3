//! The one Transformer: pre-norm blocks of attention and gated MLP, bidirectional or causal,
//! driven by a [`Spec`]. It decodes (weights mapped from the file) and trains (weights in
//! differentiable tensors) with the same code.

use std::ops::Range;
use std::sync::Arc;

use candle_core::{Device, Tensor};
use demask_kernels::Segment;

use crate::arch::{self, Names};
use crate::backbone::{self, AS_STORED, Backbone, KvCache, Pass, Query, Rows};
use crate::checkpoint::Bytes;
use crate::config::Spec;
use crate::error::{Error, Result};
use crate::layer::{Attention, Embedding, Linear, Mlp, RmsNorm, Rope, ShadowKeys, residual};
use crate::memory;

/// Where a Transformer takes its parameters from: a mapped checkpoint, or tensors to train.
pub trait Parameters {
    /// The embedding table `[vocab, d]`.
    fn embedding(&mut self, name: &str, shape: [usize; 2]) -> Result<Embedding>;
    /// A linear map `[out, in]`; its bias is `{name}.bias`.
    fn linear(&mut self, name: &str, shape: [usize; 2], bias: bool) -> Result<Linear>;
    /// A vector, as f32 on the compute device.
    fn vector(&mut self, name: &str, len: usize) -> Result<Tensor>;
}

/// A Transformer with its weights.
pub struct Transformer {
    spec: Spec,
    device: Device,
    embed: Embedding,
    blocks: Vec<Block>,
    norm: RmsNorm,
    head: Linear,
    fingerprint: String,
    /// What it was loaded from; see [`Provenance`].
    provenance: Provenance,
}

/// Where a Transformer's weights come from.
#[derive(Debug, Default)]
pub(crate) struct Provenance {
    /// Mapped files, looked at before every pass.
    pub(crate) files: Vec<Bytes>,
    /// Other fingerprints it answers to.
    pub(crate) aliases: Vec<String>,
    /// The precision the weights were brought to, if not the stored one.
    pub(crate) precision: Option<String>,
}

struct Block {
    attn_norm: RmsNorm,
    q: Linear,
    k: Linear,
    v: Linear,
    o: Linear,
    ffn_norm: RmsNorm,
    mlp: Mlp,
}

/// Packed rows of a batch: the tokens of every canvas one after another.
#[derive(Debug, Clone)]
pub struct Packed {
    /// Token of each row.
    pub tokens: Vec<u32>,
    /// Absolute position of each row in its canvas.
    pub positions: Arc<[u32]>,
    /// Which rows see which.
    pub segments: Arc<[Segment]>,
    /// What the last rows see, which are shadows; none in training.
    pub shadows: Arc<[ShadowKeys]>,
}

impl Packed {
    /// Packs whole canvases, each attending to itself only.
    pub fn new<'a>(canvases: impl IntoIterator<Item = &'a [u32]>, causal: bool) -> Self {
        let (mut tokens, mut positions, mut segments) = (Vec::new(), Vec::new(), Vec::new());
        for canvas in canvases {
            let rows = tokens.len()..tokens.len() + canvas.len();
            tokens.extend_from_slice(canvas);
            positions.extend(0..canvas.len() as u32);
            segments.push(Segment { q: rows.clone(), k: rows, causal_offset: causal.then_some(0) });
        }
        Self { tokens, positions: positions.into(), segments: segments.into(), shadows: [].into() }
    }
}

/// The rows of the last layer that somebody wants, with the geometry of their attention.
struct Wanted {
    rows: Vec<u32>,
    positions: Arc<[u32]>,
    segments: Arc<[Segment]>,
}

impl Transformer {
    /// Builds a Transformer of this shape from its parameters.
    pub fn new(spec: Spec, device: Device, fingerprint: String, from: &mut dyn Parameters) -> Result<Self> {
        let names = arch::by_name(spec.architecture).map(|a| a.names);
        let names =
            names.ok_or_else(|| Error::Query(format!("unknown architecture {}", spec.architecture)))?;
        let embed = from.embedding(names.embed, [spec.vocab, spec.hidden])?;
        let blocks = (0..spec.layers).map(|i| Block::new(&spec, &names, i, from)).collect::<Result<_>>()?;
        let norm = RmsNorm::new(from.vector(names.norm, spec.hidden)?, spec.eps);
        let head = if spec.tied { names.embed } else { names.head };
        let head = from.linear(head, [spec.vocab, spec.hidden], false)?;
        let provenance = Provenance::default();
        Ok(Self { spec, device, embed, blocks, norm, head, fingerprint, provenance })
    }

    /// The same, knowing where its weights come from.
    pub(crate) fn coming_from(self, provenance: Provenance) -> Self {
        Self { provenance, ..self }
    }

    /// Hidden rows after the final norm `[rows, d]`: all of them, or those named. Differentiable
    /// when the parameters are.
    pub fn hidden(&self, packed: &Packed, rows: Option<&[u32]>) -> Result<Tensor> {
        let wanted = rows.map(|rows| select(packed, rows));
        let x = self.embed.forward(&packed.tokens, &self.device)?;
        let x = self.run(x, packed, wanted.as_ref(), &mut Uncached)?;
        Ok(self.norm.forward(&x)?)
    }

    /// Logits of hidden rows `[rows, V]`, unshifted. Differentiable when the parameters are.
    pub fn head(&self, hidden: &Tensor) -> Result<Tensor> {
        Ok(self.head.forward(hidden)?)
    }

    /// Makes these ids end a response too, after those of the config.
    pub fn add_eos(&mut self, ids: &[u32]) {
        let known = &mut self.spec.ids.eos;
        for &id in ids.iter().filter(|&&id| (id as usize) < self.spec.vocab) {
            if !known.contains(&id) {
                known.push(id);
            }
        }
    }

    /// Where it computes.
    pub fn device(&self) -> &Device {
        &self.device
    }

    fn run(
        &self,
        mut x: Tensor,
        packed: &Packed,
        wanted: Option<&Wanted>,
        keys: &mut dyn Keys,
    ) -> Result<Tensor> {
        let last = self.blocks.len() - 1;
        for (index, block) in self.blocks.iter().enumerate() {
            let wanted = wanted.filter(|_| index == last);
            x = block.forward(&self.spec, index, &x, packed, wanted, keys)?;
        }
        Ok(x)
    }
}

impl Block {
    fn new(spec: &Spec, names: &Names, index: usize, from: &mut dyn Parameters) -> Result<Self> {
        let (d, q, kv, bias) = (spec.hidden, spec.q_width(), spec.kv_width(), spec.qkv_bias);
        let name = |n: &str| names.in_layer(index, n);
        Ok(Self {
            attn_norm: RmsNorm::new(from.vector(&name(names.attn_norm), d)?, spec.eps),
            q: from.linear(&name(names.q), [q, d], bias)?,
            k: from.linear(&name(names.k), [kv, d], bias)?,
            v: from.linear(&name(names.v), [kv, d], bias)?,
            o: from.linear(&name(names.o), [d, q], false)?,
            ffn_norm: RmsNorm::new(from.vector(&name(names.ffn_norm), d)?, spec.eps),
            mlp: Mlp {
                gate: from.linear(&name(names.gate), [spec.ffn, d], false)?,
                up: from.linear(&name(names.up), [spec.ffn, d], false)?,
                down: from.linear(&name(names.down), [d, spec.ffn], false)?,
            },
        })
    }

    fn forward(
        &self,
        spec: &Spec,
        index: usize,
        x: &Tensor,
        packed: &Packed,
        wanted: Option<&Wanted>,
        keys: &mut dyn Keys,
    ) -> Result<Tensor> {
        let rope = Rope { head_dim: spec.head_dim, theta: spec.rope_theta };
        let attention = Attention { heads: spec.heads, kv_heads: spec.kv_heads, head_dim: spec.head_dim };
        let normed = self.attn_norm.forward(x)?;
        let k = rope.forward(&self.k.forward(&normed)?, &packed.positions)?;
        let v = self.v.forward(&normed)?;
        let (k, v) = keys.extend(index, k, v)?;
        // In the last layer only the wanted rows need queries and an MLP.
        let (x, normed, positions, segments) = match wanted {
            None => (x.clone(), normed, &packed.positions, &packed.segments),
            Some(wanted) => {
                let rows = Tensor::new(wanted.rows.as_slice(), x.device())?;
                let (x, normed) = (x.index_select(&rows, 0)?, normed.index_select(&rows, 0)?);
                (x, normed, &wanted.positions, &wanted.segments)
            }
        };
        let q = rope.forward(&self.q.forward(&normed)?, positions)?;
        keys.watch(index, &attention, &q, &k, segments)?;
        let attended = attention.forward_with(&q, &k, &v, segments, &packed.shadows)?;
        let x = residual(&x, &self.o.forward(&attended)?)?;
        let mlp = self.mlp.forward(&self.ffn_norm.forward(&x)?)?;
        Ok(residual(&x, &mlp)?)
    }
}

/// Restricts the packed geometry to `rows` (ascending packed indices).
fn select(packed: &Packed, rows: &[u32]) -> Wanted {
    let mut segments = Vec::with_capacity(packed.segments.len());
    let mut start = 0;
    for segment in packed.segments.iter() {
        let inside = rows[start..].iter().take_while(|&&r| (r as usize) < segment.q.end).count();
        // Causal rows are selected one by one: their offsets into the keys differ.
        match segment.causal_offset {
            None if inside > 0 => {
                segments.push(Segment {
                    q: start..start + inside,
                    k: segment.k.clone(),
                    causal_offset: None,
                });
            }
            None => {}
            Some(offset) => {
                for (i, &row) in rows[start..start + inside].iter().enumerate() {
                    let local = row as usize - segment.q.start;
                    let q = start + i..start + i + 1;
                    segments.push(Segment { q, k: segment.k.clone(), causal_offset: Some(local + offset) });
                }
            }
        }
        start += inside;
    }
    let positions = rows.iter().map(|&r| packed.positions[r as usize]).collect();
    Wanted { rows: rows.to_vec(), positions, segments: segments.into() }
}

/// What happens to the keys and values of a layer between projection and attention.
trait Keys {
    /// Takes the fresh keys and values, returns those to attend to.
    fn extend(&mut self, layer: usize, k: Tensor, v: Tensor) -> Result<(Tensor, Tensor)>;
    /// Sees the queries and keys of a layer.
    fn watch(&mut self, _: usize, _: &Attention, _: &Tensor, _: &Tensor, _: &[Segment]) -> Result<()> {
        Ok(())
    }
}

struct Uncached;

impl Keys for Uncached {
    fn extend(&mut self, _: usize, k: Tensor, v: Tensor) -> Result<(Tensor, Tensor)> {
        Ok((k, v))
    }
}

/// Bookkeeping of one [`Backbone::forward`]: caches, and attention maps where asked for.
struct Session<'a, 'b> {
    batch: &'a mut [Query<'b>],
    /// Packed fresh rows of each canvas.
    fresh: Vec<Range<usize>>,
    layers: usize,
    maps: Vec<Option<Tensor>>,
}

impl Keys for Session<'_, '_> {
    fn extend(&mut self, layer: usize, k: Tensor, v: Tensor) -> Result<(Tensor, Tensor)> {
        if self.batch.iter().all(|q| q.cache.is_none()) {
            return Ok((k, v));
        }
        let (mut ks, mut vs) = (Vec::new(), Vec::new());
        for (query, fresh) in self.batch.iter_mut().zip(&self.fresh) {
            let (k, v) = (k.narrow(0, fresh.start, fresh.len())?, v.narrow(0, fresh.start, fresh.len())?);
            let (k, v) = match &mut query.cache {
                None => (k, v),
                Some(reuse) => reuse.cache.update(layer, query.tokens.len(), reuse.rows, &k, &v)?,
            };
            ks.push(k);
            vs.push(v);
        }
        // Shadows come after all canvases and are kept by no cache.
        let real = self.fresh.last().map_or(0, |f| f.end);
        if k.dim(0)? > real {
            ks.push(k.narrow(0, real, k.dim(0)? - real)?);
            vs.push(v.narrow(0, real, v.dim(0)? - real)?);
        }
        Ok((Tensor::cat(&ks, 0)?, Tensor::cat(&vs, 0)?))
    }

    fn watch(
        &mut self,
        layer: usize,
        attention: &Attention,
        q: &Tensor,
        k: &Tensor,
        all: &[Segment],
    ) -> Result<()> {
        let wanted: Vec<_> = self.batch.iter().map(|b| b.attention_layers).collect();
        for (index, segment) in all.iter().enumerate() {
            let count = wanted[index].min(self.layers);
            if count > 0 && layer + count >= self.layers {
                let map = attention.mean_probabilities(q, k, std::slice::from_ref(segment))?.remove(0);
                let map = (map / count as f64)?;
                self.maps[index] = Some(match self.maps[index].take() {
                    None => map,
                    Some(sum) => (sum + map)?,
                });
            }
        }
        Ok(())
    }
}

impl KvCache {
    fn update(
        &mut self,
        layer: usize,
        len: usize,
        rows: &[usize],
        k: &Tensor,
        v: &Tensor,
    ) -> Result<(Tensor, Tensor)> {
        let width = k.dim(1)?;
        if self.layers.len() <= layer {
            self.layers.push((vec![0.0; len * width], vec![0.0; len * width]));
            self.rows = len;
        }
        let (keys, values) = &mut self.layers[layer];
        for (cached, fresh) in [(&mut *keys, k), (&mut *values, v)] {
            let fresh = fresh.flatten_all()?.to_dtype(candle_core::DType::F32)?.to_vec1::<f32>()?;
            for (&row, fresh) in rows.iter().zip(fresh.chunks_exact(width)) {
                cached[row * width..(row + 1) * width].copy_from_slice(fresh);
            }
        }
        let tensor = |data: &[f32]| Tensor::from_slice(data, (len, width), k.device())?.to_dtype(k.dtype());
        Ok((tensor(keys)?, tensor(values)?))
    }
}

impl Backbone for Transformer {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn forward(&self, batch: &mut [Query<'_>]) -> Result<Vec<Pass>> {
        self.provenance.files.iter().try_for_each(Bytes::check)?;
        for query in &mut *batch {
            backbone::check(&self.spec, query)?;
            if let Some(reuse) = query.cache.as_mut().filter(|r| !r.cache.holds(query.tokens.len())) {
                reuse.cache.clear();
            }
        }
        let (packed, fresh) = pack(&self.spec, batch);
        let needs: Vec<Vec<usize>> = batch.iter().map(|q| self.needed_rows(q)).collect();
        let mut rows = packed_rows(batch, &fresh, &needs)?;
        let mut shadow = rows.len();
        let real = packed.tokens.len() - packed.shadows.len();
        rows.extend((real..packed.tokens.len()).map(|row| row as u32));
        let whole = batch.iter().any(|q| q.attention_layers > 0) || rows.is_empty();
        let wanted = (!whole).then(|| select(&packed, &rows));
        let layers = self.blocks.len();
        let x = self.embed.forward(&packed.tokens, &self.device)?;
        let maps = vec![None; batch.len()];
        let mut session = Session { batch, fresh, layers, maps };
        let mut x = self.run(x, &packed, wanted.as_ref(), &mut session)?;
        let Session { batch, fresh, maps, .. } = session;
        if whole && !rows.is_empty() {
            x = x.index_select(&Tensor::new(rows.as_slice(), &self.device)?, 0)?;
        }
        let hidden = if rows.is_empty() { Rows::default() } else { to_rows(&self.norm.forward(&x)?)? };
        let mut passes = Vec::with_capacity(batch.len());
        let mut start = 0;
        for (((query, need), fresh), map) in batch.iter().zip(&needs).zip(&fresh).zip(maps) {
            let mut pass = self.pass(query, need, &hidden, start);
            pass.attention = map.map(|m| to_rows(&m)).transpose()?;
            if let Some(shadowed) = &query.shadow {
                let mut verified = Rows { data: Vec::new(), width: self.spec.hidden };
                for &position in shadowed.verify {
                    verified.data.extend_from_slice(hidden.row(shadow + position - shadowed.block.start));
                }
                pass.shadow = Some(verified);
                shadow += shadowed.block.len();
            }
            pass.computed_rows = fresh.len();
            passes.push(pass);
            start += need.len();
        }
        Ok(passes)
    }

    fn logits(&self, rows: &Rows, visit: &mut dyn FnMut(usize, &mut [f32])) -> Result<()> {
        // Large enough for a full GEMM, small beside the weights.
        let chunk = (memory::LOGIT_CHUNK / self.spec.vocab).max(16);
        for (index, part) in rows.data.chunks(chunk * rows.width.max(1)).enumerate() {
            let hidden = Tensor::from_slice(part, (part.len() / rows.width, rows.width), &self.device)?;
            let mut logits = to_rows(&self.head(&hidden)?)?;
            visit(index * chunk, &mut logits.data);
        }
        Ok(())
    }

    fn rows_per_thread(&self) -> Option<usize> {
        let Spec { hidden, ffn, .. } = self.spec;
        let layer = hidden * (2 * self.spec.q_width() + 2 * self.spec.kv_width() + 3 * ffn);
        (self.device.is_cpu() && layer <= memory::SMALL_LAYER).then_some(memory::SMALL_ROWS)
    }

    fn fingerprint(&self) -> String {
        self.fingerprint.clone()
    }

    fn answers_to(&self, fingerprint: &str) -> bool {
        self.fingerprint == fingerprint || self.provenance.aliases.iter().any(|alias| alias == fingerprint)
    }

    fn precision(&self) -> String {
        self.provenance.precision.clone().unwrap_or_else(|| AS_STORED.to_owned())
    }
}

impl Transformer {
    /// Rows of the canvas that somebody wants, ascending.
    fn needed_rows(&self, query: &Query<'_>) -> Vec<usize> {
        let mut rows: Vec<usize> = query.predict.iter().map(|&p| self.spec.predicting_row(p)).collect();
        if let Some((positions, which)) = query.hidden {
            rows.extend(positions.iter().map(|&p| which.of(p)));
        }
        rows.sort_unstable();
        rows.dedup();
        rows
    }

    fn pass(&self, query: &Query<'_>, need: &[usize], hidden: &Rows, start: usize) -> Pass {
        let gather = |rows: &mut dyn Iterator<Item = usize>| {
            let mut out = Rows { data: Vec::new(), width: self.spec.hidden };
            for row in rows {
                let index = need.partition_point(|&r| r < row);
                out.data.extend_from_slice(hidden.row(start + index));
            }
            out
        };
        Pass {
            predicting: gather(&mut query.predict.iter().map(|&p| self.spec.predicting_row(p))),
            hidden: query
                .hidden
                .map(|(positions, which)| gather(&mut positions.iter().map(|&p| which.of(p)))),
            ..Pass::default()
        }
    }
}

/// Packs the fresh rows of every canvas, then the shadows of all; returns each canvas's range among them.
fn pack(spec: &Spec, batch: &[Query<'_>]) -> (Packed, Vec<Range<usize>>) {
    let (mut tokens, mut positions, mut segments, mut fresh) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut keys = 0;
    for query in batch {
        let start = tokens.len();
        match &query.cache {
            None => {
                tokens.extend_from_slice(query.tokens);
                positions.extend(0..query.tokens.len() as u32);
            }
            Some(reuse) => {
                tokens.extend(reuse.rows.iter().map(|&r| query.tokens[r]));
                positions.extend(reuse.rows.iter().map(|&r| r as u32));
            }
        }
        let q = start..tokens.len();
        segments.push(Segment { q: q.clone(), k: keys..keys + query.tokens.len(), causal_offset: None });
        keys += query.tokens.len();
        fresh.push(q);
    }
    let mut shadows = Vec::new();
    for (query, segment) in batch.iter().zip(&segments) {
        let Some(shadow) = &query.shadow else { continue };
        let own = keys + shadows.len()..keys + shadows.len() + shadow.block.len();
        for position in shadow.block.clone() {
            tokens.push(spec.ids.mask);
            positions.push(spec.predicting_row(position) as u32);
            let canvas = segment.k.clone();
            shadows.push(ShadowKeys { hidden: canvas.start + position, canvas, shadows: own.clone() });
        }
    }
    let (positions, segments, shadows) = (positions.into(), segments.into(), shadows.into());
    (Packed { tokens, positions, segments, shadows }, fresh)
}

/// Needed rows as indices into the packed fresh rows.
fn packed_rows(batch: &[Query<'_>], fresh: &[Range<usize>], needs: &[Vec<usize>]) -> Result<Vec<u32>> {
    let mut rows = Vec::new();
    for ((query, fresh), need) in batch.iter().zip(fresh).zip(needs) {
        for &row in need {
            let local = match &query.cache {
                None => row,
                Some(reuse) => reuse.rows.binary_search(&row).map_err(|_| {
                    Error::Query(format!("row {row} is wanted but is not among the rows to recompute"))
                })?,
            };
            rows.push((fresh.start + local) as u32);
        }
    }
    Ok(rows)
}

fn to_rows(tensor: &Tensor) -> Result<Rows> {
    let (_, width) = tensor.dims2()?;
    let data = tensor.to_dtype(candle_core::DType::F32)?.flatten_all()?.to_vec1()?;
    Ok(Rows { data, width })
}
