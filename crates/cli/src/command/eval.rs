//! `demask eval`: a model's strategies on tasks, one record per problem, and the table of it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Result;
use demask::counted;
use demask::decode::StrategySpec;
use demask::eval::report::summary::Summary;
use demask::eval::report::variety;
use demask::eval::run;
use demask::{Decoding, Shard};
use serde_json::json;

use crate::args::announce;
use crate::evaluation::{EvalArgs, Evaluation, SplitArg};
use crate::host::Host;
use crate::shard;

/// Evaluates strategies on tasks: accuracy, steps, tokens per forward pass, time, speed-up
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    run: Run,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Merge(Merge),
}

/// Puts the records of shards together into one folder
#[derive(Debug, clap::Args)]
struct Merge {
    /// Folders of the shards, or files of their records
    #[arg(required = true, value_name = "DIR")]
    from: Vec<PathBuf>,
    /// Folder to write
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Strategy that speed-ups are relative to
    #[arg(long, value_name = "STRATEGY")]
    baseline: Option<StrategySpec>,
}

#[derive(Debug, clap::Args)]
struct Run {
    /// Where records and tables go; an interrupted run continues there, and more strategies or problems may be added
    #[arg(long, short = 'o', value_name = "DIR")]
    out: Option<PathBuf>,
    /// Decoder, NAME[:key=value,…]; may be given several times [default: demask, or entropy without a predictor]
    #[arg(long, short = 's', value_name = "STRATEGY")]
    strategy: Vec<StrategySpec>,
    /// Strategy that speed-ups are relative to [default: entropy if it is among them, else the first]
    #[arg(long, value_name = "STRATEGY")]
    baseline: Option<StrategySpec>,
    /// Which held-out problems
    #[arg(long, value_enum, default_value_t = SplitArg::Test)]
    split: SplitArg,
    /// Only part i of n of the problems, i from 0; auto asks the cluster's scheduler. Put parts together with `demask
    /// eval merge`
    #[arg(long, value_name = "I/N|auto", value_parser = shard::read)]
    shard: Option<Shard>,
    /// Also print accuracy by kind of problem
    #[arg(long)]
    kinds: bool,
    #[command(flatten)]
    eval: EvalArgs,
}

/// Runs the command.
pub fn run(args: &Args, host: &mut Host<'_>) -> Result<()> {
    match (&args.what, &args.run.out) {
        (Some(What::Merge(merge)), _) => merge_shards(merge, host),
        (None, Some(out)) => evaluate(&args.run, out, host),
        (None, None) => usage!("say where the records go with --out DIR"),
    }
}

fn evaluate(args: &Run, folder: &Path, host: &mut Host<'_>) -> Result<()> {
    args.eval.check()?;
    let model = args.eval.open(host)?;
    let mut strategies: Vec<_> =
        host.strategies(&args.strategy).into_iter().map(|strategy| model.meant(strategy)).collect();
    let baseline = args.baseline.clone().map(|baseline| model.meant(baseline));
    if let Some(baseline) = baseline.as_ref().filter(|b| !strategies.contains(b)) {
        strategies.insert(0, baseline.clone());
    }
    if strategies.is_empty() {
        announce(&model, &Decoding::default());
        strategies.push(model.strategy(&Decoding::default()));
    }
    // A strategy that lacks something (a predictor) is refused before the first forward pass.
    for strategy in &strategies {
        strategy.build(model.context())?;
    }
    let evaluation = Evaluation::new(&args.eval, &model, args.split, args.shard.unwrap_or_default())?;
    if args.eval.dry_run {
        return evaluation.estimate(&strategies, host);
    }
    let mut records = evaluation.records(folder)?;
    if evaluation.run(&strategies, &mut records, host)?.is_break() {
        return Ok(());
    }
    let summary = Summary::new(records.samples(), baseline.as_ref())?;
    summary.write(folder)?;
    let mut out = String::new();
    write!(out, "{}", summary.table().plain())?;
    if let Some(table) = summary.fresh_table() {
        write!(out, "\n{}", table.plain())?;
    }
    if let Some(table) = variety::table(records.samples()) {
        table.write(&folder.join("variety"))?;
        write!(out, "\n{}", table.plain())?;
    }
    if args.kinds {
        write!(out, "\n{}", summary.kinds_table().plain())?;
    }
    writeln!(out, "records and tables are in {}", folder.display())?;
    host.result = json!({ "records": records.samples().len() });
    host.say(&out)
}

fn merge_shards(args: &Merge, host: &mut Host<'_>) -> Result<()> {
    let count = run::merge(&args.from, &args.out)?;
    let (_, samples) = run::Records::read(&args.out)?;
    let summary = Summary::new(&samples, args.baseline.as_ref())?;
    summary.write(&args.out)?;
    host.result = json!({ "records": count });
    host.say(&format!(
        "{}{} and the tables are in {}\n",
        summary.table().plain(),
        counted(count, "record"),
        args.out.display()
    ))
}
