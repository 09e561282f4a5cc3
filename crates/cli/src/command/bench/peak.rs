//! `demask bench peak`: what this machine can do at most, in registers alone.

use anyhow::Result;
use demask::kernels::{Meter, peak_fma, peak_four, peak_int8};
use demask::model::Precision;
use demask::plot::{Mark, Series};

use super::measure::Spread;
use super::report::{Cell, Report};
use super::{Common, Threads};

/// The peak of this machine: multiply-adds of f32, of bytes and of bytes with four bits
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    threads: Threads,
}

/// Operations a second of each kind: the best of some rounds, since a busy machine only slows down.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peak {
    pub(super) f32: f64,
    pub(super) int8: f64,
    pub(super) four: f64,
}

impl Peak {
    /// Measures for about a second.
    pub(super) fn measure() -> Self {
        let best = |measure: fn() -> f64| (0..4).map(|_| measure()).fold(0.0, f64::max);
        Self { f32: best(peak_fma), int8: best(peak_int8), four: best(peak_four) }
    }

    /// The better of two measurements of each kind.
    pub(super) fn or(self, other: Self) -> Self {
        let (f32, int8) = (self.f32.max(other.f32), self.int8.max(other.int8));
        Self { f32, int8, four: self.four.max(other.four) }
    }

    /// That of most products of a model of this precision.
    pub(super) fn of(self, precision: Precision) -> f64 {
        match precision {
            Precision::Float(_) => self.f32,
            Precision::Int8 { .. } => self.int8,
            Precision::Q4 { .. } => self.four,
        }
    }

    /// The least seconds that counted work could take; quantised weights count as bytes.
    pub(super) fn least(self, work: &Meter) -> f64 {
        (work.float.operations + work.attention.operations) / self.f32 + work.quantized.operations / self.int8
    }

    /// Says all of them under a table.
    pub(super) fn note(self, report: &mut Report) {
        for (name, peak) in [("f32", self.f32), ("int8", self.int8), ("q4", self.four)] {
            report.note(format!("peak_{name}"), peak, format!("peak {name} {:.1} G/s", peak / 1e9));
        }
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    args.threads.set()?;
    let mut report = Report::new("peak", &["operation", "G/s", "best"]);
    let mut bars = Vec::new();
    for (index, (name, measure)) in [
        ("f32 multiply-add", peak_fma as fn() -> f64),
        ("int8 multiply-add", peak_int8),
        ("q4 multiply-add", peak_four),
    ]
    .into_iter()
    .enumerate()
    {
        let rates: Vec<f64> = (0..args.common.repeats).map(|_| measure() / 1e9).collect();
        let best = rates.iter().copied().fold(0.0, f64::max);
        bars.push((index as f64, best));
        report.rows.push(vec![
            Cell::Text(name.into()),
            Cell::Spread(Spread::of(rates), 1),
            Cell::Number(best, 1),
        ]);
    }
    report.note(
        "int8_over_f32",
        bars[1].1 / bars[0].1,
        "a multiply-add counts two; int8 and q4 are measured with the exact products their kernels use"
            .into(),
    );
    report.chart.title = "peak of this machine".into();
    report.chart.x = "0: f32, 1: int8, 2: q4".into();
    report.chart.y = "G operations/s".into();
    report.chart.series.push(Series { label: String::new(), mark: Mark::Bars, points: bars });
    report.show(&args.common.output)
}
