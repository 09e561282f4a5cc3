//! One pass over a prompt: the same GGUF through this engine and through llama.cpp's own benchmark, in turn.
//!
//! Both compute every row of every layer; logits are left out on our side and made for one row on theirs.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use demask::counted;
use demask::model::gguf::{Vocabulary, write};
use demask::model::{Backbone as _, LoadOptions, Query, Spec, Transformer, synthetic};
use demask::plot::{Mark, Series};
use serde_json::Value;

use super::super::measure::Spread;
use super::super::report::{Cell, Report};
use super::{Args, KindArg, program};

/// Runs the comparison.
pub(super) fn run(args: &Args) -> Result<()> {
    let Some(given) = &args.llama_cpp else {
        usage!("--pass needs --llama-cpp with the folder of llama-bench")
    };
    let program = program(given, "llama-bench")?;
    let shape = args.shape(args.depths(&[4])[0]);
    let spec = shape.spec(None)?;
    let folder = tempfile::tempdir().context("cannot make a folder for the GGUF file")?;
    let mut report = Report::new("compare", &["weights", "engine", "tokens/s", "ratio to llama.cpp"]);
    for kind in args.kinds(&[KindArg::Q8_0, KindArg::Q4_0]) {
        let (name, kind) = kind.kind();
        let path = folder.path().join(format!("{name}.gguf"));
        write(&path, &spec, kind, &Vocabulary::default(), &mut |name, shape| {
            Ok(synthetic::values(name, shape))
        })?;
        let mut engines = vec![("demask", Transformer::load(&path, &LoadOptions::default())?)];
        if args.own_groups {
            engines.push(("demask, groups of 128", shape.build(spec.clone())?));
        }
        let rounds = rounds(args, &program, &path, &spec, &engines)?;
        let theirs = Spread::of(rounds.iter().map(|r| r[0]));
        report.rows.push(vec![
            name.into(),
            "llama.cpp".into(),
            Cell::Spread(theirs, 1),
            Cell::Number(1.0, 2),
        ]);
        for (place, (engine, _)) in engines.iter().enumerate() {
            let ours = Spread::of(rounds.iter().map(|r| r[place + 1]));
            let ratio = Spread::of(rounds.iter().map(|r| r[place + 1] / r[0]));
            let cells = vec![name.into(), (*engine).into(), Cell::Spread(ours, 1), Cell::Spread(ratio, 2)];
            report.rows.push(cells);
            let sentence = format!(
                "{name}: {engine} is {:.2} [{:.2}, {:.2}] times as fast as llama.cpp",
                ratio.median, ratio.low, ratio.high
            );
            report.note(format!("ratio {name} {engine}"), ratio.median, sentence);
            report.chart.series.push(Series {
                label: format!("{name} {engine}"),
                mark: Mark::Dots,
                points: rounds
                    .iter()
                    .enumerate()
                    .map(|(i, r)| ((i + 1) as f64, r[place + 1] / r[0]))
                    .collect(),
            });
        }
        std::fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
    }
    report.chart.title =
        format!("speed over llama.cpp's, {}, L = {}", counted(spec.layers, "layer"), args.length);
    report.chart.x = "round".into();
    report.chart.y = "ratio".into();
    report.show(&args.common.output)
}

/// Tokens per second of every round: theirs first, then ours.
fn rounds(
    args: &Args,
    program: &Path,
    file: &Path,
    spec: &Spec,
    engines: &[(&str, Transformer)],
) -> Result<Vec<Vec<f64>>> {
    let tokens: Vec<u32> = (0..args.length as u32).map(|i| i * 7919 % spec.vocab as u32).collect();
    let mut all = Vec::new();
    for round in 0..=args.common.repeats {
        let mut rates = vec![theirs(args, program, file)?];
        for (_, model) in engines {
            rates.push(ours(model, &tokens)?);
        }
        // The first round warms the caches and does not count.
        if round > 0 {
            all.push(rates);
        }
    }
    Ok(all)
}

fn ours(model: &Transformer, tokens: &[u32]) -> Result<f64> {
    let every: Vec<usize> = (0..tokens.len()).collect();
    let start = Instant::now();
    let hidden = Some((every.as_slice(), demask::model::HiddenRow::I));
    model.forward(&mut [Query { tokens, hidden, ..Query::default() }])?;
    Ok(tokens.len() as f64 / start.elapsed().as_secs_f64())
}

fn theirs(args: &Args, program: &Path, file: &Path) -> Result<f64> {
    let length = args.length.to_string();
    let threads = rayon::current_num_threads().to_string();
    let run = Command::new(program)
        .arg("-m")
        .arg(file)
        .args([
            "-p", &length, "-n", "0", "-b", &length, "-ub", &length, "-t", &threads, "-r", "1", "-o", "json",
        ])
        .output()
        .with_context(|| format!("cannot run {}", program.display()))?;
    if !run.status.success() {
        let said = String::from_utf8_lossy(&run.stderr);
        bail!("{} failed: {}", program.display(), said.lines().last().unwrap_or("it said nothing"));
    }
    let results: Value = serde_json::from_slice(&run.stdout).context("llama-bench printed no JSON")?;
    results[0]["avg_ts"].as_f64().context("llama-bench printed no avg_ts")
}
