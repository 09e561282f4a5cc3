//! `demask lab`: every strategy on every task in minutes: a preset of the evaluation runner, one table, one picture.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::Result;
use demask::decode::StrategySpec;
use demask::eval::report::frontier::points;
use demask::eval::report::paired;
use demask::eval::report::summary::Summary;
use demask::eval::report::tradeoff::Tradeoff;
use demask::eval::run::grid::{Grid, LAB};
use demask::eval::run::pick::Picked;
use demask::eval::run::sweep;
use demask::plot;
use demask::{Model, Shard, counted};
use serde_json::json;

use crate::evaluation::{EvalArgs, Evaluation, SplitArg};
use crate::host::Host;
use crate::shard;

/// Problems of each task where no limit is given: enough for a table within minutes.
const PROBLEMS: u32 = 100;

/// Compares every strategy on every task: one table and the accuracy/steps picture
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Try several values of every strategy's main parameter too
    #[arg(long)]
    grid: bool,
    /// Only these strategies; may be given several times [default: all, each at its defaults]
    #[arg(long, short = 's', value_name = "STRATEGY")]
    strategy: Vec<StrategySpec>,
    /// Besides all strategies at their defaults, or what was chosen, these; a table marks rows that no rule picked
    #[arg(long, value_name = "STRATEGY")]
    with: Vec<StrategySpec>,
    /// What a sweep on validation problems chose (its folder): these run once, and the table says what picked each row,
    /// with paired differences, intervals and exact p-values
    #[arg(long, value_name = "DIR", conflicts_with_all = ["grid", "strategy"])]
    chosen: Option<PathBuf>,
    /// What differences are taken to, with --chosen [default: entropy, one token]
    #[arg(long, value_name = "STRATEGY", requires = "chosen")]
    reference: Option<StrategySpec>,
    /// Which held-out problems
    #[arg(long, value_enum, default_value_t = SplitArg::Test)]
    split: SplitArg,
    /// Where records, table and picture go; an interrupted run continues there
    #[arg(long, short = 'o', default_value = "lab", value_name = "DIR")]
    out: PathBuf,
    /// Only part i of n of the problems, i from 0; auto asks the cluster's scheduler. Put parts together with `demask
    /// eval merge` and run this command on the merged folder for the report
    #[arg(long, value_name = "I/N|auto", value_parser = shard::read)]
    shard: Option<Shard>,
    #[command(flatten)]
    eval: EvalArgs,
}

/// Runs the command.
pub fn run(args: &Args, host: &mut Host<'_>) -> Result<()> {
    args.eval.check()?;
    let model = args.eval.open(host)?;
    let shard = args.shard.unwrap_or_default();
    if let Some(folder) = &args.chosen {
        if shard != Shard::WHOLE {
            usage!("--chosen compares all problems and cannot be done in parts; leave out --shard");
        }
        return chosen(args, &model, &Picked::read(folder)?, host);
    }
    let strategies = strategies(args, &model, host)?;
    let limit = args.eval.limit.unwrap_or(PROBLEMS);
    let eval = EvalArgs { limit: Some(limit), ..args.eval.clone() };
    let evaluation = Evaluation::new(&eval, &model, args.split, shard)?;
    if eval.dry_run {
        return evaluation.estimate(&strategies, host);
    }
    let mut records = evaluation.records(&args.out)?;
    if evaluation.run(&strategies, &mut records, host)?.is_break() {
        return Ok(());
    }
    host.result = json!({ "records": records.samples().len() });
    if shard != Shard::WHOLE {
        return host.say(&format!(
            "part {shard} is in {}; put parts together with demask eval merge, then run lab there for the report\n",
            args.out.display()
        ));
    }
    let samples: Vec<_> =
        records.samples().iter().filter(|s| strategies.contains(&s.strategy)).cloned().collect();
    let summary = Summary::new(&samples, None)?;
    summary.write(&args.out)?;
    let points = points(&summary);
    let title = format!(
        "Accuracy and steps on {} ({} each)",
        summary.tasks.join(", "),
        counted(limit as usize, "problem")
    );
    let report = sweep::Report::whole(points, summary);
    let mut out = String::new();
    write!(out, "{}", report.summary.table().plain())?;
    if args.grid {
        report.write(&args.out, "picture", &title, args.split.name())?;
        write!(out, "\n{}\n{}", sweep::RULE, report.table().plain())?;
    } else {
        report.summary.write(&args.out)?;
        let figure = Tradeoff { title, points: &report.points, chosen: Vec::new() };
        plot::write(&args.out.join("picture"), &figure)?;
    }
    writeln!(out, "table.md, summary.csv, picture.svg and the records are in {}", args.out.display())?;
    host.say(&out)
}

