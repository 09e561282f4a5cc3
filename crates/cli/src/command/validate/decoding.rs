//! `demask validate decoding`: every strategy under every cache, on the whole canvas and in blocks, ends with no mask
//! left and a trace that explains every token.

use std::io::Write as _;
use std::time::Instant;

use anyhow::{Result, bail};
use demask::counted;
use demask::eval::run::audit;

use super::bar;
use super::examples::Examples;
use crate::args::{CanvasArgs, ModelArgs};

/// Checks that every strategy ends under every cache, and that traces explain every token
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    canvas: CanvasArgs,
    /// Prompts: a .jsonl or .parquet file, a folder of them, a Hub dataset, or task:NAME,… (task:all)
    #[arg(long, value_name = "DATA")]
    data: String,
    /// Prompts that each combination decodes
    #[arg(long, default_value_t = 200, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Only strategies with this word in their name
    #[arg(long, value_name = "WORD")]
    only: Option<String>,
}

/// Runs the command.
pub(super) fn run(args: &Args) -> Result<()> {
    let model = args.model.open()?;
    let prompts: Vec<Vec<u32>> = Examples::open(&args.data, &model, args.limit as usize)?
        .map(|example| Ok(example?.prompt))
        .collect::<Result<_>>()?;
    let block = args.canvas.block_length.unwrap_or(16) as usize;
    let combinations = audit::combinations(&model, args.only.as_deref(), block)?;
    let (progress, decoding) =
        (bar((combinations.len() * prompts.len()) as u64, "canvases"), args.canvas.decoding());
    let (mut failures, start) = (Vec::new(), Instant::now());
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{:<20} {:<10} {:>6} {:>9} {:>9} {:>8}",
        "strategy", "cache", "block", "steps", "rows", "wrong"
    )?;
    for way in &combinations {
        let outcome = audit::audit(&model, &prompts, way, &decoding, &mut |done| progress.inc(done as u64))?;
        let (strategy, cache) = (way.strategy.to_string(), way.cache.to_string());
        let block = |whole: &str| way.block.map_or(whole.to_owned(), |block| block.to_string());
        let per = |n: usize| n as f64 / prompts.len().max(1) as f64;
        let (steps, rows, wrong) = (per(outcome.steps), per(outcome.rows), outcome.wrong.len());
        progress.suspend(|| {
            writeln!(out, "{strategy:<20} {cache:<10} {:>6} {steps:>9.1} {rows:>9.0} {wrong:>8}", block("-"))
        })?;
        let name = format!("{strategy} with {cache}, blocks of {}", block("all"));
        failures.extend(outcome.wrong.into_iter().map(|wrong| format!("{name}: {wrong}")));
    }
    progress.finish_and_clear();
    writeln!(
        out,
        "{} of {} in {:.0} s: {}",
        counted(combinations.len(), "combination"),
        counted(prompts.len(), "canvas"),
        start.elapsed().as_secs_f64(),
        if failures.is_empty() { "all ended and every token is explained" } else { "not all are right" }
    )?;
    match failures.first() {
        Some(first) => bail!("wrong: {}; the first: {first}", counted(failures.len(), "canvas")),
        None => Ok(()),
    }
}
