//! `demask bench bandwidth`: how fast weights can be read from memory, which bounds products of few rows.

use anyhow::Result;
use demask::kernels::bandwidth;
use demask::plot::{Mark, Series};

use super::measure::Spread;
use super::report::{Cell, Report};
use super::{Common, Threads};

/// Bytes a second that all threads together read from memory
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    threads: Threads,
}

/// The best of some rounds, since a busy machine only slows down.
pub(super) fn measure() -> f64 {
    (0..3).map(|_| bandwidth()).fold(0.0, f64::max)
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    args.threads.set()?;
    let rates: Vec<f64> = (0..args.common.repeats).map(|_| bandwidth() / 1e9).collect();
    let best = rates.iter().copied().fold(0.0, f64::max);
    let mut report = Report::new("bandwidth", &["read", "GB/s", "best"]);
    let points = rates.iter().enumerate().map(|(round, &rate)| (round as f64, rate)).collect();
    report.rows.push(vec![
        Cell::Text("from end to end".into()),
        Cell::Spread(Spread::of(rates), 1),
        Cell::Number(best, 1),
    ]);
    report.note("best", best * 1e9, "best: of rounds in which every thread reads 96 MiB".into());
    report.chart.title = "memory bandwidth".into();
    report.chart.x = "round".into();
    report.chart.y = "GB/s".into();
    report.chart.series.push(Series { label: String::new(), mark: Mark::Dots, points });
    report.show(&args.common.output)
}
