//! `demask bench forward`: whole forward passes of a model of real shape, what they read, and where their time goes.

use std::sync::Arc;

use anyhow::Result;
use candle_core::{Device, Tensor};
use demask::counted;
use demask::kernels::Segment;
use demask::model::layer::{Attention, Block, Embedding, Linear, Place};
use demask::model::synthetic::Repeated;
use demask::model::{Parameters as _, Precision, Spec, arch};
use demask::plot::{Mark, Series};

use super::gemm::noise;
use super::measure::{Samples, alternate};
use super::model::{Canvas, ModelShape, operations, pass};
use super::peak::Peak;
use super::report::{Cell, Report};
use super::touched::{self, Touched};
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

const PHASES: [&str; 6] = ["norm", "qkv", "attention", "output", "mlp", "head"];

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
    let columns =
        ["L", "|M|", "tokens/s", "s", "of peak", "of peak by CPU time", "experts read", "of bandwidth"];
    let bandwidth = touched::bandwidth();
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
        peak = peak.or(Peak::measure());
        let most = peak.of(precision);
        let (wall, cpu) = (samples[0].wall(), samples[0].cpu());
        let work = operations(&spec, &canvases);
        let touched = Touched::by(&model, &canvases)?;
        points.push((length as f64, length as f64 / wall.median));
        let mut row = vec![
            Cell::Count(length),
            Cell::Count((length as f64 * args.masked).round() as usize),
            Cell::Spread(wall.rate(length as f64), 1),
            Cell::Number(wall.median, 3),
            Cell::Share(work / wall.median / most),
            Cell::Share(work / cpu.median / most),
            Cell::Text(experts(&spec, touched.count())),
            Cell::Share(touched.bytes(&spec, precision)? / wall.median / bandwidth),
        ];
        row.extend(shares(&spec, &samples[1..]));
        report.rows.push(row);
    }
    report.note(
        "layers",
        spec.layers as f64,
        format!("{}, {:?}", counted(spec.layers, "layer"), args.shape.dtype),
    );
    peak.note(&mut report);
    report.note("bandwidth", bandwidth, format!("memory {:.1} GB/s read", bandwidth / 1e9));
    report.chart.title = format!("forward pass, {} layers", spec.layers);
    report.chart.x = "canvas length L".into();
    report.chart.y = "tokens/s".into();
    report.chart.series.push(Series { label: String::new(), mark: Mark::Line, points });
    report.show(&args.common.output)
}

/// How many experts a pass read, of all.
fn experts(spec: &Spec, read: usize) -> String {
    match &spec.experts {
        None => "–".into(),
        Some(e) => format!("{read} of {}", e.count * e.layers.iter().filter(|has| **has).count()),
    }
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
    block: Block,
    layer: usize,
    attention: Attention,
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
        // The last layer is of the kind that most are.
        let (names, layer) = (arch::of(spec)?.names, spec.layers - 1);
        let mut from = Repeated::new(precision, 0);
        Ok(Self {
            block: Block::load(spec, layer, &Place { names, layer: Some(layer) }, &mut from)?,
            layer,
            attention: Attention { heads: spec.heads, kv_heads: spec.kv_heads, head_dim: spec.head_dim },
            head: from.linear(&Embedding::head(spec, &Place { names, layer: None })?)?,
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
            "norm" => self.block.attn_norm.forward(&on.x)?,
            "qkv" => {
                let [q, _, _] = self.block.projections.all(&on.x, &on.positions)?;
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
