//! `demask bench scaling`: how the cost of a step grows with the canvas, the masked positions, the batch and the threads.

use anyhow::Result;
use demask::plot::{Mark, Series};

use super::Common;
use super::measure::alternate;
use super::model::{Canvas, ModelShape, pass};
use super::report::{Cell, Report};

/// Cost of a pass by canvas length, masked positions, batch and threads
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    shape: ModelShape,
    /// Canvas lengths
    #[arg(long, value_name = "L,…", value_delimiter = ',', default_value = "32,64,128,256")]
    lengths: Vec<usize>,
    /// Masked positions, in a canvas of the longest length
    #[arg(long, value_name = "|M|,…", value_delimiter = ',', default_value = "1,16,64,256")]
    masked: Vec<usize>,
    /// Canvases per pass, of the shortest length
    #[arg(long, value_name = "B,…", value_delimiter = ',', default_value = "1,2,4,8")]
    batch: Vec<usize>,
    /// Threads, with a canvas of the longest length [default: 1, 2, 4, … up to the cores]
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    threads: Vec<usize>,
    #[command(flatten)]
    common: Common,
}

struct Case {
    axis: &'static str,
    value: usize,
    canvases: Vec<Canvas>,
    threads: usize,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let spec = args.shape.spec(Some(2))?;
    let cores = rayon::current_num_threads();
    let longest = args.lengths.iter().copied().max().unwrap_or(256).max(1);
    let shortest = args.lengths.iter().copied().min().unwrap_or(32).max(1);
    let canvas = |length: usize, masked: usize| Canvas::new(&spec, length.max(1), masked.max(1));
    let mut cases: Vec<Case> = Vec::new();
    let mut add = |axis, value, canvases, threads| cases.push(Case { axis, value, canvases, threads });
    for &length in &args.lengths {
        add("L", length, vec![canvas(length, length / 2)], cores);
    }
    for &masked in args.masked.iter().filter(|&&m| m <= longest) {
        add("|M|", masked, vec![canvas(longest, masked)], cores);
    }
    for &batch in &args.batch {
        add("batch", batch, vec![canvas(shortest, shortest / 2); batch.max(1)], cores);
    }
    let powers = std::iter::successors(Some(1), |t| Some(t * 2)).take_while(|&t| t <= cores);
    let threads = if args.threads.is_empty() { powers.collect() } else { args.threads.clone() };
    for threads in threads {
        add("threads", threads, vec![canvas(longest, longest / 2)], threads.max(1));
    }
    let model = args.shape.build(spec.clone())?;
    let pools = cases
        .iter()
        .map(|case| rayon::ThreadPoolBuilder::new().num_threads(case.threads).build())
        .collect::<Result<Vec<_>, _>>()?;
    let samples = alternate(args.common.repeats, cases.len(), |index| {
        pools[index].install(|| pass(&model, &cases[index].canvases))
    })?;
    let mut report = Report::new("scaling", &["axis", "value", "s", "tokens/s"]);
    for (case, samples) in cases.iter().zip(&samples) {
        let tokens: usize = case.canvases.iter().map(Canvas::len).sum();
        let wall = samples.wall();
        report.rows.push(vec![
            Cell::Text(case.axis.into()),
            Cell::Count(case.value),
            Cell::Spread(wall, 3),
            Cell::Spread(wall.rate(tokens as f64), 1),
        ]);
        let point = (case.value as f64, tokens as f64 / wall.median);
        match report.chart.series.iter_mut().find(|s| s.label == case.axis) {
            Some(series) => series.points.push(point),
            None => report.chart.series.push(Series {
                label: case.axis.into(),
                mark: Mark::Line,
                points: vec![point],
            }),
        }
    }
    report.note(
        "layers",
        spec.layers as f64,
        format!(
            "{} layers; |M| and threads at L = {longest}, batch at L = {shortest}, half of the canvas masked",
            spec.layers
        ),
    );
    report.chart.title = "tokens through the model per second".into();
    report.chart.x = "value of the axis".into();
    report.chart.y = "tokens/s".into();
    report.show(&args.common.output)
}
