//! What decoding needs of a model: hidden rows and logits for the rows asked for, for a batch of
//! canvases of different lengths.
//!
//! Invariant: a row's numbers do not depend on which other canvases, or how many rows, are in the
//! batch. Dream's logit shift is applied here, so callers only ever speak of positions.

use std::fmt;
use std::ops::Range;

use candle_core::Tensor;
use serde::{Deserialize, Serialize};

use crate::config::{Grid, Spec};
use crate::error::{Error, Result};
use crate::transformer::device::{OnDevice, Resident};

/// The precision of weights that are used as their file has them.
pub const AS_STORED: &str = "stored";

/// A masked-diffusion model.
pub trait Backbone: Send + Sync {
    /// Shape and special ids.
    fn spec(&self) -> &Spec;

    /// One forward pass over every canvas of the batch.
    fn forward(&self, batch: &mut [Query<'_>]) -> Result<Vec<Pass>>;

    /// Logits of prediction rows from [`Pass::predicting`], a few rows at a time: `visit` gets the
    /// index of the first row and the chunk `[rows, vocab]`. `|M|×V` never exists at once.
    fn logits(&self, rows: &Rows, visit: &mut dyn FnMut(usize, &mut [f32])) -> Result<()>;

    /// The device it computes on, where rows can stay there; `None` where they are on the host anyway.
    fn device(&self) -> Option<&dyn OnDevice> {
        None
    }

    /// The number of rows beyond which a larger pass is no cheaper per row on one thread; many canvases are then best
    /// computed in groups of this size, a thread each. `None` where one pass should have all rows, as where weights come
    /// from memory.
    fn rows_per_thread(&self) -> Option<usize> {
        None
    }

    /// Embeddings of tokens `[tokens.len(), hidden]`, for parts that are trained beside the model.
    fn embed(&self, _tokens: &[u32]) -> Result<Rows> {
        Err(Error::Query("this backbone gives no embeddings".into()))
    }

    /// Devices that share a batch; more canvases at once keep all of them busy.
    fn replicas(&self) -> usize {
        1
    }

    /// Identifies the weights, so that a predictor trained on one backbone is not used on another.
    fn fingerprint(&self) -> String;

    /// Whether this is the model of a fingerprint: its own, that of the checkpoint it was made of in another precision,
    /// or the one that versions before 0.2 gave it.
    fn answers_to(&self, fingerprint: &str) -> bool {
        self.fingerprint() == fingerprint
    }

    /// The precision it was brought to when it was loaded.
    fn precision(&self) -> String {
        AS_STORED.to_owned()
    }
}

/// Which hidden row stands for position `i` when the dependency predictor reads it. The paper is
/// silent, so it is a named choice of the predictor's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum HiddenRow {
    /// The row of the masked token itself.
    #[serde(rename = "i")]
    I,
    /// The row before, which produces `P(Y_i)` in a shifted model.
    #[serde(rename = "i-1")]
    IMinusOne,
}

impl fmt::Display for HiddenRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::I => "i",
            Self::IMinusOne => "i-1",
        })
    }
}

impl HiddenRow {
    /// The row of a name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "i" => Some(Self::I),
            "i-1" | "i_minus_1" | "i - 1" => Some(Self::IMinusOne),
            _ => None,
        }
    }

    /// The row of the residual stream that stands for `position`.
    pub fn of(self, position: usize) -> usize {
        match self {
            Self::I => position,
            Self::IMinusOne => position.saturating_sub(1),
        }
    }
}

