//! `demask bench candle`: a step of a batch of canvases through the engine and through candle's own operations, in turn.
//!
//! The candle side is the plain way to write the model: canvases of one length as `[batch, length, ...]` tensors, every
//! row of every layer, attention with its whole matrix of scores, logits of the rows that predict masked positions. Both
//! sides must give the same logits before anything is timed.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use candle_core::{D, Device, Tensor};
use demask::counted;
use demask::model::checkpoint::{Dtype, Store};
use demask::model::config::Visibility;
use demask::model::layer::{Role, role};
use demask::model::{Backbone as _, LoadOptions, Parameter, Precision, Query, Spec, Transformer, arch};
use demask::plot::{Mark, Series};

use super::measure::{Spread, alternate, ratio};
use super::model::Canvas;
use super::report::{Cell, Report};
use super::{Common, Threads};

/// A step of a batch of canvases beside the same model in candle's own operations
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folder of a checkpoint [default: the embedded model]
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,
    /// Canvases per step
    #[arg(long, value_name = "B,…", value_delimiter = ',', default_value = "1,8,32")]
    batch: Vec<usize>,
    /// Canvas length
    #[arg(long, default_value_t = 96, value_name = "L", value_parser = clap::value_parser!(u16).range(2..=4096))]
    length: u16,
    /// Let both reuse freed memory, as demask does elsewhere; a program written with candle would not, unless told
    #[arg(long)]
    reuse_freed: bool,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    threads: Threads,
}

impl Args {
    pub(super) fn leaves_allocator(&self) -> bool {
        !self.reuse_freed
    }
}

/// Largest difference of two logits that is rounding.
const TOLERANCE: f32 = 2e-3;

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    args.threads.set()?;
    let (spec, store) = match &args.model {
        None => demask::engine::embedded::weights()?,
        Some(folder) => (Spec::from_folder(folder)?, Store::open(folder)?),
    };
    let engine = |precision| {
        let options = LoadOptions { dtype: Some(precision), ..LoadOptions::default() };
        Transformer::from_store(spec.clone(), &store, &options)
    };
    let exact = engine(Precision::Float(Dtype::F32))?;
    let bytes = engine(Precision::INT8)?;
    let plain = Plain::new(&spec, &store)?;
    let columns = ["canvases", "L", "engine", "ms", "times candle's speed"];
    let mut report = Report::new("candle", &columns);
    for &batch in &args.batch {
        let length = usize::from(args.length);
        let canvases = vec![Canvas::new(&spec, length, length / 2); batch.max(1)];
        let apart = furthest(&step(&exact, &canvases)?, &plain.step(&canvases)?);
        if apart.is_nan() || apart > TOLERANCE {
            bail!("the engine's logits and candle's differ by {apart:e}; one of them is wrong");
        }
        let samples = alternate(args.common.repeats, 3, |index| {
            std::hint::black_box(match index {
                0 => plain.step(&canvases)?,
                1 => step(&exact, &canvases)?,
                _ => step(&bytes, &canvases)?,
            });
            Ok(())
        })?;
        let mut points = Vec::new();
        for (index, (name, samples_of)) in
            ["candle f32", "demask f32", "demask int8"].into_iter().zip(&samples).enumerate()
        {
            let ratio: Spread = ratio(&samples[0], samples_of);
            points.push((index as f64, ratio.median));
            report.rows.push(vec![
                Cell::Count(canvases.len()),
                Cell::Count(length),
                name.into(),
                Cell::Spread(samples_of.wall().times(1e3), 2),
                Cell::Spread(ratio, 2),
            ]);
        }
        report.note(
            format!("ratio {batch}"),
            points[1].1,
            format!(
                "{}: {:.2} times candle's speed in f32, logits within {apart:.1e}",
                counted(batch, "canvas"),
                points[1].1
            ),
        );
        let label = counted(batch, "canvas");
        report.chart.series.push(Series { label, mark: Mark::Dots, points });
    }
    report.chart.title = "a step of a batch of canvases, speed over candle's".into();
    report.chart.x = "0: candle, 1: f32, 2: int8".into();
    report.chart.y = "ratio".into();
    report.show(&args.common.output)
}

