//! The one Transformer: blocks of attention and a feed-forward half, driven by a [`Spec`]. It decodes (weights
//! mapped from the file) and trains (weights in differentiable tensors) with the same code.

pub mod device;
mod filter;
mod pack;
mod reduce;
mod resident;
mod session;

use std::sync::Arc;

use candle_core::{Device, Tensor};
use demask_kernels::Segment;

use crate::arch;
use crate::backbone::{self, AS_STORED, Backbone, Pass, Query, Rows};
use crate::checkpoint::Bytes;
use crate::config::{NormPlace, Positions, Spec};
use crate::error::Result;
use crate::layer::{Attention, Block, Head, Input, Norm, Parameters, Place, ShadowKeys, Turn, Watch, role};
use crate::memory;

use device::OnDevice;
pub use filter::{Drawn, Filter};
pub use pack::Packed;
use pack::{Wanted, pack, packed_rows, select};
use session::{Keys, Session, Uncached};

/// A Transformer with its weights.
pub struct Transformer {
    spec: Spec,
    device: Device,
    input: Input,
    /// As many as the checkpoint holds: one where all layers share it.
    blocks: Vec<Block>,
    /// The norm behind the last block, where norms stand before the halves.
    norm: Option<Norm>,
    head: Head,
    fingerprint: String,
    /// What it was loaded from; see [`Provenance`].
    provenance: Provenance,
    /// Whether a layer stays in a core's cache.
    small: bool,
    /// What lies on the device besides weights, where layers are composed of candle's operations.
    on_device: Option<device::State>,
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

impl Transformer {
    /// Builds a Transformer of this shape from its parameters.
    pub fn new(spec: Spec, device: Device, fingerprint: String, from: &mut dyn Parameters) -> Result<Self> {
        let names = arch::of(&spec)?.names;
        let outside = Place { names, layer: None };
        let inside = |layer| Place { names, layer: Some(layer) };
        let input = Input::load(&spec, &outside, from)?;
        // The largest map first: quantised at loading it lies in memory twice for a while, and before the others that is
        // less than the end takes.
        let head = Head::load(&spec, &outside, from)?;
        let blocks = (0..spec.stored_layers()).map(|i| Block::load(&spec, i, &inside(i), from));
        let blocks = blocks.collect::<Result<Vec<_>>>()?;
        let norm = match spec.norm_place {
            NormPlace::Before => Some(Norm::load(&spec, role::NORM, spec.hidden, &outside, from)?),
            NormPlace::Behind => None,
        };
        let composed = from.composed();
        let mut largest = 0;
        for layer in 0..spec.stored_layers() {
            let maps = Block::parameters(&spec, layer, &inside(layer))?;
            let maps = maps.iter().filter(|p| p.shape.len() == 2);
            largest = largest.max(maps.map(|p| p.shape.iter().product::<usize>()).sum());
        }
        let small = device.is_cpu() && !composed && largest <= memory::SMALL_LAYER;
        let provenance = Provenance::default();
        let on_device = composed.then(device::State::default);
        Ok(Self { spec, device, input, blocks, norm, head, fingerprint, provenance, small, on_device })
    }

    /// The same, knowing where its weights come from.
    pub(crate) fn coming_from(self, provenance: Provenance) -> Self {
        Self { provenance, ..self }
    }

    /// Hidden rows after the final norm `[rows, d]`: all of them, or those named. Differentiable
    /// when the parameters are.
    pub fn hidden(&self, packed: &Packed, rows: Option<&[u32]>) -> Result<Tensor> {
        let wanted = rows.map(|rows| select(packed, rows));
        let x = self.input.forward(&packed.tokens, &packed.positions, &self.device)?;
        let x = self.run(x, packed, wanted.as_ref(), &mut Uncached, &mut ())?;
        self.normed(x)
    }

    /// The rows that enter the first layer `[rows, d]`.
    pub fn embedded(&self, packed: &Packed) -> Result<Tensor> {
        self.input.forward(&packed.tokens, &packed.positions, &self.device)
    }