/// One canvas of a batch and what is wanted of it.
#[derive(Default)]
pub struct Query<'a> {
    /// The whole canvas.
    pub tokens: &'a [u32],
    /// Positions whose token distribution is wanted.
    pub predict: &'a [usize],
    /// Positions whose hidden rows are wanted (for the dependency predictor), and which rows those are.
    pub hidden: Option<(&'a [usize], HiddenRow)>,
    /// Head-averaged attention of the last `n` layers is wanted.
    pub attention_layers: usize,
    /// Keys and values kept from earlier passes; `None` computes every row.
    pub cache: Option<Reuse<'a>>,
    /// What the model would say at decided positions without their tokens is wanted too.
    pub shadow: Option<Shadow<'a>>,
    /// Blocks of block-causal attention: a row sees its own and those before. `None` is the model's usual: full attention,
    /// or blocks of its own length counted from the canvas's first token.
    pub blocks: Option<Grid>,
    /// A position whose own row predicts it, whatever the model's shift: in APD's published code the first row of a slice
    /// has no row before it.
    pub own_row: Option<usize>,
    /// Rows are to stay on the backbone's device, if it has one: [`Pass::resident`] instead of rows on the host.
    pub resident: bool,
}

impl Query<'_> {
    /// The row that predicts a position of this canvas.
    pub(crate) fn predicting_row(&self, spec: &Spec, position: usize) -> usize {
        if self.own_row == Some(position) { position } else { spec.predicting_row(position) }
    }

    /// The blocks of this canvas; `None` where every row sees every row.
    pub(crate) fn grid(&self, spec: &Spec) -> Option<Grid> {
        self.blocks.or_else(|| spec.grid(0, None))
    }
}

/// A second copy of a block within the same pass (WINO): each of its cells holds a mask, stands at the row that
/// predicts its position, and sees everything but the real cell of that position. Nothing real sees the copy.
#[derive(Debug, Clone)]
pub struct Shadow<'a> {
    /// Positions that are copied.
    pub block: Range<usize>,
    /// Those of them whose distributions are wanted.
    pub verify: &'a [usize],
}

/// Use of a key/value cache in one pass.
pub struct Reuse<'a> {
    /// The canvas's cache.
    pub cache: &'a mut KvCache,
    /// Rows to compute afresh, ascending; all other rows keep their keys and values.
    pub rows: &'a [usize],
}

/// What one canvas gets back.
#[derive(Debug, Clone, Default)]
pub struct Pass {
    /// Rows that predict the positions of `Query::predict`, in that order.
    pub predicting: Rows,
    /// Hidden rows of `Query::hidden`, in that order (after the final norm).
    pub hidden: Option<Rows>,
    /// Mean attention `[len, len]` (query row, key row), where asked for.
    pub attention: Option<Rows>,
    /// Rows that predict the positions of `Shadow::verify` without their own tokens, in that order.
    pub shadow: Option<Rows>,
    /// How many rows of the canvas were computed afresh.
    pub computed_rows: usize,
    /// The same rows where they were computed, for a query that asked for that; those on the host are then empty.
    pub resident: Option<Resident>,
}

/// A dense row-major matrix.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rows {
    /// Row-major content.
    pub data: Vec<f32>,
    /// Width of a row.
    pub width: usize,
}

impl Rows {
    /// An all-zero matrix.
    pub fn zeros(rows: usize, width: usize) -> Self {
        Self { data: vec![0.0; rows * width], width }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.data.len().checked_div(self.width).unwrap_or(0)
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// One row.
    pub fn row(&self, index: usize) -> &[f32] {
        &self.data[index * self.width..(index + 1) * self.width]
    }

    /// All rows in order.
    pub fn iter(&self) -> std::slice::ChunksExact<'_, f32> {
        self.data.chunks_exact(self.width.max(1))
    }
}

/// Keys (after the rotary embedding) and values of every row of one canvas, per layer.
///
/// Absolute positions never change in a canvas, so rotated keys stay valid. Under block-causal attention it grows with
/// the canvas, block by block, and rows of finished blocks are exact.
#[derive(Debug, Default)]
pub struct KvCache {
    pub(crate) layers: Vec<(Vec<f32>, Vec<f32>)>,
    /// The same on a device, with room for the whole canvas.
    pub(crate) resident: Vec<[Tensor; 2]>,
    /// The replica that holds them.
    pub(crate) home: Option<usize>,
    pub(crate) rows: usize,
}

