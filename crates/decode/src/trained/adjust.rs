//! ADJUST's layer (Bansal, Sanghavi 2025): one decoder layer that, after a token was drawn, moves the hidden rows of all
//! other positions to where the backbone would have put them:
//! `adjust(x, h)[i] = h[i] + norm_out(Block(W·[norm_e(E[x_i]); norm_h(h[i])] + b))[i]`, with `E` the backbone's embedding of
//! the current token and `Block` an ordinary layer of its architecture, full attention over the canvas. Its output is the
//! next call's `h`; the backbone's own head reads it.
//!
//! Rows are in position space: row i is what predicts position i. Names and shapes are those of the review code.

use std::path::Path;

use demask_kernels::{Heads, Segment, Weights, attention, gemm, rms_norm, rope, silu_gate};
use demask_model::checkpoint::Store;
use demask_model::{HiddenRow, Rows, Spec};

use crate::error::{Error, Result};
use crate::trained::{PartHeader, matrix};

/// The layer with its weights.
#[derive(Debug, Clone)]
pub struct Adjust {
    header: PartHeader,
    /// Which rows of the backbone it reads.
    pub hidden_row: HiddenRow,
    heads: Heads,
    theta: f32,
    eps: f32,
    join: Linear,
    norms: Norms,
    q: Linear,
    k: Linear,
    v: Linear,
    o: Linear,
    gate: Linear,
    up: Linear,
    down: Linear,
}

#[derive(Debug, Clone)]
struct Norms {
    embed: Vec<f32>,
    hidden: Vec<f32>,
    attention: Vec<f32>,
    mlp: Vec<f32>,
    out: Vec<f32>,
}

impl Norms {
    fn all(&self) -> [&[f32]; 5] {
        [&self.embed, &self.hidden, &self.attention, &self.mlp, &self.out]
    }
}

/// `x·Wᵀ (+ b)`.
#[derive(Debug, Clone)]
struct Linear {
    weight: Rows,
    bias: Option<Vec<f32>>,
}

impl Adjust {
    /// Reads a layer's file, for a backbone of this shape.
    pub fn load(path: &Path, spec: &Spec) -> Result<Self> {
        let store = Store::open_file(path)?;
        let header = PartHeader::read(&store, "adjust")?;
        let bad = |why: &str| Error::Part(format!("{} is not a usable sampler: {why}", path.display()));
        // The review code's file does not say; it reads what predicts a position, as every layer of this kind does.
        let hidden_row = header.hidden_row.unwrap_or_else(|| Self::row_of(spec));
        let linear = |name: &str| {
            let bias = format!("{name}.bias");
            let bias = store.contains(&bias).then(|| matrix(&store, &bias)).transpose()?;
            let weight = matrix(&store, &format!("{name}.weight"))?;
            Ok::<_, Error>(Linear { weight, bias: bias.map(|b| b.data) })
        };
        let norm = |name: &str| Ok::<_, Error>(matrix(&store, &format!("{name}.weight"))?.data);
        let layer = |name: &str| format!("layers.0.0.{name}");
        let adjust = Self {
            header,
            hidden_row,
            heads: Heads { query: spec.heads, kv: spec.kv_heads, dim: spec.head_dim },
            theta: spec.rope_theta as f32,
            eps: spec.eps,
            join: linear("down_project.0")?,
            norms: Norms {
                embed: norm("norm_embed.0")?,
                hidden: norm("norm_hidden.0")?,
                attention: norm(&layer("input_layernorm"))?,
                mlp: norm(&layer("post_attention_layernorm"))?,
                out: norm("norm_postattn.0")?,
            },
            q: linear(&layer("self_attn.q_proj"))?,
            k: linear(&layer("self_attn.k_proj"))?,
            v: linear(&layer("self_attn.v_proj"))?,
            o: linear(&layer("self_attn.o_proj"))?,
            gate: linear(&layer("mlp.gate_proj"))?,
            up: linear(&layer("mlp.up_proj"))?,
            down: linear(&layer("mlp.down_proj"))?,
        };
        let (d, q, kv) = (spec.hidden, spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim);
        let fits = (adjust.join.weight.len(), adjust.join.weight.width) == (d, 2 * d)
            && (adjust.q.weight.len(), adjust.k.weight.len(), adjust.o.weight.len()) == (q, kv, d)
            && adjust.norms.all().iter().all(|norm| norm.len() == d);
        if fits { Ok(adjust) } else { Err(bad("its matrices do not fit the backbone")) }
    }

    /// The rows that predict positions, which it reads.
    pub fn row_of(spec: &Spec) -> HiddenRow {
        if spec.shift.is_some() { HiddenRow::IMinusOne } else { HiddenRow::I }
    }

    /// What its file says.
    pub fn header(&self) -> &PartHeader {
        &self.header
    }

    /// Hidden rows after a change of tokens: `embedded` are the embeddings of all of them, `hidden` the rows before.
    pub fn forward(&self, embedded: &Rows, hidden: &Rows) -> Rows {
        let (count, d) = (hidden.len(), hidden.width);
        let embed = self.normed(embedded, &self.norms.embed);
        let state = self.normed(hidden, &self.norms.hidden);
        let joined = Rows {
            data: embed.iter().zip(state.iter()).flat_map(|(e, h)| e.iter().chain(h).copied()).collect(),
            width: 2 * d,
        };
        let mut x = self.join.apply(&joined);
        let normed = self.normed(&x, &self.norms.attention);
        let positions: Vec<u32> = (0..count as u32).collect();
        let (mut q, mut k) = (self.q.apply(&normed), self.k.apply(&normed));
        rope(&mut q.data, &positions, self.heads.query, self.heads.dim, self.theta, false);
        rope(&mut k.data, &positions, self.heads.kv, self.heads.dim, self.theta, false);
        let v = self.v.apply(&normed);
        let whole = [Segment { q: 0..count, k: 0..count, causal_offset: None }];
        let mut attended = Rows::zeros(count, q.width);
        attention(&q.data, &k.data, &v.data, self.heads, &whole, &mut attended.data, None);
        add(&mut x, &self.o.apply(&attended));
        let normed = self.normed(&x, &self.norms.mlp);
        let (gate, up) = (self.gate.apply(&normed), self.up.apply(&normed));
        let mut inner = Rows::zeros(count, gate.width);
        silu_gate(&gate.data, &up.data, &mut inner.data);
        add(&mut x, &self.down.apply(&inner));
        let mut out = self.normed(&x, &self.norms.out);
        add(&mut out, hidden);
        out
    }

    fn normed(&self, rows: &Rows, weight: &[f32]) -> Rows {
        let mut out = Rows::zeros(rows.len(), rows.width);
        rms_norm(&rows.data, weight, self.eps, &mut out.data);
        out
    }
}

impl Linear {
    fn apply(&self, x: &Rows) -> Rows {
        let mut out = Rows::zeros(x.len(), self.weight.len());
        let (w, n) = (Weights::F32(&self.weight.data), self.weight.len());
        gemm(&x.data, x.len(), x.width, w, n, self.bias.as_deref(), &mut out.data);
        out
    }
}

fn add(x: &mut Rows, y: &Rows) {
    x.data.iter_mut().zip(&y.data).for_each(|(x, y)| *x += y);
}
