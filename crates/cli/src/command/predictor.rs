//! `demask predictor`: a dependency predictor for a model in one command, and how good one is.

mod eval;
mod plan;
mod train;

use anyhow::Result;

use crate::host::Host;

/// Trains a dependency predictor for a model, or says how good one is
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Train(Box<train::Args>),
    Eval(Box<eval::Args>),
}

/// Runs the command.
pub fn run(args: &Args, host: &mut Host<'_>) -> Result<()> {
    match &args.command {
        Command::Train(args) => train::run(args, host),
        Command::Eval(args) => eval::run(args, host),
    }
}
