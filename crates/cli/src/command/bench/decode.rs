//! `demask bench decode`: seconds per committed token by strategy and cache, on one canvas of the asked shape.
//!
//! Caches are compared by whole blocks, so that the pass over everything at block entry is paid for; what is decoded
//! after `--blocks` of them is left out, as every block costs the same.

use std::io::Write as _;
use std::time::Instant;

use anyhow::Result;
use demask::counted;
use demask::decode::registry::Context;
use demask::decode::responses::{Cost, cost_of_first};
use demask::decode::rng::{Purpose, Rng};
use demask::decode::{CacheSpec, Canvas, EosPolicy, Options, StrategySpec, Suppression};
use demask::model::{Backbone, Transformer};
use serde_json::json;

use crate::args::ModelArgs;

/// Decoding: seconds per committed token by strategy and cache
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    model: ModelArgs,
    /// Decoders to compare; give it several times [default: entropy, and demask where there is a predictor]
    #[arg(long, short = 's', value_name = "STRATEGY")]
    strategy: Vec<StrategySpec>,
    /// Caches to compare, the first being what speed-up refers to; give it several times [default: all]
    #[arg(long, value_name = "CACHE")]
    cache: Vec<CacheSpec>,
    /// Tokens of the prompt
    #[arg(long, default_value_t = 256, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    prompt: u32,
    /// Tokens of the response
    #[arg(long, short = 'n', default_value_t = 256, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_new_tokens: u32,
    /// Tokens of a block
    #[arg(long, default_value_t = 32, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    block_length: u32,
    /// Blocks that are decoded and timed
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    blocks: u32,
    /// Rounds; each decodes with every cache once, in alternating order
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeats: u16,
    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let (backbone, context) = args.model.network()?;
    let strategies = strategies(args, &context)?;
    let caches = if args.cache.is_empty() {
        demask::decode::cache::ALL.iter().map(|c| Ok(c.name.parse()?)).collect::<Result<Vec<CacheSpec>>>()?
    } else {
        args.cache.clone()
    };
    let mut lines = Vec::new();
    for strategy in &strategies {
        lines.extend(compare(args, &backbone, &context, strategy, &caches)?);
    }
    show(args, &backbone, &lines)
}

/// One strategy under one cache.
struct Line {
    strategy: String,
    cache: String,
    /// Median milliseconds per committed token.
    milliseconds: f64,
    /// Median over the rounds of the first cache's time divided by this one's.
    faster: f64,
    counted: Cost,
    /// Share of the tokens that are the same as with the first cache.
    same: f64,
}

fn show(args: &Args, backbone: &Transformer, lines: &[Line]) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let per_step = |line: &Line| line.counted.rows as f64 / line.counted.steps.max(1) as f64;
    if args.json {
        let rows: Vec<_> = lines
            .iter()
            .map(|l| {
                json!({
                    "strategy": l.strategy, "cache": l.cache, "ms_per_token": l.milliseconds, "speed_up": l.faster,
                    "steps": l.counted.steps, "rows_per_step": per_step(l), "tokens": l.counted.committed,
                    "as_first": l.same, "seconds": l.counted.seconds,
                })
            })
            .collect();
        let (threads, layers) = (rayon::current_num_threads(), backbone.spec().layers);
        writeln!(
            out,
            "{}",
            json!({ "bench": "decode", "threads": threads, "layers": layers, "rows": rows })
        )?;
        return Ok(());
    }
    writeln!(
        out,
        "prompt {}, response {}, blocks of {}, {} timed; {}, {}; medians of {}",
        args.prompt,
        args.max_new_tokens,
        args.block_length,
        args.blocks,
        counted(backbone.spec().layers, "layer"),
        counted(rayon::current_num_threads(), "thread"),
        counted(args.repeats as usize, "round")
    )?;
    let wide = lines.iter().map(|l| l.strategy.len()).max().unwrap_or(0).max("strategy".len());
    writeln!(
        out,
        "{:<wide$}  {:<16} {:>10} {:>9} {:>9} {:>9} {:>6} {:>10} {:>7} {:>9}",
        "strategy",
        "cache",
        "ms/token",
        "speed-up",
        "backbone",
        "head",
        "steps",
        "rows/step",
        "tokens",
        "as first"
    )?;
    for line in lines {
        writeln!(
            out,
            "{:<wide$}  {:<16} {:>10.1} {:>9.2} {:>8.1}% {:>8.1}% {:>6} {:>10.1} {:>7} {:>8.1}%",
            line.strategy,
            line.cache,
            line.milliseconds,
            line.faster,
            100.0 * line.counted.seconds.forward / line.counted.seconds.total(),
            100.0 * line.counted.seconds.marginals / line.counted.seconds.total(),
            line.counted.steps,
            per_step(line),
            line.counted.committed,
            line.same * 100.0
        )?;
    }
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 0 => (values[middle - 1] + values[middle]) / 2.0,
        _ => values[middle],
    }
}

