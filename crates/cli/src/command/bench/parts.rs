//! The layers of one block and the head, each to be timed alone.

use std::sync::Arc;

use anyhow::Result;
use candle_core::{Device, Tensor};
use demask::kernels::Segment;
use demask::model::layer::{Attention, Block, Embedding, Linear, Place, Turn};
use demask::model::synthetic::Repeated;
use demask::model::{Parameters as _, Spec, arch};

use super::gemm::noise;

/// What a pass consists of; all but the head happen in every layer.
pub(super) const PHASES: [&str; 6] = ["norm", "qkv", "attention", "output", "mlp", "head"];

/// The layers of one block, each to be run alone.
pub(super) struct Parts {
    block: Block,
    layer: usize,
    attention: Attention,
    head: Linear,
}

/// Inputs of every phase for some rows.
pub(super) struct Inputs {
    x: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    turn: Turn,
    segments: Arc<[Segment]>,
}

impl Inputs {
    /// `rows` rows that see `keys` keys.
    pub(super) fn new(spec: &Spec, rows: usize, keys: usize) -> Result<Self> {
        let tensor = |rows: usize, width: usize, seed| {
            Tensor::from_vec(noise(rows * width, seed), (rows, width), &Device::Cpu)
        };
        Ok(Self {
            x: tensor(rows, spec.hidden, 1)?,
            q: tensor(rows, spec.q_width(), 2)?,
            k: tensor(keys, spec.kv_width(), 3)?,
            v: tensor(keys, spec.kv_width(), 4)?,
            turn: Turn::from(&(0..rows as u32).collect()),
            segments: Arc::new([Segment { q: 0..rows, k: 0..keys, causal_offset: None }]),
        })
    }
}

impl Parts {
    /// Of a model's weights, which it shares.
    pub(super) fn new(spec: &Spec, from: &mut Repeated) -> Result<Self> {
        // The last layer is of the kind that most are.
        let (names, layer) = (arch::of(spec)?.names, spec.layers - 1);
        Ok(Self {
            block: Block::load(spec, layer, &Place { names, layer: Some(layer) }, from)?,
            layer,
            attention: Attention {
                heads: spec.heads,
                kv_heads: spec.kv_heads,
                head_dim: spec.head_dim,
                composed: false,
            },
            head: from.linear(&Embedding::head(spec, &Place { names, layer: None })?)?,
        })
    }

    /// Runs a phase once.
    pub(super) fn run(&self, phase: usize, on: &Inputs) -> Result<()> {
        let out = match PHASES[phase] {
            "norm" => self.block.attention_input(&on.x)?,
            "qkv" => {
                let [q, _, _] = self.block.projections.all(&on.x, &on.turn)?;
                q
            }
            "attention" => self.attention.forward(&on.q, &on.k, &on.v, &on.segments)?,
            "output" => self.block.projections.output(&on.q)?,
            "mlp" => self.block.feed_forward(&on.x, self.layer, &mut ())?,
            // In chunks, as logits are made: all rows at once would be gigabytes.
            _ => {
                let rows = on.x.dim(0)?;
                for start in (0..rows).step_by(128) {
                    self.head.forward(&on.x.narrow(0, start, 128.min(rows - start))?)?;
                }
                on.x.clone()
            }
        };
        std::hint::black_box(out);
        Ok(())
    }
}
