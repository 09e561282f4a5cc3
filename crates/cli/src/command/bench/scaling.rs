//! `demask bench scaling`: how the cost of a step grows with the canvas, the masked positions, the batch and the threads,
//! and how much of it is spent outside products.

use std::cell::RefCell;
use std::time::Instant;

use anyhow::{Context as _, Result};
use demask::counted;
use demask::decode::registry::Context;
use demask::decode::responses::first_step;
use demask::decode::{EosPolicy, Options};
use demask::kernels::{Meter, meter};
use demask::model::{Backbone, LoadOptions, Spec, Transformer};
use demask::plot::Mark;

use super::Common;
use super::measure::alternate;
use super::model::{Canvas, ModelShape};
use super::report::{Cell, Report};

/// Cost of a step by canvas length, masked positions, batch and threads; share outside products
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    shape: ModelShape,
    /// The embedded model instead of a large one with random weights
    #[arg(long, conflicts_with_all = ["shape", "config", "layers"])]
    embedded: bool,
    /// Canvas lengths [default: 32, 64, 128, 256; 24, 48, 96 of the embedded model]
    #[arg(long, value_name = "L,…", value_delimiter = ',')]
    lengths: Vec<usize>,
    /// Masked positions, in a canvas of the longest length
    #[arg(long, value_name = "|M|,…", value_delimiter = ',', default_value = "1,16,64,256")]
    masked: Vec<usize>,
    /// Canvases per step, of the shortest length [default: 1, 2, 4, 8; 1, 8, 64 of the longest of the embedded model]
    #[arg(long, value_name = "B,…", value_delimiter = ',')]
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

impl Case {
    fn tokens(&self) -> f64 {
        self.canvases.iter().map(Canvas::len).sum::<usize>() as f64
    }
}

/// Thread-seconds of a case, of all its rounds together.
#[derive(Debug, Clone, Copy, Default)]
struct Spent {
    all: f64,
    products: f64,
    attention: f64,
}

