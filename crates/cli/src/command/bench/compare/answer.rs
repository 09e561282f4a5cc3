//! Whole answers: the same file, prompt, response length and number of steps through every program, taking turns.
//!
//! Programs without a cache decide one token a step, like for like; then ours as it would be used. A step's time is a part
//! per layer and a part that does not depend on the layers (the head and sampling above all), so two depths say what the
//! whole model would take, and a third depth, if asked for, confirms it.

use std::path::Path;

use anyhow::{Context as _, Result};
use demask::model::Spec;
use demask::plot::Mark;

use super::super::measure::Spread;
use super::super::report::{Cell, Report};
use super::engine::{Cost, Engine, Workload};
use super::log::Log;
use super::{Args, KindArg, file, program};

/// What is asked of everybody.
#[derive(Debug, clap::Args)]
pub(super) struct Flags {
    /// Command of the published Dream code on PyTorch: "python scripts/compare/dream_pytorch.py --code DIR"
    #[arg(long, value_name = "COMMAND")]
    pytorch: Option<String>,
    /// Precisions on PyTorch
    #[arg(long, value_delimiter = ',', default_value = "bf16,f32", value_parser = ["bf16", "f32"])]
    pytorch_dtype: Vec<String>,
    /// Tokens of the prompt
    #[arg(long, default_value_t = 256, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    prompt: u16,
    /// Tokens of the response
    #[arg(long, short = 'n', default_value_t = 256, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    response: u16,
    /// Steps that are timed where a step computes the whole canvas; they divide the response
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    steps: u16,
    /// Tokens of a block of the cache
    #[arg(long, default_value_t = 32, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    block_length: u16,
    /// Also ours with this many tokens a pass: as many as the default decoder was measured to decide at once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..))]
    tokens_per_pass: Option<u16>,
}

/// Costs of one engine at one depth, round by round.
struct Measured {
    layers: usize,
    engine: usize,
    costs: Vec<Cost>,
}

