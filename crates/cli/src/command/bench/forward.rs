//! `demask bench forward`: whole forward passes of a model of real shape, what they read, and where their time goes.

use anyhow::Result;
use demask::counted;
use demask::model::Spec;
use demask::plot::Mark;

use super::limit::Machine;
use super::measure::{Samples, alternate, ratio};
use super::model::{Canvas, Outline, operations, pass};
use super::parts::{Inputs, PHASES};
use super::report::{Cell, Report};
use super::subject::Subject;
use super::touched::Touched;
use super::{Common, Threads};
use crate::args::DtypeArg;

/// Forward passes of a 7B-shaped model: tokens/s, share of the peak, time by phase
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    outline: Outline,
    /// Precisions of the weights, the first being what `over` refers to; they take turns
    #[arg(long, value_enum, value_delimiter = ',', default_value = "int8")]
    dtype: Vec<DtypeArg>,
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

const COLUMNS: [&str; 10] = [
    "L",
    "|M|",
    "weights",
    "tokens/s",
    "s",
    "over",
    "of peak",
    "of peak by CPU time",
    "experts read",
    "of bandwidth",
];
/// What is timed of a precision: a pass and each phase.
const TIMED: usize = 1 + PHASES.len();

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    args.threads.set()?;
    if !(0.0..=1.0).contains(&args.masked) {
        usage!("--masked must be between 0 and 1");
    }
    let spec = args.outline.spec(Some(4))?;
    let subjects = Subject::all(&spec, &args.dtype)?;
    let mut report = Report::new("forward", &[&COLUMNS[..], &PHASES[..]].concat());
    let mut machine = Machine::measure();
    let mut measured = Vec::new();
    for &length in &args.lengths {
        let masked = ((length as f64 * args.masked).round() as usize).clamp(1, length.max(1));
        let canvases = [Canvas::new(&spec, length, masked)];
        let inputs = [Inputs::new(&spec, length, length)?, Inputs::new(&spec, masked, masked)?];
        let samples = alternate(args.common.repeats, TIMED * subjects.len(), |index| {
            subjects[index / TIMED].run(index % TIMED, &canvases, &inputs)
        })?;
        machine = machine.or(Machine::measure());
        measured.push((canvases, samples));
    }
    for (canvases, samples) in &measured {
        for (subject, own) in subjects.iter().zip(samples.chunks_exact(TIMED)) {
            let row = subject.row(&spec, canvases, own, &samples[0], machine)?;
            let point = (canvases[0].len() as f64, canvases[0].len() as f64 / own[0].wall().median);
            report.chart.point(&subject.name, Mark::Line, point);
            report.rows.push(row);
        }
    }
    report.note("layers", spec.layers as f64, counted(spec.layers, "layer"));
    machine.note(&mut report);
    report.chart.title = format!("forward pass, {}", counted(spec.layers, "layer"));
    report.chart.x = "canvas length L".into();
    report.chart.y = "tokens/s".into();
    report.show(&args.common.output)
}

impl Subject {
    /// The pass, or a phase with all rows (the head with those wanted).
    fn run(&self, index: usize, canvases: &[Canvas], [all, wanted]: &[Inputs; 2]) -> Result<()> {
        match index.checked_sub(1) {
            None => pass(&self.model, canvases),
            Some(phase) => self.parts.run(phase, if PHASES[phase] == "head" { wanted } else { all }),
        }
    }

    fn row(
        &self,
        spec: &Spec,
        canvases: &[Canvas],
        samples: &[Samples],
        first: &Samples,
        machine: Machine,
    ) -> Result<Vec<Cell>> {
        let (wall, cpu, most) = (samples[0].wall(), samples[0].cpu(), machine.peak.of(self.precision));
        let work = operations(spec, canvases);
        let touched = Touched::by(&self.model, canvases)?;
        let mut row = vec![
            Cell::Count(canvases[0].len()),
            Cell::Count(canvases[0].masked.len()),
            Cell::Text(self.name.clone()),
            Cell::Spread(wall.rate(canvases[0].len() as f64), 1),
            Cell::Number(wall.median, 3),
            Cell::Spread(ratio(first, &samples[0]), 2),
            Cell::Share(work / wall.median / most),
            Cell::Share(work / cpu.median / most),
            Cell::Text(experts(spec, touched.count())),
            Cell::Share(touched.bytes(spec, self.precision)? / wall.median / machine.bandwidth),
        ];
        row.extend(shares(spec, &samples[1..]));
        Ok(row)
    }
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
