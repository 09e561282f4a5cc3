//! `demask predictor eval`: a predictor against the dependency that is measured, and against decoding without it.

use anyhow::Result;
use demask::decode::StrategySpec;
use demask::eval::run::compare::compare;
use demask::eval::run::suite::{Generated, Suite};
use demask::eval::task::Split;
use demask::train::fit::Report;
use demask::{Decoding, Model, counted};

use crate::args::ModelArgs;
use crate::command::train::predictor::warn_if_useless;
use crate::host::Host;
use crate::measured::MeasuredArgs;

/// Responses that are measured, and problems that are decoded, where no limit is given.
const RESPONSES: u32 = 32;
const PROBLEMS: u32 = 20;

/// Says how good a predictor is: error against a constant, by distance and what cannot be explained; accuracy and steps
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    measured: MeasuredArgs,
    /// Responses to measure (two masks each, each drawn twice), and test problems of the task [default: 32 and 20]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..))]
    limit: Option<u32>,
    /// Task on which decoders are compared; `none` compares nothing
    #[arg(long, default_value = "arith", value_name = "TASK")]
    task: String,
    /// Decoders that are compared; may be given several times [default: demask, threshold:threshold=0.95 and entropy]
    #[arg(long, short = 's', value_name = "STRATEGY")]
    strategy: Vec<StrategySpec>,
}

/// Runs the command.
pub fn run(args: &Args, host: &mut Host<'_>) -> Result<()> {
    let model = host.open(&args.model)?;
    let Some(predictor) = model.predictor() else {
        usage!("there is no predictor to evaluate; name one with --predictor FILE|DIR|NAME");
    };
    let examples = args.measured.examples(&model, args.limit.unwrap_or(RESPONSES), 1.0)?;
    let report = Report::of(predictor, &examples)?;
    host.say(&report.to_string())?;
    warn_if_useless(&report, host);
    if args.task == "none" {
        return Ok(());
    }
    side_by_side(args, &model, host)
}

/// Accuracy and forward passes of decoders on test problems.
fn side_by_side(args: &Args, model: &Model, host: &mut Host<'_>) -> Result<()> {
    let Some((task, fresh)) = Generated::find(&args.task) else { usage!("--task takes one task, or none") };
    let (split, limit) = (if fresh { Split::Fresh } else { Split::Test }, args.limit.unwrap_or(PROBLEMS));
    let suite = Generated::new(task, split, limit as usize, model.text(), None)?;
    let mut strategies = args.strategy.clone();
    if strategies.is_empty() {
        for name in ["demask", "threshold:threshold=0.95", "entropy"] {
            strategies.push(name.parse()?);
        }
    }
    host.say(&format!("{} of {}:\n", counted(suite.len(), "test problem"), args.task))?;
    for strategy in &strategies {
        let compared = compare(model, &suite, strategy, &Decoding::default())?;
        let (percent, forwards) = (100.0 * compared.accuracy(), compared.forwards_each());
        host.say(&format!(
            "  {:<26} {percent:5.1} % right, {forwards:.1} forward passes each\n",
            strategy.to_string()
        ))?;
    }
    Ok(())
}
