//! How much memory a decoding takes at its peak: what `demask inspect` predicts and a test holds
//! against the measured peak.

use crate::arch;
use crate::checkpoint::quantized::Packing;
use crate::config::{FeedForward, Spec};
use crate::layer::{Parameter, Use};
use crate::load::Precision;

/// Rows the gated MLP works on at a time; bounds its inner activations.
pub const MLP_ROWS: usize = 512;
/// Values in a chunk of logits.
pub const LOGIT_CHUNK: usize = 1 << 24;

/// Parameters of a layer that stay in a core's cache from one pass to the next.
pub const SMALL_LAYER: usize = 1 << 20;
/// Rows over which packing such a layer's weights no longer counts, while their activations stay in cache as well.
pub const SMALL_ROWS: usize = 384;

/// Gives memory that was freed back to the system, where the allocator keeps it for later.
pub fn give_back() {
    demask_kernels::give_back_memory();
}

/// Bytes by use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Pages of the weights that a forward pass touches.
    pub weights: usize,
    /// Rows of the residual stream, projections and MLP.
    pub activations: usize,
    /// Logits of the masked rows, a chunk at a time.
    pub logits: usize,
    /// Program, tokenizer and packing buffers.
    pub rest: usize,
}

impl Memory {
    /// The peak: activations are gone when logits are made.
    pub fn total(&self) -> usize {
        self.weights + self.activations.max(self.logits) + self.rest
    }
}

/// Predicts the peak for one canvas of `length` tokens. `stored` is bytes per parameter in the
/// file (2 if unknown); `dtype` converts the weights into memory of our own; `tokenizer` is the size
/// of the tokenizer's file.
pub fn estimate(
    spec: &Spec,
    stored: Option<f64>,
    dtype: Option<Precision>,
    length: usize,
    tokenizer: usize,
) -> Memory {
    let stored = stored.unwrap_or(2.0);
    // Only the rows of tokens that occur are read of a mapped embedding table.
    let converted = matches!(dtype, Some(Precision::Float(_)));
    let bytes = |parameter: &Parameter| {
        let per = match dtype {
            _ if parameter.kind == (Use::Table { tied: false }) && !converted => 0.0,
            None => stored,
            Some(Precision::Float(dtype)) => dtype.size() as f64,
            Some(precision) => precision.packing(parameter).map_or(stored, Packing::size),
        };
        parameter.elements() as f64 * per
    };
    let parameters = arch::parameters(spec).unwrap_or_default();
    let weights = parameters.iter().map(bytes).sum::<f64>() as usize;
    let float = size_of::<f32>();
    let stream = 4 * spec.hidden + 2 * spec.q_width() + 2 * spec.kv_width();
    let inner = |layer| match spec.feed_forward(layer) {
        FeedForward::Dense(width) => 3 * width,
        FeedForward::Plain(width) => 2 * width,
        // The outputs of a row's experts are added when all of them are there.
        FeedForward::Experts(e) => e.chosen * spec.hidden + 3 * (e.chosen * e.width).max(e.shared),
    };
    let inner = (0..spec.layers).map(inner).max().unwrap_or(0);
    let activations = float * (length * stream + length.min(MLP_ROWS) * inner);
    let logits = float * 2 * (length * spec.vocab).min(LOGIT_CHUNK.max(16 * spec.vocab));
    // A tokenizer's tables take about twelve times its file; the program itself about 24 MiB.
    Memory { weights, activations, logits, rest: 12 * tokenizer + (24 << 20) }
}
