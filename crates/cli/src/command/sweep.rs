//! `demask sweep`: a grid of configurations on validation problems; Figure 1, AUP and the chosen configurations.

use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use demask::decode::StrategySpec;
use demask::decode::registry::{Cost, Registry};
use demask::eval::error::Error;
use demask::eval::run::grid::{FAIR, Grid, LAB, PAPER};
use demask::eval::run::sweep::{self, Problems, Report};
use demask::{Shard, counted};
use serde_json::json;

use crate::evaluation::{EvalArgs, Evaluation, SplitArg, show};
use crate::host::Host;
use crate::shard;

/// Tries a grid of configurations: Figure 1, AUP, and the configuration to use
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The grid: paper (60 of DEMASK, 45 of KLASS), lab, fair (twelve configurations of every decoder), or a TOML file; may be
    /// given several times
    #[arg(long, default_value = "paper", value_name = "NAME|FILE")]
    grid: Vec<String>,
    /// Leave out what this model cannot run, for want of a predictor, a head, an assistant or a trained part, as the built-in
    /// grids do
    #[arg(long)]
    skip_missing: bool,
    /// Only the strategies of these names
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    only: Vec<String>,
    /// Start with a quarter of the problems and drop the worse half of each strategy's configurations twice
    #[arg(long)]
    halving: bool,
    /// Which held-out problems; a choice made on the test problems is no longer a fair report of them
    #[arg(long, value_enum, default_value_t = SplitArg::Validation)]
    split: SplitArg,
    /// Where records, tables and the figure go; an interrupted run continues there
    #[arg(long, short = 'o', value_name = "DIR")]
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
    let shard = args.shard.unwrap_or_default();
    if args.halving && shard != Shard::WHOLE {
        usage!(
            "--halving drops configurations by all problems and cannot be done in parts; leave out one of them"
        );
    }
    let mut grid = grid(args, host)?;
    args.eval.check()?;
    let model = args.eval.open(host)?;
    // A grid of this program's own is for every model; one of the user's is meant as it is.
    if args.skip_missing || args.grid.iter().all(|name| built_in(name).is_some()) {
        let all = grid.configurations.len();
        grid.configurations.retain(|configuration| model.can_run(configuration));
        let left = all - grid.configurations.len();
        if grid.configurations.is_empty() {
            usage!(
                "this model can run none of the grid, for want of a predictor, an assistant or a trained part"
            );
        }
        if left > 0 {
            host.note(&format!(
                "{} left out, for want of a predictor, a head, an assistant or a trained part",
                counted(left, "configuration")
            ));
        }
    }
    for configuration in &grid.configurations {
        configuration.build(model.context())?;
    }
    let evaluation = Evaluation::new(&args.eval, &model, args.split, shard)?;
    if args.eval.dry_run {
        return evaluation.estimate(&grid.configurations, host);
    }
    let mut records = evaluation.records(&args.out)?;
    let problems = Problems { limit: evaluation.limit(), halving: args.halving };
    let suites = |n: usize| evaluation.suites(n).map_err(|error| Error::Data(format!("{error:#}")));
    let outcome = sweep::run(
        evaluation.model,
        &suites,
        &grid,
        &problems,
        &evaluation.plan,
        &mut records,
        &mut |progress| show(host, progress),
    );
    host.clear();
    let ControlFlow::Continue(complete) = outcome? else { return Ok(()) };
    host.result = json!({ "records": records.samples().len() });
    if shard != Shard::WHOLE {
        return host.say(&format!(
            "part {shard} is in {}; put parts together with demask eval merge, then run sweep there for the report\n",
            args.out.display()
        ));
    }
    let report = Report::new(records.samples(), &complete, &grid)?;
    let title = format!(
        "{} on {} ({} each)",
        counted(report.points.len(), "configuration"),
        report.summary.tasks.join(", "),
        counted(problems.limit, "problem")
    );
    report.write(&args.out, "figure1", &title, args.split.name())?;
    let mut out = String::new();
    write!(out, "{}", report.table().plain())?;
    writeln!(out, "{}", sweep::RULE)?;
    writeln!(out, "figure1.svg, chosen.md, summary.csv and the records are in {}", args.out.display())?;
    host.say(&out)
}

fn built_in(name: &str) -> Option<&'static str> {
    match name {
        "paper" => Some(PAPER),
        "lab" => Some(LAB),
        "fair" => Some(FAIR),
        _ => None,
    }
}

fn grid(args: &Args, host: &mut Host<'_>) -> Result<Grid> {
    let mut whole: Option<Grid> = None;
    for name in &args.grid {
        let text = match built_in(name) {
            Some(text) => text.to_owned(),
            None => std::fs::read_to_string(name).with_context(|| {
                format!("cannot read the grid {name} (the built-in ones are paper, lab and fair)")
            })?,
        };
        let grid = Grid::parse(name, &text)?;
        match &mut whole {
            Some(whole) => whole.extend(grid),
            None => whole = Some(grid),
        }
    }
    let Some(mut whole) = whole else { usage!("no grid was named") };
    for name in &args.only {
        Registry::standard().find(name)?;
    }
    if !args.only.is_empty() {
        whole.configurations.retain(|c| args.only.iter().any(|name| name == c.name()));
    }
    let registry = Registry::standard();
    let cost = |c: &StrategySpec| registry.find(c.name()).ok().map(|entry| entry.cost);
    let costly = whole.configurations.iter().filter(|c| cost(c) == Some(Cost::ExtraForwards)).count();
    if costly > 0 {
        host.note(&format!("several passes of the model a step: {}", counted(costly, "configuration")));
    }
    Ok(whole)
}
