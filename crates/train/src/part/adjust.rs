//! Training of ADJUST's layer (Bansal, Sanghavi 2025): from the hidden rows of a state `s_0` of the model's own
//! trajectory, the layer fed its own output follows the next states, `h_d = adjust(s_d, h_{d−1})`, and
//! `KL(p_θ(·|s_d) ‖ head(h_d))` over the cells still masked in `s_d` is what it is taught by. One depth per update, drawn
//! with weights softmax(1, ½, ¼, …); the gradient goes through the whole chain.
//!
//! The layer starts as the identity, so the first loss is that of leaving the rows as they are: the baseline.

use std::path::Path;
use std::sync::Arc;

use candle_core::{Device, Tensor};
use demask_decode::rng::{Purpose, Rng};
use demask_decode::trained::{Adjust, PartHeader, write_part};
use demask_kernels::Segment;
use demask_model::layer::{Attention, Linear, Mlp, RmsNorm, Rope, Turn, residual};
use demask_model::{Backbone, HiddenRow, Query, Rows, Spec};

use super::trajectory::Trajectory;
use super::{Objective, Outcome, Slots, Vars};
use crate::error::{Error, Result};

/// The norm that decides how much the layer says: 0 at the start.
const LAST_NORM: &str = "norm_postattn.0.weight";

/// What is trained on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Deepest chain; the layer is meant for one token more per pass.
    pub depth: usize,
    /// Windows per update.
    pub batch: usize,
    /// Windows that are held out.
    pub held: usize,
}

/// States of a trajectory, one decision apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// The canvases.
    pub states: Vec<Vec<u32>>,
    /// Cells that count while they are masked.
    pub counted: Vec<usize>,
}

/// The layer in training.
pub struct AdjustObjective<'a> {
    backbone: &'a dyn Backbone,
    slots: Slots,
    vars: Vars,
    /// The backbone's frozen head.
    head: Linear,
    trajectories: &'a [Trajectory],
    held: Vec<Window>,
    /// Trajectories before this one are trained on.
    training: usize,
    shape: Shape,
    seed: u64,
    gathered: Vec<Window>,
    weights: Vec<f64>,
}

impl<'a> AdjustObjective<'a> {
    /// For a backbone, on trajectories it made.
    pub fn new(
        backbone: &'a dyn Backbone,
        trajectories: &'a [Trajectory],
        shape: Shape,
        seed: u64,
    ) -> Result<Self> {
        let slots = slots(backbone.spec());
        let long = trajectories.iter().filter(|t| t.order.len() > shape.depth).count();
        if shape.depth == 0 || shape.batch == 0 || long < 2 {
            let value = format!("{} (trajectories that are long enough: {long})", shape.depth);
            let allowed = "at least 1, and two trajectories with more decisions";
            return Err(Error::Setting { name: "the depth", value, allowed });
        }
        let training = trajectories.len() - (trajectories.len() / 20).max(1);
        let mut this = Self {
            backbone,
            vars: Vars::new(&slots)?,
            slots,
            head: head(backbone)?,
            trajectories,
            held: Vec::new(),
            training,
            shape,
            seed,
            gathered: Vec::new(),
            weights: Vec::new(),
        };
        this.held = this.windows(training..trajectories.len(), Rng::new(seed, u64::MAX), shape.held);
        if this.held.is_empty() {
            this.held = this.windows(0..trajectories.len(), Rng::new(seed, u64::MAX), shape.held);
        }
        Ok(this)
    }

    /// Windows drawn from these trajectories; none if all are too short.
    fn windows(&self, from: std::ops::Range<usize>, rng: Rng, count: usize) -> Vec<Window> {
        let long: Vec<usize> =
            from.filter(|&t| self.trajectories[t].order.len() > self.shape.depth).collect();
        if long.is_empty() {
            return Vec::new();
        }
        let draw = |index: usize| {
            let pick = |purpose, count: usize| (rng.bits(purpose, 0, index as u64) % count as u64) as usize;
            let trajectory = &self.trajectories[long[pick(Purpose::Position, long.len())]];
            let start = pick(Purpose::Mask, trajectory.order.len() - self.shape.depth);
            self.window(trajectory, start)
        };
        (0..count).map(draw).collect()
    }

    fn window(&self, trajectory: &Trajectory, start: usize) -> Window {
        let ids = &self.backbone.spec().ids;
        let states = (start..=start + self.shape.depth).map(|decided| trajectory.state(decided, ids.mask));
        let first = trajectory.prompt.len();
        Window { states: states.collect(), counted: (first..first + trajectory.written(&ids.eos)).collect() }
    }

