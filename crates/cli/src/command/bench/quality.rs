//! `demask bench quality`: what int8 weights change, by group size; the numbers of docs/numerics.md.
//!
//! With a model: total variation between its marginals in f32 and in int8 on masked task problems, and how many tokens
//! greedy decoding still agrees on. Without one: relative error of products with weights and activations that have
//! outlier channels, as large models do.

mod rounding;

use std::path::Path;

use anyhow::{Context as _, Result};
use demask::counted;
use demask::decode::registry::Context;
use demask::decode::{Options, responses};
use demask::kernels::{Bits, softmax_stats, total_variation};
use demask::model::checkpoint::Dtype;
use demask::model::checkpoint::quantized::Packing;
use demask::model::importance::{self, Inputs};
use demask::model::quantize::{self, QuantizeSettings};
use demask::model::{LoadOptions, Precision, Transformer};
use demask::plot::Mark;
use demask::train::tv_cache::Response;

use super::measure::Spread;
use super::report::{Cell, Output, Report};
use crate::args::ModelArgs;
use crate::masked;

/// What int8 changes: marginals and decoded tokens of a model, or the error of products with outliers
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    model: ModelArgs,
    /// Weights of a row that share a scale
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "32,64,128,256")]
    groups: Vec<usize>,
    /// Problems to take
    #[arg(long, default_value_t = 100, value_name = "N")]
    limit: usize,
    /// Of these tasks
    #[arg(long, default_value = "task:all", value_name = "DATA")]
    data: String,
    /// Seed of the problems
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    output: Output,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let options = args.model.load_options()?;
    let report = match &args.model.model {
        Some(_) => model(args, &args.model.folder()?, &options)?,
        None => rounding::products(&args.groups)?,
    };
    report.show(&args.output)
}

fn model(args: &Args, folder: &Path, options: &LoadOptions) -> Result<Report> {
    let load =
        |precision| Transformer::load(folder, &LoadOptions { dtype: Some(precision), ..options.clone() });
    let exact = load(Precision::Float(Dtype::F32))?;
    let problems = masked::responses(&args.data, args.limit, args.seed, folder, &exact)?;
    let truth = marginals(&exact, &problems)?;
    let texts = decoded(&exact, &problems)?;
    let columns = [
        "weights",
        "mean TV",
        "TV quartiles",
        "largest TV",
        "same argmax",
        "same decoded tokens",
        "same texts",
    ];
    let mut report = Report::new("quality", &columns);
    let mut candidates = vec![("bf16".to_owned(), 16.0, Precision::Float(Dtype::Bf16))];
    for &group in &args.groups {
        candidates.push((format!("int8 group {group}"), group as f64, Precision::Int8 { group }));
    }
    for &group in &args.groups {
        candidates.push((four(group), group as f64, Precision::Q4 { group }));
    }
    for &group in &args.groups {
        candidates.push((format!("{}, {INPUTS}", four(group)), group as f64, Precision::Q4 { group }));
    }
    // Other problems than those that are judged.
    let (watched, inputs) = importance::watched(folder, options)?;
    let seen = masked::responses(&args.data, args.limit, args.seed + 1, folder, &watched)?;
    masked::marginals(&watched, &seen, &mut |_| ())?;
    for (name, x, precision) in candidates {
        let other = if name.ends_with(INPUTS) {
            weighed(folder, precision, &inputs, options)?
        } else {
            load(precision)?
        };
        let distances: Vec<(f64, bool)> = truth
            .iter()
            .zip(&marginals(&other, &problems)?)
            .map(|(a, b)| {
                let (s, t) = (softmax_stats(a), softmax_stats(b));
                (f64::from(total_variation(a, s.logsumexp, b, t.logsumexp)), s.argmax == t.argmax)
            })
            .collect();
        let count = distances.len().max(1) as f64;
        let mean = distances.iter().map(|d| d.0).sum::<f64>() / count;
        let again = decoded(&other, &problems)?;
        let pairs = || texts.iter().zip(&again);
        let same: usize = pairs().map(|(a, b)| a.iter().zip(b).filter(|(a, b)| a == b).count()).sum();
        let tokens: usize = texts.iter().map(Vec::len).sum();
        let kind = name.split(" group").next().unwrap_or_default();
        let label = if name.ends_with(INPUTS) { "q4, inputs seen" } else { kind };
        report.chart.point(label, Mark::Dots, (x, mean));
        report.rows.push(vec![
            Cell::Text(name),
            Cell::Number(mean, 5),
            Cell::Spread(Spread::of(distances.iter().map(|d| d.0)), 5),
            Cell::Number(distances.iter().map(|d| d.0).fold(0.0, f64::max), 4),
            Cell::Share(distances.iter().filter(|d| d.1).count() as f64 / count),
            Cell::Share(same as f64 / tokens.max(1) as f64),
            Cell::Share(pairs().filter(|(a, b)| a == b).count() as f64 / texts.len().max(1) as f64),
        ]);
    }
    let sentence =
        format!("{} of {}", counted(truth.len(), "masked position"), counted(problems.len(), "problem"));
    report.note("positions", truth.len() as f64, sentence);
    report.chart.title = "distance of marginals from those in f32".into();
    report.chart.x = "weights that share a scale".into();
    report.chart.y = "mean TV".into();
    Ok(report)
}

/// The name of four bits in such groups.
fn four(group: usize) -> String {
    let factors = Packing::four(group).bits == Bits::FourScaled;
    format!("q4 group {group}{}", if factors { " with factors" } else { "" })
}

/// What a candidate's name ends with whose scales are chosen for what the maps are given.
const INPUTS: &str = "inputs seen";

/// The model of a folder, rounded for what its maps are given.
fn weighed(
    folder: &Path,
    precision: Precision,
    inputs: &Inputs,
    options: &LoadOptions,
) -> Result<Transformer> {
    let scratch = tempfile::tempdir().context("cannot make a folder for the quantised model")?;
    let (to, settings) =
        (scratch.path().join("model"), QuantizeSettings { precision, max_shard_bytes: 4 << 30 });
    quantize::weighed(folder, &to, &settings, inputs, &mut |_| ())?;
    // Mapped, the files outlive their folder.
    Ok(Transformer::load(&to, &LoadOptions { dtype: None, ..options.clone() })?)
}

/// Rows of logits at the masked positions of every response.
fn marginals(model: &Transformer, responses: &[Response]) -> Result<Vec<Vec<f32>>> {
    let mut rows = Vec::new();
    masked::marginals(model, responses, &mut |row| rows.push(row.to_vec()))?;
    Ok(rows)
}

/// Responses decoded greedily, one token a step.
fn decoded(model: &Transformer, wanted: &[Response]) -> Result<Vec<Vec<u32>>> {
    let (strategy, context, options) = ("entropy".parse()?, Context::default(), Options::default());
    let prompts: Vec<_> = wanted.iter().map(|r| (r.prompt.as_slice(), r.response.len())).collect();
    let batches =
        prompts.chunks(32).map(|batch| responses::responses(model, batch, &strategy, &context, &options));
    let decoded = batches.collect::<Result<Vec<_>, _>>()?;
    Ok(decoded.into_iter().flatten().map(|one| one.tokens).collect())
}