/// Logits of the masked positions of all canvases, as the decoder asks for them.
fn step(backbone: &Transformer, canvases: &[Canvas]) -> Result<Vec<f32>> {
    let mut batch: Vec<Query<'_>> = canvases
        .iter()
        .map(|c| Query { tokens: &c.tokens, predict: &c.masked, ..Query::default() })
        .collect();
    let mut all = Vec::new();
    for pass in backbone.forward(&mut batch)? {
        backbone.logits(&pass.predicting, &mut |_, logits| all.extend_from_slice(logits))?;
    }
    Ok(all)
}

fn furthest(a: &[f32], b: &[f32]) -> f32 {
    if a.len() != b.len() {
        return f32::INFINITY;
    }
    a.iter()
        .zip(b)
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, |most, d| if d > most || d.is_nan() { d } else { most })
}

/// The model in candle's own operations.
struct Plain {
    spec: Spec,
    embed: Tensor,
    layers: Vec<Layer>,
    norm: Tensor,
    head: Tensor,
}

/// A weight already turned for `x · w`, and its bias.
type Map = (Tensor, Option<Tensor>);

struct Layer {
    attn_norm: Tensor,
    q: Map,
    k: Map,
    v: Map,
    o: Map,
    ffn_norm: Tensor,
    gate: Map,
    up: Map,
    down: Map,
}

impl Plain {
    fn new(spec: &Spec, store: &Store) -> Result<Self> {
        let plain = !spec.fused_qkv && !spec.qk_norm && spec.rotary == spec.head_dim;
        if !plain || spec.experts.is_some() || spec.attention != Visibility::Full {
            bail!(
                "the candle side is written for dense models with full attention; {} is another",
                spec.architecture
            );
        }
        let all = arch::parameters(spec)?;
        let find = |role, layer| {
            let found = all.iter().find(|p| p.role == role && p.layer == layer);
            found.with_context(|| format!("{} has no {role:?}", spec.architecture))
        };
        let head = find(if spec.tied { role::EMBED } else { role::HEAD }, None)?;
        Ok(Self {
            spec: spec.clone(),
            embed: tensor(store, &find(role::EMBED, None)?.tensor())?,
            layers: (0..spec.layers)
                .map(|i| Layer::new(&|role| find(role, Some(i)), store))
                .collect::<Result<_>>()?,
            norm: tensor(store, &find(role::NORM, None)?.tensor())?,
            head: map(store, &head.name)?.0,
        })
    }

    fn step(&self, canvases: &[Canvas]) -> Result<Vec<f32>> {
        let (batch, length) = (canvases.len(), canvases[0].len());
        let tokens: Vec<u32> = canvases.iter().flat_map(|c| c.tokens.iter().copied()).collect();
        let mut x = self.embed.index_select(&Tensor::new(tokens, &Device::Cpu)?, 0)?;
        let (cos, sin) = self.angles(length)?;
        for layer in &self.layers {
            let normed = norm(&x, &layer.attn_norm, self.spec.eps)?;
            let attended = self.attend(layer, &normed, (batch, length), &cos, &sin)?;
            x = (x + linear(&attended, &layer.o)?)?;
            let normed = norm(&x, &layer.ffn_norm, self.spec.eps)?;
            let inner = (linear(&normed, &layer.gate)?.silu()? * linear(&normed, &layer.up)?)?;
            x = (x + linear(&inner, &layer.down)?)?;
        }
        let rows: Vec<u32> = canvases
            .iter()
            .enumerate()
            .flat_map(|(i, c)| {
                c.masked.iter().map(move |&p| (i * length + self.spec.predicting_row(p)) as u32)
            })
            .collect();
        let x = norm(&x.index_select(&Tensor::new(rows, &Device::Cpu)?, 0)?, &self.norm, self.spec.eps)?;
        Ok(x.matmul(&self.head)?.flatten_all()?.to_vec1()?)
    }