    /// `Σ_d weight_d · mean KL at depth d` as a differentiable scalar, and its parts. The parameters are those of `vars`.
    fn loss(&self, windows: &[Window], weights: &[f64]) -> Result<(Tensor, Vec<f64>)> {
        let row = Adjust::row_of(self.backbone.spec());
        let geometry = Geometry::of(windows);
        let state = |window: &Window, depth: usize| window.states[depth].clone();
        let mut hidden = self.hidden(&windows.iter().map(|w| state(w, 0)).collect::<Vec<_>>(), row)?;
        let (mut total, mut parts) = (Tensor::zeros((), candle_core::DType::F32, &Device::Cpu)?, Vec::new());
        for (depth, &weight) in (1..).zip(weights) {
            let states: Vec<Vec<u32>> = windows.iter().map(|w| state(w, depth)).collect();
            let embedded = tensor(self.backbone.embed(&states.concat())?)?;
            hidden = self.layer(&embedded, &hidden, &geometry)?;
            if weight == 0.0 {
                parts.push(0.0);
                continue;
            }
            let mean = self.divergence(&states, windows, &hidden)?;
            parts.push(f64::from(mean.to_scalar::<f32>()?));
            total = (total + (mean * weight)?)?;
        }
        Ok((total, parts))
    }

    /// Hidden rows of all positions of some canvases.
    fn hidden(&self, states: &[Vec<u32>], row: HiddenRow) -> Result<Tensor> {
        let all: Vec<Vec<usize>> = states.iter().map(|tokens| (0..tokens.len()).collect()).collect();
        let query = |(tokens, all): (&'_ Vec<u32>, &'_ Vec<usize>)| (tokens.clone(), all.clone());
        let owned: Vec<(Vec<u32>, Vec<usize>)> = states.iter().zip(&all).map(query).collect();
        let mut batch: Vec<Query<'_>> = owned
            .iter()
            .map(|(tokens, all)| Query { tokens, hidden: Some((all, row)), ..Query::default() })
            .collect();
        let passes = self.backbone.forward(&mut batch)?;
        let mut rows = Rows { data: Vec::new(), width: self.backbone.spec().hidden };
        passes.into_iter().filter_map(|pass| pass.hidden).for_each(|h| rows.data.extend(h.data));
        tensor(rows)
    }

    /// Mean `KL(p_θ(·|s) ‖ head(h))` over the cells that count and are masked.
    fn divergence(&self, states: &[Vec<u32>], windows: &[Window], hidden: &Tensor) -> Result<Tensor> {
        let mask = self.backbone.spec().ids.mask;
        let (mut cells, mut queries, mut start) = (Vec::new(), Vec::new(), 0_usize);
        for (tokens, window) in states.iter().zip(windows) {
            let masked = window.counted.iter().copied().filter(|&p| tokens[p] == mask);
            let masked: Vec<usize> = masked.collect();
            cells.extend(masked.iter().map(|&p| (start + p) as u32));
            start += tokens.len();
            queries.push((tokens, masked));
        }
        if cells.is_empty() {
            return Ok((hidden.sum_all()? * 0.0)?);
        }
        let mut batch: Vec<Query<'_>> =
            queries.iter().map(|(tokens, predict)| Query { tokens, predict, ..Query::default() }).collect();
        let mut predicting = Rows { data: Vec::new(), width: self.backbone.spec().hidden };
        self.backbone.forward(&mut batch)?.iter().for_each(|p| predicting.data.extend(&p.predicting.data));
        let mut logits = Vec::new();
        self.backbone.logits(&predicting, &mut |_, chunk| logits.extend_from_slice(chunk))?;
        let truth = tensor(Rows { data: logits, width: self.backbone.spec().vocab })?;
        let count = cells.len();
        let rows = hidden.index_select(&Tensor::new(cells, &Device::Cpu)?, 0)?;
        let (truth, own) = (log_softmax(&truth)?, log_softmax(&self.head.forward(&rows)?)?);
        Ok(((truth.exp()? * (truth - own)?)?.sum_all()? / count as f64)?)
    }