    /// Logits of hidden rows `[rows, V]`, unshifted. Differentiable when the parameters are.
    pub fn head(&self, hidden: &Tensor) -> Result<Tensor> {
        self.head.forward(hidden)
    }

    fn normed(&self, x: Tensor) -> Result<Tensor> {
        Ok(match &self.norm {
            Some(norm) => norm.forward(&x)?,
            None => x,
        })
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
    pub fn compute_device(&self) -> &Device {
        &self.device
    }

    /// As [`Backbone::forward`], told to `watch`.
    pub fn forward_watched(&self, batch: &mut [Query<'_>], watch: &mut dyn Watch) -> Result<Vec<Pass>> {
        self.provenance.files.iter().try_for_each(Bytes::check)?;
        for query in &mut *batch {
            session::prepare(&self.spec, query);
            backbone::check(&self.spec, query)?;
        }
        let needs: Vec<Vec<usize>> = batch.iter().map(|q| self.needed_rows(q)).collect();
        let (packed, placed) = pack(&self.spec, batch, &needs);
        let mut rows = packed_rows(batch, &placed, &needs)?;
        let mut shadow = rows.len();
        let real = packed.tokens.len() - packed.shadows.len();
        rows.extend((real..packed.tokens.len()).map(|row| row as u32));
        let whole = batch.iter().any(|q| q.attention_layers > 0) || rows.is_empty();
        let wanted = (!whole).then(|| select(&packed, &rows));
        let x = self.input.forward(&packed.tokens, &packed.positions, &self.device)?;
        let mut session = Session::new(batch, placed, self.spec.layers);
        let mut x = self.run(x, &packed, wanted.as_ref(), &mut session, watch)?;
        let (batch, placed, maps) = session.finish();
        if whole && !rows.is_empty() {
            x = x.index_select(&Tensor::new(rows.as_slice(), &self.device)?, 0)?;
        }
        if self.on_device.is_some() && batch.iter().all(|query| query.resident) {
            let hidden = if rows.is_empty() { x } else { self.normed(x)? };
            return self.resident_passes(batch, &needs, &placed, &hidden, shadow, maps);
        }
        let hidden = if rows.is_empty() { Rows::default() } else { self.to_rows(&self.normed(x)?)? };
        let mut passes = Vec::with_capacity(batch.len());
        let mut start = 0;
        for (((query, need), placed), map) in batch.iter().zip(&needs).zip(&placed).zip(maps) {
            let mut pass = self.pass(query, need, &hidden, start);
            pass.attention = map.map(|m| self.to_rows(&m)).transpose()?;
            if let Some(shadowed) = &query.shadow {
                let mut verified = Rows { data: Vec::new(), width: self.spec.hidden };
                for &position in shadowed.verify {
                    verified.data.extend_from_slice(hidden.row(shadow + position - shadowed.block.start));
                }
                pass.shadow = Some(verified);
                shadow += shadowed.block.len();
            }
            pass.computed_rows = placed.fresh.len();
            passes.push(pass);
            start += need.len();
        }
        Ok(passes)
    }

    fn run(
        &self,
        mut x: Tensor,
        packed: &Packed,
        wanted: Option<&Wanted>,
        keys: &mut dyn Keys,
        watch: &mut dyn Watch,
    ) -> Result<Tensor> {
        let last = self.spec.layers - 1;
        let turn = match &self.on_device {
            Some(state) if self.spec.positions == Positions::Rotary => {
                state.turn(&self.spec, &packed.positions, &self.device)?
            }
            _ => Turn::from(&packed.positions),
        };
        for layer in 0..self.spec.layers {
            let wanted = wanted.filter(|_| layer == last);
            x = self.block(layer, &x, (packed, &turn), wanted, keys, watch)?;
        }
        Ok(x)
    }

    fn block(
        &self,
        layer: usize,
        x: &Tensor,
        (packed, turn): (&Packed, &Turn),
        wanted: Option<&Wanted>,
        keys: &mut dyn Keys,
        watch: &mut dyn Watch,
    ) -> Result<Tensor> {
        let Spec { heads, kv_heads, head_dim, .. } = self.spec;
        let block = &self.blocks[if self.spec.shared_layers { 0 } else { layer }];
        let normed = block.attention_input(x)?;
        // In the last layer only the wanted rows need queries and a feed-forward half.
        let (x, [q, k, v], segments) = match wanted {
            None => (x.clone(), block.projections.all(&normed, turn)?, &packed.segments),
            Some(wanted) => {
                let (k, v) = block.projections.keys_and_values(&normed, turn)?;
                let rows = Tensor::new(wanted.rows.as_slice(), x.device())?;
                let (x, normed) = (x.index_select(&rows, 0)?, normed.index_select(&rows, 0)?);
                let q = block.projections.queries(&normed, &turn.select(&rows, &wanted.positions)?)?;
                (x, [q, k, v], &wanted.segments)
            }
        };
        let attention = Attention { heads, kv_heads, head_dim, composed: self.on_device.is_some() };
        let attended =
            keys.attend(layer, &attention, &Asked { q, k, v, segments, shadows: &packed.shadows })?;
        let x = block.after_attention(&x, &attended)?;
        block.after_feed_forward(&x, layer, watch)
    }

    /// A matrix on the host.
    fn to_rows(&self, tensor: &Tensor) -> Result<Rows> {
        let (_, width) = tensor.dims2()?;
        let data = match &self.on_device {
            Some(state) => state.fetch(tensor)?,
            None => tensor.to_dtype(candle_core::DType::F32)?.flatten_all()?.to_vec1()?,
        };
        Ok(Rows { data, width })
    }

    /// Rows of the canvas that somebody wants, ascending.
    fn needed_rows(&self, query: &Query<'_>) -> Vec<usize> {
        let mut rows: Vec<usize> =
            query.predict.iter().map(|&p| query.predicting_row(&self.spec, p)).collect();
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
            predicting: gather(&mut query.predict.iter().map(|&p| query.predicting_row(&self.spec, p))),
            hidden: query
                .hidden
                .map(|(positions, which)| gather(&mut positions.iter().map(|&p| which.of(p)))),
            ..Pass::default()
        }
    }
}

/// One layer's queries, its fresh keys and values, and who sees whom.
struct Asked<'a> {
    q: Tensor,
    k: Tensor,
    v: Tensor,
    segments: &'a Arc<[Segment]>,
    /// What the last queries see, which are shadows.
    shadows: &'a [ShadowKeys],
}

impl Backbone for Transformer {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn forward(&self, batch: &mut [Query<'_>]) -> Result<Vec<Pass>> {
        self.forward_watched(batch, &mut ())
    }

    fn logits(&self, rows: &Rows, visit: &mut dyn FnMut(usize, &mut [f32])) -> Result<()> {
        // Large enough for a full GEMM, small beside the weights.
        let chunk = (memory::LOGIT_CHUNK / self.spec.vocab).max(16);
        for (index, part) in rows.data.chunks(chunk * rows.width.max(1)).enumerate() {
            let hidden = Tensor::from_slice(part, (part.len() / rows.width, rows.width), &self.device)?;
            let mut logits = self.to_rows(&self.head(&hidden)?)?;
            visit(index * chunk, &mut logits.data);
        }
        Ok(())
    }

    fn device(&self) -> Option<&dyn OnDevice> {
        self.on_device.as_ref().map(|_| self as &dyn OnDevice)
    }

    fn rows_per_thread(&self) -> Option<usize> {
        self.small.then_some(memory::SMALL_ROWS)
    }

    fn embed(&self, tokens: &[u32]) -> Result<Rows> {
        self.to_rows(&self.input.tokens(tokens, &self.device)?)
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