impl Spent {
    fn add(&mut self, seconds: f64, seen: Meter) {
        self.all += seconds;
        self.products += seen.float.thread_seconds + seen.quantized.thread_seconds;
        self.attention += seen.attention.thread_seconds;
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let model = if args.embedded {
        let (spec, store) = demask::engine::embedded::weights()?;
        let options = LoadOptions { dtype: Some(args.shape.precision()), ..LoadOptions::default() };
        Transformer::from_store(spec, &store, &options)?
    } else {
        args.shape.build(args.shape.spec(Some(2))?)?
    };
    let spec = model.spec().clone();
    let cases = cases(args, &spec);
    let pools = cases
        .iter()
        .map(|case| rayon::ThreadPoolBuilder::new().num_threads(case.threads).build())
        .collect::<Result<Vec<_>, _>>()
        .context("cannot start so many threads")?;
    let spent = RefCell::new(vec![Spent::default(); cases.len()]);
    let samples = alternate(args.common.repeats, cases.len(), |index| {
        let start = Instant::now();
        let (done, seen) = meter(|| pools[index].install(|| step(&model, &cases[index].canvases)));
        let seconds = start.elapsed().as_secs_f64() * cases[index].threads as f64;
        spent.borrow_mut()[index].add(seconds, seen);
        done
    })?;
    let columns = ["axis", "value", "ms", "tokens/s", "of ideal", "products", "attention", "outside both"];
    let mut report = Report::new("scaling", &columns);
    for ((case, samples), spent) in cases.iter().zip(&samples).zip(spent.take()) {
        let wall = samples.wall();
        let rate = case.tokens() / wall.median;
        let (products, attention) = (spent.products / spent.all, spent.attention / spent.all);
        let mut row = vec![
            Cell::Text(case.axis.into()),
            Cell::Count(case.value),
            Cell::Spread(wall.times(1e3), 2),
            Cell::Spread(wall.rate(case.tokens()), 1),
            Cell::Text("–".into()),
        ];
        // Products that run side by side count for all threads each: more than all time says nothing about shares.
        if products + attention > 1.0 {
            row.extend(["–"; 3].map(|none| Cell::Text(none.into())));
        } else {
            row.extend([products, attention, 1.0 - products - attention].map(Cell::Share));
        }
        report.rows.push(row);
        report.chart.point(case.axis, Mark::Line, (case.value as f64, rate));
    }
    ideal(&cases, &samples.iter().map(|s| s.wall().median).collect::<Vec<_>>(), &mut report);
    let sentence = format!(
        "{}, d {}; a step of decoding, half of the canvas masked; ideal: as many times the fewest threads' speed as there \
         are more threads; –: products ran side by side, so that their shares cannot be told",
        counted(spec.layers, "layer"),
        spec.hidden
    );
    report.note("layers", spec.layers as f64, sentence);
    report.chart.title = "tokens through the model per second".into();
    report.chart.x = "value of the axis".into();
    report.chart.y = "tokens/s".into();
    report.show(&args.common.output)
}

/// Fills in the fraction of ideal of the threads.
fn ideal(cases: &[Case], seconds: &[f64], report: &mut Report) {
    let of = |index: &usize| cases[*index].axis == "threads";
    let threads: Vec<usize> = (0..cases.len()).filter(of).collect();
    let Some(&fewest) = threads.iter().min_by_key(|&&index| cases[index].threads) else { return };
    for index in threads {
        let more = cases[index].threads as f64 / cases[fewest].threads as f64;
        report.rows[index][4] = Cell::Share(seconds[fewest] / seconds[index] / more);
    }
}

fn cases(args: &Args, spec: &Spec) -> Vec<Case> {
    let or = |given: &[usize], large: &[usize], embedded: &[usize]| -> Vec<usize> {
        let usual = if args.embedded { embedded } else { large };
        if given.is_empty() { usual.to_vec() } else { given.to_vec() }
    };
    let cores = rayon::current_num_threads();
    let lengths = or(&args.lengths, &[32, 64, 128, 256], &[24, 48, 96]);
    let longest = lengths.iter().copied().max().unwrap_or(2).max(2);
    let shortest = lengths.iter().copied().min().unwrap_or(2).max(2);
    // A canvas begins with a token of the prompt.
    let canvas = |length: usize, masked: usize| {
        let length = length.max(2);
        Canvas::new(spec, length, masked.clamp(1, length - 1))
    };
    let mut cases: Vec<Case> = Vec::new();
    let mut add = |axis, value, canvases, threads| cases.push(Case { axis, value, canvases, threads });
    for length in lengths {
        add("L", length, vec![canvas(length, length / 2)], cores);
    }
    for &masked in args.masked.iter().filter(|&&m| m < longest) {
        add("|M|", masked, vec![canvas(longest, masked)], cores);
    }
    let length = if args.embedded { longest } else { shortest };
    for batch in or(&args.batch, &[1, 2, 4, 8], &[1, 8, 64]) {
        add("batch", batch, vec![canvas(length, length / 2); batch.max(1)], cores);
    }
    let powers: Vec<usize> =
        std::iter::successors(Some(1), |t| Some(t * 2)).take_while(|&t| t <= cores).collect();
    for threads in or(&args.threads, &powers, &powers) {
        add("threads", threads, vec![canvas(longest, longest / 2)], threads.max(1));
    }
    cases
}

/// One step of decoding of all canvases, which are new every time.
fn step(backbone: &dyn Backbone, canvases: &[Canvas]) -> Result<()> {
    let mask = backbone.spec().ids.mask;
    let prompts: Vec<Vec<u32>> = canvases
        .iter()
        .map(|canvas| {
            let given = &canvas.tokens[..canvas.len() - canvas.masked.len()];
            given.iter().map(|&token| if token == mask { 0 } else { token }).collect()
        })
        .collect();
    let asked: Vec<(&[u32], usize)> = prompts
        .iter()
        .zip(canvases)
        .map(|(prompt, canvas)| (prompt.as_slice(), canvas.masked.len()))
        .collect();
    let options = Options { eos: EosPolicy::None, ..Options::default() };
    Ok(first_step(backbone, &asked, &"entropy".parse()?, &Context::default(), &options)?)
}