    fn layer(&self, embedded: &Tensor, hidden: &Tensor, geometry: &Geometry) -> Result<Tensor> {
        let spec = self.backbone.spec();
        let norm = |name: &str| Ok::<_, Error>(RmsNorm::new(self.vars.get(name)?, spec.eps));
        let inner = |name: &str| format!("layers.0.0.{name}");
        let linear = |name: &str, bias: bool| {
            let bias = if bias { Some(self.vars.get(&format!("{name}.bias"))?) } else { None };
            Ok::<_, Error>(Linear::Dense { weight: self.vars.get(&format!("{name}.weight"))?, bias })
        };
        let attend = |name: &str| linear(&inner(&format!("self_attn.{name}")), spec.qkv_bias);
        let both =
            [norm("norm_embed.0.weight")?.forward(embedded)?, norm("norm_hidden.0.weight")?.forward(hidden)?];
        let x = linear("down_project.0", true)?.forward(&Tensor::cat(&both, 1)?)?;
        let normed = norm(&inner("input_layernorm.weight"))?.forward(&x)?;
        let rope = Rope { head_dim: spec.head_dim, rotary: spec.head_dim, theta: spec.rope_theta };
        let turn = Turn::from(&geometry.positions);
        let turned = |name: &str| Ok::<_, Error>(rope.forward(&attend(name)?.forward(&normed)?, &turn)?);
        let (q, k, v) = (turned("q_proj")?, turned("k_proj")?, attend("v_proj")?.forward(&normed)?);
        let attention = Attention {
            heads: spec.heads,
            kv_heads: spec.kv_heads,
            head_dim: spec.head_dim,
            composed: false,
        };
        let attended = attention.forward(&q, &k, &v, &geometry.segments)?;
        let x = residual(&x, &linear(&inner("self_attn.o_proj"), false)?.forward(&attended)?)?;
        let normed = norm(&inner("post_attention_layernorm.weight"))?.forward(&x)?;
        let projection = |name: &str| linear(&inner(&format!("mlp.{name}")), false);
        let mlp = Mlp {
            gate: projection("gate_proj")?,
            up: projection("up_proj")?,
            down: projection("down_proj")?,
        };
        let x = residual(&x, &mlp.forward(&normed)?)?;
        Ok(residual(hidden, &norm(LAST_NORM)?.forward(&x)?)?)
    }

    /// Loss and gradient of given windows at given weights of the depths.
    pub fn gradient_of(
        &self,
        parameters: &[f32],
        windows: &[Window],
        weights: &[f64],
        gradient: &mut [f32],
    ) -> Result<Vec<f64>> {
        self.vars.set(parameters)?;
        let (loss, parts) = self.loss(windows, weights)?;
        self.vars.collect(&loss.backward()?, gradient)?;
        Ok(parts)
    }
}

impl Objective for AdjustObjective<'_> {
    fn slots(&self) -> &Slots {
        &self.slots
    }

    fn initial(&self, seed: u64) -> Result<Vec<f32>> {
        let mut values = self.slots.initial(seed);
        values[self.slots.range(LAST_NORM)].fill(0.0);
        Ok(values)
    }

    fn gather(&mut self, _: &[f32], step: u64) -> Result<usize> {
        let rng = Rng::new(self.seed, step);
        let mut from = 0..self.training;
        if !from.clone().any(|t| self.trajectories[t].order.len() > self.shape.depth) {
            from = 0..self.trajectories.len();
        }
        self.gathered = self.windows(from, rng, self.shape.batch);
        let chances: Vec<f64> = (0..self.shape.depth).map(|d| 0.5_f64.powi(d as i32).exp()).collect();
        let mut left = rng.uniform(Purpose::Reveal, 0, 0) * chances.iter().sum::<f64>();
        let depth = chances.iter().position(|chance| {
            left -= chance;
            left < 0.0
        });
        let depth = depth.unwrap_or(self.shape.depth - 1);
        self.weights = (0..=depth).map(|d| if d == depth { 1.0 } else { 0.0 }).collect();
        Ok(1)
    }

    fn gradient(&mut self, parameters: &[f32], gradient: &mut [f32]) -> Result<Option<f64>> {
        let parts = self.gradient_of(parameters, &self.gathered, &self.weights, gradient)?;
        Ok(Some(parts.iter().sum()))
    }

    fn validate(&mut self, parameters: &[f32]) -> Result<f64> {
        self.vars.set(parameters)?;
        let weights = vec![1.0; self.shape.depth];
        let mut sums = Vec::new();
        for windows in self.held.chunks(self.shape.batch) {
            let parts = self.loss(windows, &weights)?.1;
            sums.push((parts.iter().sum::<f64>() / parts.len() as f64, windows.len()));
        }
        let (sum, count) =
            sums.iter().fold((0.0, 0), |(sum, count), (v, n)| (sum + v * *n as f64, count + n));
        Ok(sum / count.max(1) as f64)
    }

    fn baseline(&mut self) -> Result<(String, f64)> {
        let nothing = vec![0.0; self.slots.len()];
        Ok(("hidden rows left as they were".into(), self.validate(&nothing)?))
    }
}

