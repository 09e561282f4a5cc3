//! `demask bench step`: one step of decoding with a cache, where a few rows are computed and see many kept ones: how near it
//! is to what the machine allows, and what each part of it takes.

use anyhow::{Result, anyhow};
use demask::counted;
use demask::decode::dependency::{Metadata, Mix, Predictor};
use demask::decode::marginals::{Predicting, Reader};
use demask::decode::rng::Rng;
use demask::decode::rule::greedy_subset;
use demask::decode::sampler::{Sampling, ScoreDtype};
use demask::decode::{Suppression, dependency::Dependency};
use demask::model::{Backbone as _, HiddenRow, KvCache, Query, Reuse, Rows, Spec, Transformer};
use demask::plot::Mark;

use super::gemm::noise;
use super::limit::Machine;
use super::measure::{Samples, alternate, ratio};
use super::model::{Canvas, Outline};
use super::parts::{Inputs, PHASES};
use super::predictor::ALL;
use super::report::{Cell, Report};
use super::subject::Subject;
use super::{Common, Threads};
use crate::args::DtypeArg;

/// A step of decoding with a cache: share of what the machine allows, time by part
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    outline: Outline,
    /// Precisions of the weights, the first being what `over` refers to; they take turns
    #[arg(long, value_enum, value_delimiter = ',', default_value = "int8,q4")]
    dtype: Vec<DtypeArg>,
    /// Rows that are computed, all masked
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "16,32,64")]
    rows: Vec<usize>,
    /// Tokens of the canvas: the rows that are computed come last, the others are kept
    #[arg(long, default_value_t = 512, value_name = "L")]
    length: usize,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    threads: Threads,
}

const COLUMNS: [&str; 6] = ["rows", "weights", "ms", "over", "of limit", "of limit by CPU time"];
/// What a step does after its pass and its logits.
const AFTER: [&str; 3] = ["marginals", "predictor", "selection"];
/// What is timed of a precision: a whole step, each phase of its pass and what comes after it.
const TIMED: usize = 1 + PHASES.len() + AFTER.len();

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    args.threads.set()?;
    if let Some(&rows) = args.rows.iter().find(|&&rows| rows < 2 || rows > args.length) {
        usage!("--rows {rows} must be at least 2 and no more than --length {}", args.length);
    }
    let spec = args.outline.spec(None)?;
    let mut cached: Vec<Cached> = Subject::all(&spec, &args.dtype)?.into_iter().map(Cached::new).collect();
    let mut machine = Machine::measure();
    let mut measured = Vec::new();
    for &rows in &args.rows {
        let canvas = Canvas::new(&spec, args.length, rows);
        cached.iter_mut().try_for_each(|one| one.keep(&canvas))?;
        let inputs = Inputs::new(&spec, rows, args.length)?;
        let after = After::new(&spec, rows)?;
        let samples = alternate(args.common.repeats, TIMED * cached.len(), |index| {
            cached[index / TIMED].run(index % TIMED, &canvas, &inputs, &after)
        })?;
        machine = machine.or(Machine::measure());
        measured.push((rows, samples));
    }
    let mut report = Report::new("step", &[&COLUMNS[..], &PHASES[..], &AFTER[..], &["rest"]].concat());
    for (rows, samples) in &measured {
        for (Cached { subject, .. }, own) in cached.iter().zip(samples.chunks_exact(TIMED)) {
            let limit = machine.step(&spec, subject.precision, *rows, args.length)?;
            let step = own[0].cpu().median;
            report.chart.point(&subject.name, Mark::Line, (*rows as f64, limit / step));
            report.rows.push(row(&spec, subject, *rows, own, &samples[0], limit));
        }
    }
    let sentence = format!(
        "{}, canvas of {}; the limit is that of the products and of attention: the longer of arithmetic and memory",
        counted(spec.layers, "layer"),
        args.length
    );
    report.note("layers", spec.layers as f64, sentence);
    machine.note(&mut report);
    report.chart.title = "a step with a cache: share of the limit, by CPU time".into();
    report.chart.x = "rows computed".into();
    report.chart.y = "share".into();
    report.show(&args.common.output)
}

fn row(
    spec: &Spec,
    subject: &Subject,
    rows: usize,
    samples: &[Samples],
    first: &Samples,
    limit: f64,
) -> Vec<Cell> {
    let (wall, cpu) = (samples[0].wall(), samples[0].cpu());
    let mut row = vec![
        Cell::Count(rows),
        Cell::Text(subject.name.clone()),
        Cell::Spread(wall.times(1e3), 1),
        Cell::Spread(ratio(first, &samples[0]), 2),
        Cell::Share(limit / wall.median),
        Cell::Share(limit / cpu.median),
    ];
    // Every part is timed alone; what they do not add up to is the rest.
    let shares: Vec<f64> = samples[1..]
        .iter()
        .zip(PHASES.iter().chain(&AFTER))
        .map(|(part, &name)| {
            let inside = PHASES.contains(&name) && name != "head";
            ratio(part, &samples[0]).median * if inside { spec.layers as f64 } else { 1.0 }
        })
        .collect();
    let rest = 1.0 - shares.iter().sum::<f64>();
    row.extend(shares.into_iter().chain([rest]).map(Cell::Share));
    row
}

