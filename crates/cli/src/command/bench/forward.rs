//! `demask bench forward`: whole forward passes of a model of real shape, and where their time goes.

use std::sync::Arc;

use anyhow::Result;
use candle_core::{Device, Tensor};
use demask::counted;
use demask::kernels::Segment;
use demask::model::layer::{Attention, Linear, Mlp, RmsNorm, Rope};
use demask::model::synthetic::Repeated;
use demask::model::{Parameters as _, Precision, Spec};
use demask::plot::{Mark, Series};

use super::gemm::noise;
use super::measure::{Samples, alternate};
use super::model::{Canvas, ModelShape, operations, pass};
use super::peak::Peak;
use super::report::{Cell, Report};
use super::{Common, Threads};

/// Forward passes of a 7B-shaped model: tokens/s, share of the peak, time by phase
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    shape: ModelShape,
    /// Canvas lengths
    #[arg(long, value_name = "L,…", value_delimiter = ',', default_value = "64,128,256,512,1024,2048")]
    lengths: Vec<usize>,
    /// Share of the canvas that is masked and wants logits
    #[arg(long, default_value_t = 0.5, value_name = "SHARE")]
    masked: f64,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    threads: Threads,
}

const PHASES: [&str; 7] = ["norms", "qkv", "rope", "attention", "output", "mlp", "head"];

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    args.threads.set()?;
    if !(0.0..=1.0).contains(&args.masked) {
        usage!("--masked must be between 0 and 1");
    }
    let spec = args.shape.spec(Some(4))?;
    let precision = args.shape.precision();
    let model = args.shape.build(spec.clone())?;
    let parts = Parts::new(&spec, precision)?;
    let columns = ["L", "|M|", "tokens/s", "s", "of peak", "of peak by CPU time"];
    let mut report = Report::new("forward", &[&columns[..], &PHASES[..]].concat());
    let (mut points, mut peak) = (Vec::new(), Peak::measure());
    for &length in &args.lengths {
        let canvases =
            [Canvas::new(&spec, length, ((length as f64 * args.masked).round() as usize).clamp(1, length))];
        let rows = parts.rows(&spec, length)?;
        let wanted = parts.rows(&spec, (length as f64 * args.masked).round().max(1.0) as usize)?;
        let samples = alternate(args.common.repeats, 1 + PHASES.len(), |index| match index {
            0 => pass(&model, &canvases),
            phase => parts.run(phase - 1, if PHASES[phase - 1] == "head" { &wanted } else { &rows }),
        })?;
        let again = Peak::measure();
        peak = Peak { f32: peak.f32.max(again.f32), int8: peak.int8.max(again.int8) };
        let most = if matches!(precision, Precision::Int8 { .. }) { peak.int8 } else { peak.f32 };
        let (wall, cpu) = (samples[0].wall(), samples[0].cpu());
        let work = operations(&spec, &canvases);
        points.push((length as f64, length as f64 / wall.median));
        let mut row = vec![
            Cell::Count(length),
            Cell::Count((length as f64 * args.masked).round() as usize),
            Cell::Spread(wall.rate(length as f64), 1),
            Cell::Number(wall.median, 3),
            Cell::Share(work / wall.median / most),
            Cell::Share(work / cpu.median / most),
        ];
        row.extend(shares(&spec, &samples[1..]));
        report.rows.push(row);
    }
    report.note(
        "layers",
        spec.layers as f64,
        format!("{}, {:?}", counted(spec.layers, "layer"), args.shape.dtype),
    );
    report.note("peak_f32", peak.f32, format!("peak f32 {:.1} G/s", peak.f32 / 1e9));
    report.note("peak_int8", peak.int8, format!("peak int8 {:.1} G/s", peak.int8 / 1e9));
    report.chart.title = format!("forward pass, {} layers", spec.layers);
    report.chart.x = "canvas length L".into();
    report.chart.y = "tokens/s".into();
    report.chart.series.push(Series { label: String::new(), mark: Mark::Line, points });
    report.show(&args.common.output)
}

/// Each phase's share of their sum, over all layers and one head; every phase is timed alone.
fn shares(spec: &Spec, phases: &[Samples]) -> Vec<Cell> {
    let seconds: Vec<f64> = phases
        .iter()
        .zip(PHASES)
        .map(|(s, name)| s.cpu().median * if name == "head" { 1.0 } else { spec.layers as f64 })
        .collect();
    let sum: f64 = seconds.iter().sum();
    seconds.into_iter().map(|s| Cell::Share(s / sum)).collect()
}

/// The layers of one block, each to be run alone.
struct Parts {
    norm: RmsNorm,
    projections: [Linear; 3],
    rope: Rope,
    attention: Attention,
    output: Linear,
    mlp: Mlp,
    head: Linear,
}

/// Inputs of every phase for some rows.
struct Inputs {
    x: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    positions: Arc<[u32]>,
    segments: Arc<[Segment]>,
}

impl Parts {
    fn new(spec: &Spec, precision: Precision) -> Result<Self> {
        let (d, q, kv, ffn) = (spec.hidden, spec.q_width(), spec.kv_width(), spec.ffn);
        let mut from = Repeated::new(precision, 0);
        Ok(Self {
            norm: RmsNorm::new(from.vector("norm", d)?, spec.eps),
            projections: [
                from.linear("q_proj", [q, d], spec.qkv_bias)?,
                from.linear("k_proj", [kv, d], spec.qkv_bias)?,
                from.linear("v_proj", [kv, d], spec.qkv_bias)?,
            ],
            rope: Rope { head_dim: spec.head_dim, theta: spec.rope_theta },
            attention: Attention { heads: spec.heads, kv_heads: spec.kv_heads, head_dim: spec.head_dim },
            output: from.linear("o_proj", [d, q], false)?,
            mlp: Mlp {
                gate: from.linear("gate_proj", [ffn, d], false)?,
                up: from.linear("up_proj", [ffn, d], false)?,
                down: from.linear("down_proj", [d, ffn], false)?,
            },
            head: from.linear("lm_head", [spec.vocab, d], false)?,
        })
    }

    fn rows(&self, spec: &Spec, length: usize) -> Result<Inputs> {
        let tensor =
            |width: usize, seed| Tensor::from_vec(noise(length * width, seed), (length, width), &Device::Cpu);
        let rows = 0..length;
        Ok(Inputs {
            x: tensor(spec.hidden, 1)?,
            q: tensor(spec.q_width(), 2)?,
            k: tensor(spec.kv_width(), 3)?,
            v: tensor(spec.kv_width(), 4)?,
            positions: (0..length as u32).collect(),
            segments: Arc::new([Segment { q: rows.clone(), k: rows, causal_offset: None }]),
        })
    }

    fn run(&self, phase: usize, on: &Inputs) -> Result<()> {
        let out = match PHASES[phase] {
            "norms" => {
                self.norm.forward(&on.x)?;
                self.norm.forward(&on.x)?
            }
            "qkv" => {
                self.projections[0].forward(&on.x)?;
                self.projections[1].forward(&on.x)?;
                self.projections[2].forward(&on.x)?
            }
            "rope" => {
                self.rope.forward(&on.q, &on.positions)?;
                self.rope.forward(&on.k, &on.positions)?
            }
            "attention" => self.attention.forward(&on.q, &on.k, &on.v, &on.segments)?,
            "output" => self.output.forward(&on.q)?,
            "mlp" => self.mlp.forward(&on.x)?,
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
