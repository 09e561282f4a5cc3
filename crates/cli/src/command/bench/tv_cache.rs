//! `demask bench tv-cache`: how much of the backbone's speed the making of a TV cache keeps.

use anyhow::Result;
use demask::counted;
use demask::kernels::Meter;
use demask::model::{Backbone, Transformer, shapes};
use demask::plot::{Mark, Series};
use demask::train::tv_cache::bench::{self, Workload};

use super::measure::Spread;
use super::model::{ModelShape, Outline};
use super::peak::Peak;
use super::report::{Cell, Output, Report};
use crate::args::ModelArgs;

/// TV-cache generation against plain batched forward passes over the same canvases
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    model: ModelArgs,
    /// Without --model: a config.json whose shape to use with random weights [default: Dream-7B's]
    #[arg(long, value_name = "FILE", conflicts_with = "model")]
    config: Option<std::path::PathBuf>,
    /// Without --model: number of layers [default: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=512), conflicts_with = "model")]
    layers: Option<u16>,
    /// Tokens of a prompt
    #[arg(long, default_value_t = 64, value_name = "N")]
    prompt: usize,
    /// Tokens of a response
    #[arg(long, short = 'n', default_value_t = 64, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    response: u32,
    /// Responses per round
    #[arg(long, default_value_t = 4, value_name = "N")]
    responses: usize,
    /// Masks per response
    #[arg(long, default_value_t = 1, value_name = "N")]
    masks: u32,
    /// Tokens that go through the model at once
    #[arg(long, default_value_t = 4096, value_name = "N")]
    token_budget: usize,
    /// Rounds; each measures both ways, in alternating order
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeats: u16,
    #[command(flatten)]
    output: Output,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let options = args.model.load_options()?;
    let backbone = match &args.model.model {
        Some(_) => Transformer::load(&args.model.folder()?, &options)?,
        None => {
            let dtype = args.model.dtype.unwrap_or(crate::args::DtypeArg::Int8);
            let shape = ModelShape {
                outline: Outline { shape: &shapes::ALL[0], config: args.config.clone(), layers: args.layers },
                dtype,
            };
            shape.build(shape.spec(Some(2))?)?
        }
    };
    let workload = Workload {
        prompt: args.prompt,
        response: args.response as usize,
        responses: args.responses,
        masks: args.masks,
        token_budget: args.token_budget,
        rounds: args.repeats.into(),
    };
    let before = Peak::measure();
    let scratch = tempfile::tempdir()?;
    let rounds = bench::run(&backbone, &workload, scratch.path())?;
    let rate = |seconds: fn(&bench::Round) -> f64| {
        Spread::of(rounds.iter().map(|round| round.tokens as f64 / seconds(round)))
    };
    let ratio = Spread::of(rounds.iter().map(bench::Round::ratio));
    let peak = Peak::measure().or(before);
    let share = |of: fn(&bench::Round) -> (f64, Meter)| {
        let of = rounds.iter().map(of);
        Cell::Share(Spread::of(of.map(|(seconds, work)| peak.least(&work) / seconds)).median)
    };
    let mut report = Report::new("cache", &["way", "tokens/s", "of peak"]);
    report.rows.push(vec![
        "plain forward passes".into(),
        Cell::Spread(rate(|r| r.plain_seconds), 1),
        share(|r| (r.plain_seconds, r.plain_work)),
    ]);
    report.rows.push(vec![
        "cache generation".into(),
        Cell::Spread(rate(|r| r.cache_seconds), 1),
        share(|r| (r.cache_seconds, r.cache_work)),
    ]);
    let spec = backbone.spec();
    report.note(
        "ratio",
        ratio.median,
        format!(
            "cache generation keeps {:.3} [{:.3}, {:.3}] of the plain rate ({} of {}, vocabulary {}, {})",
            ratio.median,
            ratio.low,
            ratio.high,
            counted(spec.layers, "layer"),
            spec.hidden,
            spec.vocab,
            counted(rounds.len(), "round")
        ),
    );
    peak.note(&mut report);
    report.chart.title = "TV cache against plain forward passes".into();
    report.chart.x = "round".into();
    report.chart.y = "tokens/s".into();
    for (label, seconds) in [
        ("plain", (|r: &bench::Round| r.plain_seconds) as fn(&bench::Round) -> f64),
        ("cache", |r| r.cache_seconds),
    ] {
        let points =
            rounds.iter().enumerate().map(|(i, r)| (i as f64, r.tokens as f64 / seconds(r))).collect();
        report.chart.series.push(Series { label: label.into(), mark: Mark::Line, points });
    }
    report.show(&args.output)
}
