//! `demask validate`: the paper's assumption and bound, and what decoding promises, measured on a model.

mod decoding;
mod examples;

use std::path::PathBuf;

use anyhow::Result;
use demask::eval::theory::{bound, subadditivity};
use demask::{Shard, counted};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use crate::args::{DecodeArgs, ModelArgs};
use crate::host::{Host, Progress};
use crate::shard;
use examples::Examples;

/// Measures the theory's assumption and bound on a model, and checks every decoder on it
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    SubAdditivity(Box<SubAdditivity>),
    Bound(Box<Bound>),
    Decoding(Box<decoding::Args>),
}

/// Tests how often revealing a set changes a position more than its members do, summed (section 5.4)
#[derive(Debug, clap::Args)]
struct SubAdditivity {
    #[command(flatten)]
    model: ModelArgs,
    /// Conversations: a .jsonl or .parquet file, a folder of them, a Hub dataset, or task:NAME,… (task:all)
    #[arg(long, value_name = "DATA")]
    data: String,
    /// Where records, tables and the figure go; an interrupted run continues there
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Responses to take
    #[arg(long, default_value_t = 5000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Random masks of each response
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    masks_per_response: u32,
    /// Largest set that is revealed
    #[arg(long, default_value_t = 6, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    largest_set: u32,
    /// Seed of masks, sets and tokens
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Tokens that go through the model at once
    #[arg(long, default_value_t = 8192, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    token_budget: u32,
    /// Only part i of n of the responses, i from 0; auto asks the cluster's scheduler
    #[arg(long, value_name = "I/N|auto", value_parser = shard::read)]
    shard: Option<Shard>,
    /// Folders of parts: what they measured is taken from there, in the order of the data
    #[arg(long, value_name = "DIR", conflicts_with = "shard")]
    parts: Vec<PathBuf>,
}

/// Estimates the distance of joint and parallel sampling for DEMASK's own sets, beside tau
#[derive(Debug, clap::Args)]
struct Bound {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    decode: DecodeArgs,
    /// Prompts: a .jsonl or .parquet file, a folder of them, a Hub dataset, or task:NAME,… (task:all)
    #[arg(long, value_name = "DATA")]
    data: String,
    /// Also write the numbers as CSV
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Prompts to decode
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Values of tau, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "0.01,0.04,0.1,0.3,1", value_name = "TAU")]
    tau: Vec<f32>,
    /// Sequential samples of each set
    #[arg(long, default_value_t = 16, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    chains: u32,
    /// Tokens that go through the model at once
    #[arg(long, default_value_t = 8192, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    token_budget: u32,
}

/// Runs the command.
pub fn run(args: &Args, host: &mut Host<'_>) -> Result<()> {
    match &args.what {
        What::SubAdditivity(args) => sub_additivity(args, host),
        What::Bound(args) => bound(args, host),
        What::Decoding(_) if host.is_program() => {
            usage!("validate decoding is not a command that a program can call")
        }
        What::Decoding(args) => decoding::run(args),
    }
}

fn sub_additivity(args: &SubAdditivity, host: &mut Host<'_>) -> Result<()> {
    let model = host.open(&args.model)?;
    let shard = args.shard.unwrap_or_default();
    let examples = Examples::open(&args.data, &model, args.limit as usize)?.of(shard);
    let settings = subadditivity::SubadditivitySettings {
        seed: args.seed,
        masks_per_response: args.masks_per_response,
        largest_set: args.largest_set as usize,
    };
    let total = examples.len() as u64 * u64::from(args.masks_per_response);
    let (mut skipped, mut masks, mut stopped) = (0, 0, false);
    let refused = examples.refused();
    let known = subadditivity::Known::read(&args.parts)?;
    let mut watch = |progress: subadditivity::SubadditivityProgress| {
        (skipped, masks) = (progress.skipped, progress.masks);
        let (done, message) = (progress.masks as u64, counted(progress.forwards, "forward pass"));
        let flow = host.show(&Progress { unit: "masks", done, total, message });
        stopped |= flow.is_break();
        flow
    };
    let budget = args.token_budget as usize;
    let report =
        subadditivity::run(model.backbone(), examples, &settings, (budget, &known), &args.out, &mut watch);
    host.clear();
    let report = report?;
    if stopped {
        return host.say("stopped; the same command continues\n");
    }
    for sentence in refused.borrow().iter() {
        host.note(&format!("warning: {sentence}"));
    }
    if skipped > 0 {
        host.note(&format!(
            "warning: skipped {} with fewer than two tokens or too long for the model's context",
            counted(skipped, "response")
        ));
    }
    host.result = json!({ "masks": masks });
    host.say(&format!("{report}records, tables and slack.svg are in {}\n", args.out.display()))
}

fn bound(args: &Bound, host: &mut Host<'_>) -> Result<()> {
    if args.tau.is_empty() || args.tau.iter().any(|t| t.is_nan() || *t < 0.0) {
        usage!("--tau takes numbers of at least 0, separated by commas");
    }
    if args.decode.min_new_tokens > 0 {
        usage!("--min-new-tokens does not apply to this command");
    }
    let model = host.open(&args.model)?;
    let examples = Examples::open(&args.data, &model, args.limit as usize)?;
    let prompts = examples.map(|e| Ok(e?.prompt)).collect::<Result<Vec<_>>>()?;
    let decoding = args.decode.decoding();
    let mut length = 0;
    for prompt in &prompts {
        // Also refuses a prompt that leaves no room for the response.
        length = model.canvas(prompt, &decoding)?.response().len();
    }
    let strategy = model.strategy(&decoding);
    // A strategy without tau is a mistake in the call.
    strategy.clone().with("tau", 0.0)?;
    let settings = bound::BoundSettings {
        strategy,
        taus: args.tau.clone(),
        chains: args.chains as usize,
        length,
        options: model.options(&decoding, 0)?,
        token_budget: args.token_budget as usize,
    };
    let report = bound::run(model.backbone(), model.context(), &prompts, &settings, &mut |progress| {
        let (done, total, message) =
            (progress.done as u64, progress.sets as u64, format!("tau {}", progress.tau));
        host.show(&Progress { unit: "sets", done, total, message })
    });
    host.clear();
    let report = report?;
    if let Some(folder) = &args.out {
        report.write(folder)?;
    }
    host.say(&report.to_string())
}

fn bar(length: u64, what: &str) -> ProgressBar {
    let bar = ProgressBar::new(length);
    let template = format!("{{wide_bar}} {{pos}}/{{len}} {what} {{per_sec}} {{eta}} {{msg}}");
    if let Ok(style) = ProgressStyle::with_template(&template) {
        bar.set_style(style);
    }
    bar
}