/// Runs the comparison.
pub(super) fn run(args: &Args) -> Result<()> {
    let flags = &args.answer;
    if !flags.response.is_multiple_of(flags.steps) {
        usage!("--steps {} must divide the response of {} tokens", flags.steps, flags.response);
    }
    let task = Workload {
        prompt: flags.prompt.into(),
        response: flags.response.into(),
        steps: flags.steps.into(),
        block: flags.block_length.into(),
        threads: rayon::current_num_threads(),
    };
    let engines = engines(args)?;
    let whole = args.whole()?.layers;
    let (name, kind) = args.kinds(&[KindArg::Q8_0])[0].kind();
    let folder = tempfile::tempdir().context("cannot make a folder for the GGUF file")?;
    let mut log = Log::open(&args.log, asked(name, &task))?;
    let mut measured = Vec::new();
    for layers in args.depths(&[1, 2]) {
        let spec = args.shape(layers).spec(None)?;
        let kept = args.log.files.as_deref();
        let path = kept.unwrap_or(folder.path()).join(format!("{name}-{}x{layers}.gguf", spec.hidden));
        let config = folder.path().join("config.json");
        if !log.is_closed() {
            if !path.exists() {
                file::make(&path, &spec, kind)?;
            }
            write_config(args, layers, &config)?;
        }
        measured.extend(rounds(args, &engines, &spec, (&path, &config), &task, &mut log)?);
        if kept.is_none() && !log.is_closed() {
            std::fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    measured.retain(|one| !one.costs.is_empty());
    let report = report(&engines, &measured, whole, asked(name, &task));
    report.show(&args.common.output)
}

fn engines(args: &Args) -> Result<Vec<Engine>> {
    let mut engines = Vec::new();
    if let Some(given) = &args.llama_cpp {
        engines.push(Engine::Llama(program(given, "llama-diffusion-cli")?));
    }
    engines.extend([Engine::Plain, Engine::Cached(1)]);
    engines.extend(args.answer.tokens_per_pass.map(|tokens| Engine::Cached(tokens.into())));
    for dtype in args.answer.pytorch.iter().flat_map(|_| &args.answer.pytorch_dtype) {
        let dtype = if dtype == "bf16" { "bf16" } else { "f32" };
        engines.extend(args.answer.pytorch.clone().map(|command| Engine::Torch(command, dtype)));
    }
    Ok(engines)
}

/// The shape as a `config.json`, for programs that do not read the GGUF file.
fn write_config(args: &Args, layers: u16, to: &Path) -> Result<()> {
    let config = args.shape(layers).outline.json(None)?;
    demask::model::file::replace(to, |out| std::io::Write::write_all(out, config.to_string().as_bytes()))?;
    Ok(())
}

/// Every engine once a round, every other round backwards.
fn rounds(
    args: &Args,
    engines: &[Engine],
    spec: &Spec,
    (file, config): (&Path, &Path),
    task: &Workload,
    log: &mut Log,
) -> Result<Vec<Measured>> {
    let mut all: Vec<Measured> = (0..engines.len())
        .map(|engine| Measured { layers: spec.layers, engine, costs: Vec::new() })
        .collect();
    for round in 0..args.common.repeats {
        for place in 0..engines.len() {
            let index = if round % 2 == 0 { place } else { engines.len() - 1 - place };
            let name = engines[index].name();
            let cost = log.cost((spec.layers, &name, round), || {
                engines[index].answer(file, config, task).with_context(|| format!("{name} did not answer"))
            })?;
            all[index].costs.extend(cost);
        }
    }
    Ok(all)
}

const COLUMNS: [&str; 8] = [
    "layers",
    "engine",
    "s a step",
    "of it after the backbone",
    "s a token",
    "times the first",
    "s of the process",
    "peak GB",
];

/// What everybody is asked.
fn asked(kind: &str, task: &Workload) -> String {
    format!(
        "{kind}; prompt of {}, response of {}, {} steps where a step computes the whole canvas, blocks of {} with a cache, \
         {} threads; a token is a step without a cache",
        task.prompt, task.response, task.steps, task.block, task.threads
    )
}

fn report(engines: &[Engine], measured: &[Measured], whole: usize, asked: String) -> Report {
    let mut report = Report::new("answers", &COLUMNS);
    for one in measured {
        let spread = |of: fn(&Cost) -> f64| Spread::of(one.costs.iter().map(of));
        let first = measured.iter().find(|m| m.layers == one.layers && m.engine == 0);
        let faster = first.map(|first| {
            Spread::of(first.costs.iter().zip(&one.costs).map(|(first, own)| first.token() / own.token()))
        });
        let after = Spread::of(one.costs.iter().filter_map(|c| Some(c.after? / c.steps)));
        let peak = one.costs.iter().filter_map(|c| c.peak).fold(f64::NAN, f64::max);
        report.chart.point(
            &engines[one.engine].name(),
            Mark::Line,
            (one.layers as f64, spread(Cost::token).median),
        );
        report.rows.push(vec![
            Cell::Count(one.layers),
            Cell::Text(engines[one.engine].name()),
            Cell::Spread(spread(Cost::step), 3),
            known(after),
            Cell::Spread(spread(Cost::token), 3),
            faster.map_or("–".into(), |faster| Cell::Spread(faster, 2)),
            Cell::Spread(spread(|c| c.wall), 1),
            Cell::Number(peak / 1e9, 2),
        ]);
    }
    follow(engines, measured, whole, &mut report);
    report.note("depth", whole as f64, asked);
    report.chart.title = "seconds of a token".into();
    report.chart.x = "layers".into();
    report.chart.y = "s".into();
    report.chart.log = true;
    report
}

fn known(spread: Spread) -> Cell {
    if spread.median.is_nan() { "–".into() } else { Cell::Spread(spread, 3) }
}

/// A part that does not depend on the layers, and one of every layer, in seconds a token.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Line {
    outside: f64,
    layer: f64,
}

impl Line {
    /// Through two depths.
    fn through(a: (usize, f64), b: (usize, f64)) -> Option<Self> {
        let layer = (b.1 - a.1) / (b.0 as f64 - a.0 as f64);
        (a.0 != b.0).then_some(Self { outside: a.1 - a.0 as f64 * layer, layer })
    }

    fn at(self, layers: usize) -> f64 {
        self.layer.mul_add(layers as f64, self.outside)
    }
}

/// What the first two depths say of the whole model.
fn follow(engines: &[Engine], measured: &[Measured], whole: usize, report: &mut Report) {
    let median = |m: &Measured| Spread::of(m.costs.iter().map(Cost::token)).median;
    let mut first = None;
    for (index, engine) in engines.iter().enumerate() {
        let own: Vec<(usize, f64)> =
            measured.iter().filter(|m| m.engine == index).map(|m| (m.layers, median(m))).collect();
        let Some(line) = own.first().zip(own.get(1)).and_then(|(&a, &b)| Line::through(a, b)) else {
            continue;
        };
        let (name, token) = (engine.name(), line.at(whole));
        let first = *first.get_or_insert(token);
        let mut sentence = format!(
            "{name}: {:.4} s a layer, {:.4} s outside; {whole} layers would take {token:.3} s a token, {:.2} times the first",
            line.layer,
            line.outside,
            first / token
        );
        if let Some((_, seen)) = own.iter().skip(2).find(|(layers, _)| *layers == whole) {
            sentence.push_str(&format!(" (measured: {seen:.3} s)"));
        }
        report.note(format!("times {name} at {whole}"), first / token, sentence);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_depths_say_what_the_whole_takes() {
        let line = Line::through((2, 1.0), (4, 1.6)).unwrap();
        assert!((line.layer - 0.3).abs() < 1e-12 && (line.outside - 0.4).abs() < 1e-12);
        assert!((line.at(28) - 8.8).abs() < 1e-9);
        assert_eq!(Line::through((2, 1.0), (2, 1.6)), None);
    }
}