/// Runs what was chosen on other problems, once, and says who picked what.
fn chosen(args: &Args, model: &Model, picked: &Picked, host: &mut Host<'_>) -> Result<()> {
    if picked.split == args.split.name() {
        host.note(&format!(
            "warning: this was chosen on {} problems too, so the table is no fair report of them",
            picked.split
        ));
    }
    let reference = model.meant(args.reference.clone().map_or_else(|| "entropy".parse(), Ok)?);
    let mut strategies = vec![reference.clone()];
    let with = args.with.iter().map(|spelled| model.meant(spelled.clone()));
    for strategy in picked.picks.iter().map(|pick| pick.strategy.clone()).chain(with) {
        strategy.build(model.context())?;
        if !strategies.contains(&strategy) {
            strategies.push(strategy);
        }
    }
    let limit = args.eval.limit.unwrap_or(PROBLEMS);
    let eval = EvalArgs { limit: Some(limit), ..args.eval.clone() };
    let evaluation = Evaluation::new(&eval, model, args.split, Shard::default())?;
    if eval.dry_run {
        return evaluation.estimate(&strategies, host);
    }
    picked.judge(&args.out)?;
    let mut records = evaluation.records(&args.out)?;
    if evaluation.run(&strategies, &mut records, host)?.is_break() {
        return Ok(());
    }
    host.result = json!({ "records": records.samples().len() });
    let samples: Vec<_> =
        records.samples().iter().filter(|s| strategies.contains(&s.strategy)).cloned().collect();
    Summary::new(&samples, Some(&reference))?.write(&args.out)?;
    let table = paired::table(&samples, picked, &reference)?;
    table.write(&args.out.join("compare"))?;
    let mut out = String::new();
    writeln!(out, "{}\n{}", table.plain(), table.caption)?;
    writeln!(out, "compare.md, table.md, summary.csv and the records are in {}", args.out.display())?;
    host.say(&out)
}

/// All strategies that this model can run, at their defaults or over their grids.
fn strategies(args: &Args, model: &Model, host: &mut Host<'_>) -> Result<Vec<StrategySpec>> {
    let mut all = host.strategies(&args.strategy);
    if all.is_empty() {
        let grid = if args.grid { Grid::parse("the lab's grid", LAB)?.configurations } else { Vec::new() };
        for entry in model.context().registry.entries() {
            let own: Vec<_> = grid.iter().filter(|c| c.name() == entry.name).cloned().collect();
            match own.is_empty() {
                true => all.push(entry.name.parse()?),
                false => all.extend(own),
            }
        }
        // What needs a second model or a trained part that this one does not have.
        let (usable, left): (Vec<_>, Vec<_>) = all.into_iter().partition(|spec| model.can_run(spec));
        if !left.is_empty() {
            let names: Vec<&str> = left.iter().map(|spec| spec.name()).collect();
            host.note(&format!(
                "{}: left out, for want of a predictor, an assistant or a trained part",
                names.join(", ")
            ));
        }
        all = usable;
    }
    all.extend(args.with.iter().cloned());
    all = all.into_iter().map(|spelled| model.meant(spelled)).collect();
    for strategy in &all {
        strategy.build(model.context())?;
    }
    Ok(all)
}
