//! `demask bench pretrain`: how much of the machine's peak pre-training reaches: forward, backward and loss of parts of a
//! batch, as the training loop computes them.

use std::time::Instant;

use anyhow::Result;
use demask::counted;
use demask::kernels::meter;
use demask::model::{Packed, Spec};
use demask::plot::Mark;
use demask::train::compute::Compute;
use demask::train::pretrain::{BatchPart, Layout, Precision, step};

use super::measure::{Spread, alternate};
use super::model::{Canvas, Outline};
use super::peak::Peak;
use super::report::{Cell, Report};
use super::{Common, Threads};

/// Pre-training: tokens/s and share of the peak of forward and backward passes
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A config.json whose shape to use [default: the embedded model's]
    #[arg(long, value_name = "FILE")]
    config: Option<std::path::PathBuf>,
    /// Canvas lengths
    #[arg(long, value_name = "L,…", value_delimiter = ',', default_value = "48,96,192")]
    lengths: Vec<usize>,
    /// Round the factors of products to bf16, where the CPU multiplies those faster; shares stay those of the f32 peak
    #[arg(long)]
    bf16: bool,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    threads: Threads,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    args.threads.set()?;
    let spec = match &args.config {
        None => demask::engine::embedded::weights()?.0,
        Some(_) => {
            let shape = &demask::model::shapes::ALL[0];
            Outline { shape, config: args.config.clone(), layers: None }.spec(None)?
        }
    };
    let layout = Layout::new(&spec)?;
    let parameters = layout.initial(0);
    let precision = if args.bf16 { Precision::Bf16 } else { Precision::F32 };
    let mut gradient = step::gradient(&spec, &layout, &Compute::CPU, precision)?;
    // Two parts a batch, as lanes side by side take them.
    let parts: Vec<Vec<BatchPart>> =
        args.lengths.iter().map(|&length| vec![part(&spec, length, gradient.part_tokens()); 2]).collect();
    let mut into = vec![0.0; layout.len()];
    let before = Peak::measure();
    let samples = alternate(args.common.repeats, parts.len(), |index| {
        gradient.add_all(&parameters, &parts[index], &mut into)?;
        Ok(())
    })?;
    // What is inside products is seen one part at a time: side by side, their seconds would count twice.
    let mut work = vec![Vec::new(); parts.len()];
    for (batch, work) in parts.iter().zip(&mut work) {
        for _ in 0..args.common.repeats {
            let start = Instant::now();
            let (loss, seen) = meter(|| gradient.add(&parameters, &batch[0], &mut into));
            work.push((start.elapsed().as_secs_f64(), seen));
            loss?;
        }
    }
    let peak = before.or(Peak::measure());
    let mut report =
        Report::new("pretrain", &["L", "tokens", "ms", "tokens/s", "of f32 peak", "outside products"]);
    for ((part, samples), (length, work)) in parts.iter().zip(&samples).zip(args.lengths.iter().zip(work)) {
        let (wall, tokens) =
            (samples.wall(), part.iter().map(|part| part.packed.tokens.len()).sum::<usize>());
        let threads = rayon::current_num_threads() as f64;
        // A batch is as much work as its parts.
        let least = Spread::of(work.iter().map(|(_, seen)| peak.least(seen) * part.len() as f64)).median;
        let share = least / wall.median;
        let inside = Spread::of(work.iter().map(|(seconds, seen)| {
            let all = [seen.float, seen.quantized, seen.attention];
            all.iter().map(|counted| counted.thread_seconds).sum::<f64>() / (seconds * threads)
        }));
        report.chart.point("", Mark::Line, (*length as f64, share));
        report.rows.push(vec![
            Cell::Count(*length),
            Cell::Count(tokens),
            Cell::Spread(wall.times(1e3), 1),
            Cell::Spread(wall.rate(tokens as f64), 0),
            Cell::Share(share),
            Cell::Share(1.0 - inside.median),
        ]);
    }
    let sentence = format!("{}, d {}; without the optimiser", counted(spec.layers, "layer"), spec.hidden);
    report.note("layers", spec.layers as f64, sentence);
    peak.note(&mut report);
    report.chart.title = "pre-training: share of the peak".into();
    report.chart.x = "canvas length L".into();
    report.chart.y = "share".into();
    report.show(&args.common.output)
}

/// As many canvases as a part of a batch holds, half of each masked.
fn part(spec: &Spec, length: usize, tokens: usize) -> BatchPart {
    let length = length.max(2);
    let canvas = Canvas::new(spec, length, length / 2);
    let count = (tokens / length).max(1);
    let packed = Packed::new(std::iter::repeat_n(canvas.tokens.as_slice(), count), false);
    let rows: Vec<u32> = (0..count)
        .flat_map(|index| canvas.masked.iter().map(move |&at| (index * length) as u32 + at as u32))
        .collect();
    let (targets, weights) = (vec![0; rows.len()], vec![1.0 / rows.len() as f32; rows.len()]);
    BatchPart { packed, rows, targets, weights, certainty: None }
}