/// A model with the keys and values it keeps.
struct Cached {
    subject: Subject,
    cache: KvCache,
}

impl Cached {
    fn new(subject: Subject) -> Self {
        Self { subject, cache: KvCache::new() }
    }

    /// Computes every row once, so that the next pass can keep most of them.
    fn keep(&mut self, canvas: &Canvas) -> Result<()> {
        if !self.cache.holds(canvas.len()) {
            let rows: Vec<usize> = (0..canvas.len()).collect();
            let cache = Some(Reuse { cache: &mut self.cache, rows: &rows });
            self.subject.model.forward(&mut [Query { tokens: &canvas.tokens, cache, ..Query::default() }])?;
        }
        Ok(())
    }

    fn run(&mut self, index: usize, canvas: &Canvas, inputs: &Inputs, after: &After) -> Result<()> {
        match index.checked_sub(1) {
            None => self.step(canvas, after),
            Some(phase) if phase < PHASES.len() => self.subject.parts.run(phase, inputs),
            Some(later) => after.run(AFTER[later - PHASES.len()], &self.subject.model),
        }
    }

    /// A whole step, as `Decoder::step` makes it: pass, marginals as logits stream by, dependency, selection.
    fn step(&mut self, canvas: &Canvas, after: &After) -> Result<()> {
        let (model, fresh) = (&self.subject.model, &canvas.masked);
        // Where a row predicts the next position, the first of them is predicted by one that is kept.
        let wanted: Vec<usize> = fresh
            .iter()
            .copied()
            .filter(|&position| model.spec().predicting_row(position) >= fresh[0])
            .collect();
        let cache = Some(Reuse { cache: &mut self.cache, rows: fresh });
        let query = Query {
            tokens: &canvas.tokens,
            predict: &wanted,
            hidden: Some((&wanted, HiddenRow::I)),
            cache,
            ..Query::default()
        };
        let pass = model.forward(&mut [query])?.remove(0);
        let marginals =
            after.reader().read(model, Predicting::Host(&pass.predicting), None, &wanted, |_| ())?;
        let confidence: Vec<f32> = marginals.iter().map(|m| m.raw.top1).collect();
        let hidden = pass.hidden.ok_or_else(|| anyhow!("the pass gave no hidden rows"))?;
        let chosen = greedy_subset(&after.predictor.predict(&hidden, &[])?, &confidence, ALL).chosen;
        std::hint::black_box(chosen);
        Ok(())
    }
}

/// What a step does after its pass, and inputs to do it alone.
struct After {
    predictor: Predictor,
    hidden: Rows,
    dependency: Dependency,
    logits: std::cell::RefCell<Vec<f32>>,
    positions: Vec<usize>,
    sampling: Sampling,
    suppression: Suppression,
}

impl After {
    fn new(spec: &Spec, rows: usize) -> Result<Self> {
        let d = spec.hidden;
        let weight = noise(d * d, 3).into_iter().map(|w| w / d as f32).collect();
        let predictor = Predictor::from_merged(d, vec![weight], Mix::Mean, Metadata::new(HiddenRow::I))?;
        let hidden = Rows { data: noise(rows * d, 4), width: d };
        Ok(Self {
            dependency: predictor.predict(&hidden, &[])?,
            predictor,
            hidden,
            logits: noise(rows * spec.vocab, 5).into(),
            positions: (0..rows).collect(),
            sampling: Sampling::default(),
            suppression: Suppression { ids: vec![spec.ids.mask], ..Suppression::default() },
        })
    }

    fn reader(&self) -> Reader<'_> {
        Reader {
            sampling: &self.sampling,
            dtype: ScoreDtype::F32,
            suppression: &self.suppression,
            rng: Rng::new(0, 0),
            step: 0,
            guide: None,
        }
    }

    fn run(&self, part: &str, model: &Transformer) -> Result<()> {
        match part {
            "marginals" => {
                let (mut logits, rows) = (self.logits.borrow_mut(), Rows::default());
                let rows = Predicting::Host(&rows);
                let read = self.reader().read(model, rows, Some(&mut logits), &self.positions, |_| ())?;
                std::hint::black_box(read);
            }
            "predictor" => drop(std::hint::black_box(self.predictor.predict(&self.hidden, &[])?)),
            _ => {
                let confidence = vec![1.0; self.positions.len()];
                std::hint::black_box(greedy_subset(&self.dependency, &confidence, ALL));
            }
        }
        Ok(())
    }
}