impl KvCache {
    /// An empty cache: the first pass must compute every row.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether a pass over a canvas of `len` tokens may reuse rows.
    pub fn holds(&self, len: usize) -> bool {
        self.rows == len && !(self.layers.is_empty() && self.resident.is_empty())
    }

    /// Rows it holds, from the canvas's first.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Keeps only the first `rows` rows.
    pub fn crop(&mut self, rows: usize) {
        if rows < self.rows {
            for (keys, values) in &mut self.layers {
                let width = keys.len() / self.rows;
                keys.truncate(rows * width);
                values.truncate(rows * width);
            }
            self.rows = rows;
        }
    }

    /// A copy of the first `rows` rows with room for a canvas of `len`; fewer if it holds fewer.
    pub fn prefix(&self, rows: usize, len: usize) -> Result<Self> {
        let rows = rows.min(self.rows);
        let part = |all: &Vec<f32>| {
            let width = all.len().checked_div(self.rows).unwrap_or(0);
            let mut part = Vec::with_capacity(width * len.max(rows));
            part.extend_from_slice(&all[..rows * width]);
            part
        };
        // A copy there too, since rows are written where they lie.
        let copy = |all: &Tensor| all.narrow(0, 0, rows)?.force_contiguous();
        let resident = self.resident.iter().map(|[k, v]| Ok([copy(k)?, copy(v)?]));
        Ok(Self {
            layers: self.layers.iter().map(|(k, v)| (part(k), part(v))).collect(),
            resident: resident.collect::<Result<_>>()?,
            home: self.home,
            rows,
        })
    }

    /// Bytes it takes.
    pub fn size_in_bytes(&self) -> usize {
        let host: usize = self.layers.iter().map(|(keys, values)| keys.len() + values.len()).sum();
        let resident = self.resident.iter().flatten().map(|x| x.elem_count() * x.dtype().size_in_bytes());
        host * size_of::<f32>() + resident.sum::<usize>()
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.layers.clear();
        self.resident.clear();
        self.rows = 0;
    }
}

/// Checks a query against the model before any work is done.
pub(crate) fn check(spec: &Spec, query: &Query<'_>) -> Result<()> {
    let len = query.tokens.len();
    if len == 0 {
        return Err(Error::Query("the canvas is empty".into()));
    }
    if len > spec.max_positions {
        return Err(Error::Query(format!(
            "the canvas has {len} tokens but the model's context is {}; shorten the prompt or the response",
            spec.max_positions
        )));
    }
    if let Some(token) = query.tokens.iter().find(|&&t| t as usize >= spec.vocab) {
        return Err(Error::Query(format!("token {token} is outside the vocabulary of {}", spec.vocab)));
    }
    let hidden = query.hidden.map_or(&[][..], |(positions, _)| positions);
    if let Some(position) = query.predict.iter().chain(hidden).find(|&&p| p >= len) {
        return Err(Error::Query(format!("position {position} is outside the canvas of {len} tokens")));
    }
    if let Some(shadow) = &query.shadow {
        let outside = shadow.verify.iter().find(|p| !shadow.block.contains(p));
        if shadow.block.end > len || outside.is_some() {
            return Err(Error::Query("the block to verify does not lie in the canvas".into()));
        }
    }
    if let Some(reuse) = &query.cache {
        let sorted = reuse.rows.windows(2).all(|w| w[0] < w[1]) && reuse.rows.last().is_none_or(|&r| r < len);
        if !sorted || reuse.rows.is_empty() {
            return Err(Error::Query(
                "rows to recompute must be ascending, inside the canvas and not empty".into(),
            ));
        }
        let last = reuse.rows.last().copied().unwrap_or(0);
        let extent = query.grid(spec).map_or(len, |grid| grid.end(last).min(len));
        let kept = reuse.cache.rows.min(extent);
        let fresh = reuse.rows.len() - reuse.rows.partition_point(|&row| row < kept);
        if fresh != extent - kept {
            return Err(Error::Query(format!(
                "the cache holds {kept} rows; a pass up to row {extent} computes all that follow them"
            )));
        }
    }
    Ok(())
}
