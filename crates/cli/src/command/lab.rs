//! `demask lab`: every strategy on every task in minutes: a preset of the evaluation runner, one table, one picture.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;
use demask_decode::StrategySpec;
use demask_decode::registry::Cost;
use demask_decode::strategy::ALL;
use demask_eval::frontier::points;
use demask_eval::grid::{Grid, LAB};
use demask_eval::plot;
use demask_eval::runner::Shard;
use demask_eval::summary::Summary;
use demask_eval::sweep;
use demask_eval::tradeoff::Tradeoff;

use crate::evaluating::{EvalArgs, Evaluation, SplitArg};
use crate::loaded::Loaded;

/// Compares every strategy on every task: one table and the accuracy/steps picture
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Problems of each task
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    n: u32,
    /// Try several values of every strategy's main parameter too
    #[arg(long)]
    grid: bool,
    /// Only these strategies; may be given several times [default: all, each at its defaults]
    #[arg(long, short = 's', value_name = "STRATEGY")]
    strategy: Vec<StrategySpec>,
    /// Besides all strategies at their defaults, these
    #[arg(long, value_name = "STRATEGY")]
    with: Vec<StrategySpec>,
    /// Which held-out problems
    #[arg(long, value_enum, default_value_t = SplitArg::Test)]
    split: SplitArg,
    /// Where records, table and picture go; an interrupted run continues there
    #[arg(long, short = 'o', default_value = "lab", value_name = "DIR")]
    out: PathBuf,
    #[command(flatten)]
    eval: EvalArgs,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    if args.eval.limit.is_some() {
        usage!("the number of problems is --n here");
    }
    args.eval.check()?;
    let loaded = Loaded::open(&args.eval.model)?;
    let strategies = strategies(args, &loaded)?;
    let eval = EvalArgs { limit: Some(args.n), ..args.eval.clone() };
    let evaluation = Evaluation::new(&eval, &loaded, args.split, Shard::default())?;
    let mut records = evaluation.records(&args.out)?;
    evaluation.run(&strategies, &mut records)?;
    let samples: Vec<_> =
        records.samples().iter().filter(|s| strategies.contains(&s.strategy)).cloned().collect();
    let summary = Summary::new(&samples, None)?;
    summary.write(&args.out)?;
    let points = points(&summary);
    let title =
        format!("{} on {} ({} problems each)", "Accuracy and steps", summary.tasks.join(", "), args.n);
    let report = sweep::Report { points, summary };
    let mut out = std::io::stdout().lock();
    write!(out, "{}", report.summary.table().plain())?;
    if args.grid {
        report.write(&args.out, "picture", &title)?;
        write!(out, "\n{}\n{}", sweep::RULE, report.table().plain())?;
    } else {
        report.summary.write(&args.out)?;
        let figure = Tradeoff { title, points: &report.points, chosen: Vec::new() };
        plot::write(&args.out.join("picture"), &figure)?;
    }
    writeln!(out, "table.md, summary.csv, picture.svg and the records are in {}", args.out.display())?;
    Ok(())
}

/// All strategies that this model can run, at their defaults or over their grids.
fn strategies(args: &Args, loaded: &Loaded) -> Result<Vec<StrategySpec>> {
    let mut all = args.strategy.clone();
    if all.is_empty() {
        let grid = if args.grid { Grid::parse("the lab's grid", LAB)?.configurations } else { Vec::new() };
        for entry in ALL {
            let own: Vec<_> = grid.iter().filter(|c| c.name() == entry.name).cloned().collect();
            match own.is_empty() {
                true => all.push(entry.name.parse()?),
                false => all.extend(own),
            }
        }
        let context = &loaded.context;
        let cost = |spec: &StrategySpec| context.registry.find(spec.name()).map(|entry| entry.cost);
        let usable =
            |spec: &StrategySpec| context.predictor.is_some() || !matches!(cost(spec), Ok(Cost::Predictor));
        if all.iter().any(|s| !usable(s)) {
            eprintln!("demask is left out: this model has no dependency predictor (give --predictor FILE)");
            all.retain(usable);
        }
    }
    all.extend(args.with.iter().cloned());
    for strategy in &all {
        strategy.build(&loaded.context)?;
    }
    Ok(all)
}
