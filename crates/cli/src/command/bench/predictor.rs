//! `demask bench predictor`: what a DEMASK step costs beyond its forward pass (section 4.3 and Algorithm 2).

use std::cell::RefCell;

use anyhow::{Result, anyhow};
use demask::counted;
use demask::decode::dependency::{Dependency, Metadata, Mix, Predictor};
use demask::decode::rule::{Start, Thresholds, greedy_subset};
use demask::model::{HiddenRow, Rows};
use demask::plot::{Mark, Series};

use super::gemm::noise;
use super::measure::{Spread, alternate, ratio};
use super::model::{Canvas, ModelShape, pass};
use super::report::{Cell, Report};
use super::{Common, Threads};

/// Predictor and selection against the forward pass of the same step
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    shape: ModelShape,
    /// Canvas length
    #[arg(long, default_value_t = 512, value_name = "L")]
    length: usize,
    /// Masked positions
    #[arg(long, default_value_t = 256, value_name = "|M|", value_parser = positive)]
    masked: usize,
    /// Masked positions of the selection that is timed alone
    #[arg(long, default_value_t = 1024, value_name = "|M|", value_parser = positive)]
    selection: usize,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    threads: Threads,
}

/// Every position joins: no selection of Algorithm 2 takes longer.
pub(super) const ALL: Thresholds = Thresholds { tau: f32::INFINITY, gamma: 0.0, start: Start::Leftmost };

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    args.threads.set()?;
    let spec = args.shape.spec(None)?;
    if args.masked > args.length {
        usage!("--masked {} is more than --length {}", args.masked, args.length);
    }
    let (d, masked) = (spec.hidden, args.masked);
    let weight = noise(d * d, 3).into_iter().map(|w| w / d as f32).collect();
    let predictor = Predictor::from_merged(d, vec![weight], Mix::Mean, Metadata::new(HiddenRow::I))?;
    let hidden = Rows { data: noise(masked * d, 4), width: d };
    let confidence = vec![1.0; masked.max(args.selection)];
    let large = dependency(args.selection);
    let model = args.shape.build(spec.clone())?;
    let canvases = [Canvas::new(&spec, args.length, masked)];
    let predicted = RefCell::new(dependency(masked));
    let samples = alternate(args.common.repeats, 4, |index| {
        match index {
            0 => pass(&model, &canvases)?,
            1 => *predicted.borrow_mut() = predictor.predict(&hidden, &[])?,
            2 => select(&predicted.borrow(), &confidence[..masked])?,
            _ => select(&large, &confidence[..args.selection])?,
        }
        Ok(())
    })?;
    let [forward, predict, selection, alone] = &samples[..] else {
        return Err(anyhow!("four candidates were timed"));
    };
    let (a, b) = (ratio(predict, forward), ratio(selection, forward));
    let share = Spread::of(a_plus_b(predict, selection, forward));
    let mut report = Report::new("predictor", &["part", "|M|", "ms", "of the forward pass"]);
    let mut row = |part: &str, masked: usize, ms: Spread, share: f64| {
        let ms = Cell::Spread(ms.times(1e3), 3);
        report.rows.push(vec![Cell::Text(part.into()), Cell::Count(masked), ms, Cell::Share(share)]);
    };
    row("forward pass", masked, forward.wall(), 1.0);
    row("predictor", masked, predict.wall(), a.median);
    row("selection", masked, selection.wall(), b.median);
    row("selection alone", args.selection, alone.wall(), ratio(alone, forward).median);
    report.note(
        "share",
        share.median,
        format!(
            "predictor and selection take {:.2} % [{:.2}, {:.2}] of the forward pass ({}, d {d}, L {})",
            share.median * 100.0,
            share.low * 100.0,
            share.high * 100.0,
            counted(spec.layers, "layer"),
            args.length
        ),
    );
    let ms = alone.wall().median * 1e3;
    let sentence = format!("selecting all of {} takes {ms:.2} ms", counted(args.selection, "position"));
    report.note("selection_ms", ms, sentence);
    report.chart.title = "a DEMASK step beside its forward pass".into();
    report.chart.x = "0: forward, 1: predictor, 2: selection".into();
    report.chart.y = "seconds".into();
    report.chart.log = true;
    let points = samples[..3].iter().enumerate().map(|(i, s)| (i as f64, s.wall().median)).collect();
    report.chart.series.push(Series { label: String::new(), mark: Mark::Bars, points });
    report.show(&args.common.output)
}

fn a_plus_b<'a>(
    a: &'a super::measure::Samples,
    b: &'a super::measure::Samples,
    over: &'a super::measure::Samples,
) -> impl Iterator<Item = f64> + 'a {
    a.0.iter().zip(&b.0).zip(&over.0).map(|((a, b), over)| (a.wall + b.wall) / over.wall)
}

fn select(dependency: &Dependency, confidence: &[f32]) -> Result<()> {
    let subset = greedy_subset(dependency, confidence, ALL);
    anyhow::ensure!(subset.chosen.len() == confidence.len(), "every position must have been selected");
    Ok(())
}

fn dependency(size: usize) -> Dependency {
    let mut data: Vec<f32> = noise(size * size, 5).into_iter().map(f32::abs).collect();
    (0..size).for_each(|i| data[i * size + i] = 0.0);
    Dependency::from_rows(data, size)
}

fn positive(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|&n| n > 0).ok_or_else(|| "must be at least 1".into())
}