/// Writes the layer's file.
pub fn save(path: &Path, backbone: &dyn Backbone, trained_on: &str, outcome: &Outcome) -> Result<()> {
    let spec = backbone.spec();
    let header = PartHeader {
        hidden_row: Some(Adjust::row_of(spec)),
        loss: Some((outcome.validation, outcome.baseline)),
        ..PartHeader::of("adjust", backbone, trained_on)
    };
    let header = header.sized("hidden", spec.hidden).sized("heads", spec.heads).sized("ffn", spec.ffn);
    write_part(path, &header, &slots(spec).named(&outcome.parameters))?;
    Ok(())
}

/// The tensors of a layer for a backbone of this shape, by the names of the review code.
pub fn slots(spec: &Spec) -> Slots {
    let (d, q, kv, ffn) = (spec.hidden, spec.q_width(), spec.kv_width(), spec.ffn);
    let mut all = vec![
        ("down_project.0.weight", vec![d, 2 * d]),
        ("down_project.0.bias", vec![d]),
        ("norm_embed.0.weight", vec![d]),
        ("norm_hidden.0.weight", vec![d]),
        (LAST_NORM, vec![d]),
        ("layers.0.0.input_layernorm.weight", vec![d]),
        ("layers.0.0.post_attention_layernorm.weight", vec![d]),
        ("layers.0.0.self_attn.q_proj.weight", vec![q, d]),
        ("layers.0.0.self_attn.k_proj.weight", vec![kv, d]),
        ("layers.0.0.self_attn.v_proj.weight", vec![kv, d]),
        ("layers.0.0.self_attn.o_proj.weight", vec![d, q]),
        ("layers.0.0.mlp.gate_proj.weight", vec![ffn, d]),
        ("layers.0.0.mlp.up_proj.weight", vec![ffn, d]),
        ("layers.0.0.mlp.down_proj.weight", vec![d, ffn]),
    ];
    if spec.qkv_bias {
        all.push(("layers.0.0.self_attn.q_proj.bias", vec![q]));
        all.push(("layers.0.0.self_attn.k_proj.bias", vec![kv]));
        all.push(("layers.0.0.self_attn.v_proj.bias", vec![kv]));
    }
    Slots::new(all)
}

/// Rows of several canvases of one window each, one after another.
struct Geometry {
    positions: Arc<[u32]>,
    segments: Arc<[Segment]>,
}

impl Geometry {
    fn of(windows: &[Window]) -> Self {
        let (mut positions, mut segments) = (Vec::new(), Vec::new());
        for window in windows {
            let rows = positions.len()..positions.len() + window.states[0].len();
            positions.extend(0..rows.len() as u32);
            segments.push(Segment { q: rows.clone(), k: rows, causal_offset: None });
        }
        Self { positions: positions.into(), segments: segments.into() }
    }
}

/// The backbone's head as a matrix: what it makes of the unit vectors.
fn head(backbone: &dyn Backbone) -> Result<Linear> {
    let (d, vocab) = (backbone.spec().hidden, backbone.spec().vocab);
    let mut unit = Rows::zeros(d, d);
    (0..d).for_each(|i| unit.data[i * d + i] = 1.0);
    let mut columns = Vec::with_capacity(d * vocab);
    backbone.logits(&unit, &mut |_, chunk| columns.extend_from_slice(chunk))?;
    let weight = Tensor::from_vec(columns, (d, vocab), &Device::Cpu)?.t()?.contiguous()?;
    Ok(Linear::Dense { weight, bias: None })
}

fn tensor(rows: Rows) -> Result<Tensor> {
    let (count, width) = (rows.len(), rows.width);
    Ok(Tensor::from_vec(rows.data, (count, width), &Device::Cpu)?)
}

fn log_softmax(logits: &Tensor) -> Result<Tensor> {
    let centred = logits.broadcast_sub(&logits.max_keepdim(1)?.detach())?;
    Ok(centred.broadcast_sub(&centred.exp()?.sum_keepdim(1)?.log()?)?)
}