    fn attend(
        &self,
        layer: &Layer,
        x: &Tensor,
        (batch, length): (usize, usize),
        cos: &Tensor,
        sin: &Tensor,
    ) -> Result<Tensor> {
        let (heads, kv, dim) = (self.spec.heads, self.spec.kv_heads, self.spec.head_dim);
        let split =
            |x: Tensor, heads: usize| x.reshape((batch, length, heads, dim))?.transpose(1, 2)?.contiguous();
        let q = rotate(&split(linear(x, &layer.q)?, heads)?, cos, sin)?;
        let k = rotate(&split(linear(x, &layer.k)?, kv)?, cos, sin)?;
        let v = split(linear(x, &layer.v)?, kv)?;
        // Queries of the heads that share keys lie one after another, so the keys need not be repeated.
        let q = q.reshape((batch * kv, heads / kv * length, dim))?;
        let (k, v) = (k.reshape((batch * kv, length, dim))?, v.reshape((batch * kv, length, dim))?);
        let scores = (q.matmul(&k.t()?)? * (1.0 / (dim as f64).sqrt()))?;
        let shifted = scores.broadcast_sub(&scores.max_keepdim(D::Minus1)?)?.exp()?;
        let weights = shifted.broadcast_div(&shifted.sum_keepdim(D::Minus1)?)?;
        let out = weights.matmul(&v)?.reshape((batch, heads, length, dim))?;
        Ok(out.transpose(1, 2)?.reshape((batch * length, heads * dim))?)
    }

    /// Cosines and sines `[length, dim / 2]`.
    fn angles(&self, length: usize) -> Result<(Tensor, Tensor)> {
        let half = self.spec.head_dim / 2;
        let frequency = |i: usize| self.spec.rope_theta.powf(-(i as f64) / half as f64);
        let angles: Vec<f32> =
            (0..length).flat_map(|p| (0..half).map(move |i| (p as f64 * frequency(i)) as f32)).collect();
        let angles = Tensor::from_vec(angles, (length, half), &Device::Cpu)?;
        Ok((angles.cos()?, angles.sin()?))
    }
}

impl Layer {
    fn new<'p>(find: &dyn Fn(Role) -> Result<&'p Parameter>, store: &Store) -> Result<Self> {
        let get = |role| map(store, &find(role)?.name);
        let vector = |role| tensor(store, &find(role)?.tensor());
        Ok(Self {
            attn_norm: vector(role::ATTN_NORM)?,
            q: get(role::Q)?,
            k: get(role::K)?,
            v: get(role::V)?,
            o: get(role::O)?,
            ffn_norm: vector(role::FFN_NORM)?,
            gate: get(role::GATE)?,
            up: get(role::UP)?,
            down: get(role::DOWN)?,
        })
    }
}

fn tensor(store: &Store, name: &str) -> Result<Tensor> {
    let mapped = store.tensor(name)?;
    Ok(Tensor::from_vec(mapped.to_f32(), mapped.shape(), &Device::Cpu)?)
}

fn map(store: &Store, name: &str) -> Result<Map> {
    let bias = format!("{name}.bias");
    let bias = if store.contains(&bias) { Some(tensor(store, &bias)?) } else { None };
    Ok((tensor(store, &format!("{name}.weight"))?.t()?.contiguous()?, bias))
}

fn linear(x: &Tensor, (weight, bias): &Map) -> Result<Tensor> {
    let y = x.matmul(weight)?;
    Ok(match bias {
        Some(bias) => y.broadcast_add(bias)?,
        None => y,
    })
}

fn norm(x: &Tensor, weight: &Tensor, eps: f32) -> Result<Tensor> {
    let variance = (x.sqr()?.mean_keepdim(D::Minus1)? + f64::from(eps))?;
    Ok(x.broadcast_div(&variance.sqrt()?)?.broadcast_mul(weight)?)
}

/// Rotates the halves of each head of `[batch, heads, length, dim]`.
fn rotate(x: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
    let half = x.dim(D::Minus1)? / 2;
    let (a, b) = (x.narrow(D::Minus1, 0, half)?, x.narrow(D::Minus1, half, half)?);
    let first = (a.broadcast_mul(cos)? - b.broadcast_mul(sin)?)?;
    let second = (b.broadcast_mul(cos)? + a.broadcast_mul(sin)?)?;
    Ok(Tensor::cat(&[first, second], D::Minus1)?)
}
