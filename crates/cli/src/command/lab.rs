//! `demask lab`: every strategy on every task in minutes: a preset of the evaluation runner, one table, one picture.

use std::io::Write;
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

use crate::evaluation::{EvalArgs, Evaluation, SplitArg};

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
    #[command(flatten)]
    eval: EvalArgs,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    args.eval.check()?;
    let model = args.eval.open()?;
    if let Some(folder) = &args.chosen {
        return chosen(args, &model, &Picked::read(folder)?);
    }
    let strategies = strategies(args, &model)?;
    let limit = args.eval.limit.unwrap_or(PROBLEMS);
    let eval = EvalArgs { limit: Some(limit), ..args.eval.clone() };
    let evaluation = Evaluation::new(&eval, &model, args.split, Shard::default())?;
    let mut records = evaluation.records(&args.out)?;
    evaluation.run(&strategies, &mut records)?;
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
    let report = sweep::Report { points, summary };
    let mut out = std::io::stdout().lock();
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
    Ok(())
}

/// Runs what was chosen on other problems, once, and says who picked what.
fn chosen(args: &Args, model: &Model, picked: &Picked) -> Result<()> {
    if picked.split == args.split.name() {
        eprintln!(
            "warning: this was chosen on {} problems too, so the table is no fair report of them",
            picked.split
        );
    }
    let reference = args.reference.clone().map_or_else(|| "entropy".parse(), Ok)?;
    let mut strategies = vec![reference.clone()];
    for strategy in picked.picks.iter().map(|pick| &pick.strategy).chain(&args.with) {
        strategy.build(model.context())?;
        if !strategies.contains(strategy) {
            strategies.push(strategy.clone());
        }
    }
    picked.judge(&args.out)?;
    let limit = args.eval.limit.unwrap_or(PROBLEMS);
    let eval = EvalArgs { limit: Some(limit), ..args.eval.clone() };
    let evaluation = Evaluation::new(&eval, model, args.split, Shard::default())?;
    let mut records = evaluation.records(&args.out)?;
    evaluation.run(&strategies, &mut records)?;
    let samples: Vec<_> =
        records.samples().iter().filter(|s| strategies.contains(&s.strategy)).cloned().collect();
    Summary::new(&samples, Some(&reference))?.write(&args.out)?;
    let table = paired::table(&samples, picked, &reference)?;
    table.write(&args.out.join("compare"))?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}\n{}", table.plain(), table.caption)?;
    writeln!(out, "compare.md, table.md, summary.csv and the records are in {}", args.out.display())?;
    Ok(())
}

/// All strategies that this model can run, at their defaults or over their grids.
fn strategies(args: &Args, model: &Model) -> Result<Vec<StrategySpec>> {
    let mut all = args.strategy.clone();
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
            eprintln!(
                "{}: left out, for want of a predictor, an assistant or a trained part",
                names.join(", ")
            );
        }
        all = usable;
    }
    all.extend(args.with.iter().cloned());
    for strategy in &all {
        strategy.build(model.context())?;
    }
    Ok(all)
}
