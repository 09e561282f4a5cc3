//! `demask eval`: a model's strategies on tasks, one record per problem, and the table of it.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Result;
use demask::counted;
use demask::decode::StrategySpec;
use demask::eval::report::summary::Summary;
use demask::eval::report::variety;
use demask::eval::run;
use demask::{Decoding, Shard};

use crate::args::announce;
use crate::evaluation::{EvalArgs, Evaluation, SplitArg};

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
    /// Folders of the shards
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
    /// Only part i of n of the problems, i from 0; put parts together with `demask eval merge`
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
    /// Also print accuracy by kind of problem
    #[arg(long)]
    kinds: bool,
    #[command(flatten)]
    eval: EvalArgs,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    match (&args.what, &args.run.out) {
        (Some(What::Merge(merge)), _) => merge_shards(merge),
        (None, Some(out)) => evaluate(&args.run, out),
        (None, None) => usage!("say where the records go with --out DIR"),
    }
}

fn evaluate(args: &Run, folder: &Path) -> Result<()> {
    args.eval.check()?;
    let mut strategies = args.strategy.clone();
    if let Some(baseline) = args.baseline.as_ref().filter(|b| !strategies.contains(b)) {
        strategies.insert(0, baseline.clone());
    }
    let model = args.eval.open()?;
    if strategies.is_empty() {
        announce(&model, &Decoding::default());
        strategies.push(model.strategy(&Decoding::default()));
    }
    // A strategy that lacks something (a predictor) is refused before the first forward pass.
    for strategy in &strategies {
        strategy.build(model.context())?;
    }
    let evaluation = Evaluation::new(&args.eval, &model, args.split, args.shard.unwrap_or_default())?;
    let mut records = evaluation.records(folder)?;
    evaluation.run(&strategies, &mut records)?;
    let summary = Summary::new(records.samples(), args.baseline.as_ref())?;
    summary.write(folder)?;
    let mut out = std::io::stdout().lock();
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
    Ok(())
}

fn merge_shards(args: &Merge) -> Result<()> {
    let count = run::merge(&args.from, &args.out)?;
    let (_, samples) = run::Records::read(&args.out)?;
    let summary = Summary::new(&samples, args.baseline.as_ref())?;
    summary.write(&args.out)?;
    let mut out = std::io::stdout().lock();
    write!(out, "{}", summary.table().plain())?;
    writeln!(out, "{} and the tables are in {}", counted(count, "record"), args.out.display())?;
    Ok(())
}