fn strategies(args: &Args, context: &Context) -> Result<Vec<StrategySpec>> {
    if !args.strategy.is_empty() {
        args.strategy.iter().try_for_each(|s| s.build(context).map(|_| ()))?;
        return Ok(args.strategy.clone());
    }
    let names = ["entropy", "demask"];
    let count = 1 + usize::from(context.predictor.is_some());
    names[..count].iter().map(|name| Ok(name.parse()?)).collect()
}

/// Times one strategy under every cache, in alternating order.
fn compare(
    args: &Args,
    backbone: &Transformer,
    context: &Context,
    strategy: &StrategySpec,
    caches: &[CacheSpec],
) -> Result<Vec<Line>> {
    let mut seconds: Vec<Vec<f64>> = vec![Vec::new(); caches.len()];
    let mut counted: Vec<Cost> = caches.iter().map(|_| Cost::default()).collect();
    for round in 0..args.repeats {
        for place in 0..caches.len() {
            let index = if round.is_multiple_of(2) { place } else { caches.len() - 1 - place };
            let start = Instant::now();
            counted[index] = decode(args, backbone, context, strategy, &caches[index])?;
            seconds[index].push(start.elapsed().as_secs_f64() / counted[index].committed.max(1) as f64);
        }
    }
    let first = counted[0].tokens.clone();
    let lines = caches.iter().zip(counted).zip(&seconds).map(|((cache, counted), times)| {
        let same = counted.tokens.iter().zip(&first).filter(|(a, b)| a == b).count();
        Line {
            strategy: strategy.to_string(),
            cache: cache.to_string(),
            milliseconds: median(times.clone()) * 1e3,
            faster: median(seconds[0].iter().zip(times).map(|(a, b)| a / b).collect()),
            same: same as f64 / first.len().max(1) as f64,
            counted,
        }
    });
    Ok(lines.collect())
}

fn decode(
    args: &Args,
    backbone: &Transformer,
    context: &Context,
    strategy: &StrategySpec,
    cache: &CacheSpec,
) -> Result<Cost> {
    let ids = &backbone.spec().ids;
    let rng = Rng::new(0, 0);
    let word = |i: u64| rng.bits(Purpose::Token, 0, i) % backbone.spec().vocab as u64;
    let prompt: Vec<u32> =
        (0..args.prompt).map(|i| word(i.into()) as u32).map(|t| if t == ids.mask { 0 } else { t }).collect();
    let canvas = Canvas::generate(&prompt, args.max_new_tokens as usize, ids)?;
    let options = Options {
        block_length: Some(args.block_length as usize),
        eos: EosPolicy::None,
        cache: cache.clone(),
        suppression: Suppression { ids: vec![ids.mask], ..Suppression::default() },
        ..Options::default()
    };
    let timed = (args.blocks * args.block_length) as usize;
    Ok(cost_of_first(backbone, canvas, timed, strategy, context, options)?)
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(Vec::new()).is_nan());
    }
}
