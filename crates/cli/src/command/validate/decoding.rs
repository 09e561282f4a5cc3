//! `demask validate decoding`: every strategy under every cache, on the whole canvas and in blocks, ends with no mask
//! left and a trace that explains every token.

use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Result, bail};
use demask_decode::audit::Audit;
use demask_decode::registry::Cost;
use demask_decode::strategy;
use demask_decode::{CacheSpec, Canvas, Decoder, Job, Options, StrategySpec, cache};
use demask_model::Backbone as _;

use super::bar;
use super::examples::Examples;
use crate::args::{DecodeArgs, ModelArgs};
use crate::loaded::Loaded;

/// Canvases that advance together.
const BATCH: usize = 32;

/// Checks that every strategy ends under every cache, and that traces explain every token
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    decode: DecodeArgs,
    /// Prompts: a .jsonl or .parquet file, a folder of them, a Hub dataset, or task:NAME,… (task:all)
    #[arg(long, value_name = "DATA")]
    data: String,
    /// Prompts that each combination decodes
    #[arg(long, default_value_t = 200, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    examples: u32,
    /// Only strategies with this word in their name
    #[arg(long, value_name = "WORD")]
    only: Option<String>,
}

/// Runs the command.
pub(super) fn run(args: &Args) -> Result<()> {
    if args.decode.strategy.is_some() {
        usage!("this command runs every strategy; --only WORD picks some of them");
    }
    let loaded = Loaded::open(&args.model)?;
    let prompts: Vec<Vec<u32>> = Examples::open(&args.data, &loaded, args.examples as usize)?
        .map(|example| Ok(example?.prompt))
        .collect::<Result<_>>()?;
    let block = args.decode.block_length.unwrap_or(16) as usize;
    let combinations = combinations(args, &loaded, block)?;
    let progress = bar((combinations.len() * prompts.len()) as u64, "canvases");
    let (mut failures, start) = (Vec::new(), Instant::now());
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{:<20} {:<10} {:>6} {:>9} {:>9} {:>8}",
        "strategy", "cache", "block", "steps", "rows", "wrong"
    )?;
    for (strategy, cache, block) in &combinations {
        let name =
            format!("{strategy} with {cache}, blocks of {}", block.map_or("all".into(), |b| b.to_string()));
        let outcome = check(args, &loaded, &prompts, strategy, cache, *block, &progress)?;
        let per = |n: usize| n as f64 / prompts.len().max(1) as f64;
        progress.suspend(|| {
            writeln!(
                out,
                "{:<20} {:<10} {:>6} {:>9.1} {:>9.0} {:>8}",
                strategy.to_string(),
                cache.to_string(),
                block.map_or("-".into(), |b| b.to_string()),
                per(outcome.steps),
                per(outcome.rows),
                outcome.wrong.len()
            )
        })?;
        failures.extend(outcome.wrong.into_iter().map(|wrong| format!("{name}: {wrong}")));
    }
    progress.finish_and_clear();
    writeln!(
        out,
        "{} combinations of {} canvases in {:.0} s: {}",
        combinations.len(),
        prompts.len(),
        start.elapsed().as_secs_f64(),
        if failures.is_empty() { "all ended and every token is explained" } else { "not all are right" }
    )?;
    match failures.first() {
        Some(first) => bail!("{} canvases are wrong; the first: {first}", failures.len()),
        None => Ok(()),
    }
}

type Combination = (StrategySpec, CacheSpec, Option<usize>);

/// Every strategy that can be built here, with every cache, with and without blocks.
fn combinations(args: &Args, loaded: &Loaded, block: usize) -> Result<Vec<Combination>> {
    let mut all = Vec::new();
    for entry in strategy::ALL {
        if args.only.as_ref().is_some_and(|word| !entry.name.contains(word.as_str())) {
            continue;
        }
        let mut spec: StrategySpec = entry.name.parse()?;
        if entry.cost == Cost::Predictor && loaded.context.predictor.is_none() {
            spec = spec.with("dependency", "oracle")?;
        }
        for cache in cache::ALL {
            for block in [None, Some(block)] {
                all.push((spec.clone(), cache.name.parse()?, block));
            }
        }
    }
    Ok(all)
}

#[derive(Default)]
struct Outcome {
    steps: usize,
    rows: usize,
    wrong: Vec<String>,
}

fn check(
    args: &Args,
    loaded: &Loaded,
    prompts: &[Vec<u32>],
    strategy: &StrategySpec,
    cache: &CacheSpec,
    block: Option<usize>,
    progress: &indicatif::ProgressBar,
) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    for (group, some) in prompts.chunks(BATCH).enumerate() {
        let mut jobs = Vec::new();
        let mut audits = Vec::new();
        for (index, prompt) in some.iter().enumerate() {
            let canvas = loaded.canvas(prompt, &args.decode)?;
            let options = Options {
                block_length: block,
                cache: cache.clone(),
                stream: (group * BATCH + index) as u64,
                ..loaded.options(&args.decode, prompt.len())?
            };
            let audit = Arc::new(Mutex::new(Audit::new(&canvas, loaded.backbone.spec())));
            audits.push(audit.clone());
            jobs.push(Job::new(canvas, strategy, &loaded.context, options, Box::new(audit))?);
        }
        let ended = Decoder::new(&loaded.backbone).run(&mut jobs);
        for (job, audit) in jobs.iter().zip(&audits) {
            let audit = audit.lock().unwrap_or_else(PoisonError::into_inner);
            outcome.steps += audit.steps();
            outcome.rows += audit.rows();
            let left = left(job.canvas());
            match (audit.wrong(), &ended) {
                (Some(wrong), _) => outcome.wrong.push(wrong.to_owned()),
                (None, Err(error)) if left > 0 => outcome.wrong.push(error.to_string()),
                (None, _) if left > 0 => outcome.wrong.push(format!("{left} masks are left")),
                (None, _) => {}
            }
        }
        progress.inc(some.len() as u64);
    }
    Ok(outcome)
}

fn left(canvas: &Canvas) -> usize {
    canvas.tokens().iter().filter(|&&t| t == canvas.ids().mask).count()
}
