//! `demask train`: what decoding needs besides the backbone, one part per file.

mod adjust;
mod distill;
mod policy;
pub(crate) mod predictor;
mod prior;
mod scope;
mod source;
mod stability;
mod terminal;

use anyhow::Result;

use crate::host::Host;

/// Trains what decoding needs besides the backbone
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Predictor(Box<predictor::PredictorArgs>),
    Stability(Box<stability::StabilityArgs>),
    Adjust(Box<adjust::AdjustArgs>),
    Policy(Box<policy::PolicyArgs>),
    Prior(Box<prior::PriorArgs>),
    Distill(Box<distill::DistillArgs>),
    Scope(scope::ScopeArgs),
}

/// Runs the command.
pub fn run(args: &Args, host: &mut Host<'_>) -> Result<()> {
    match &args.command {
        Command::Predictor(args) => predictor::run(args, host),
        _ if host.is_program() => usage!("of train, only predictor is a command that a program can call"),
        Command::Stability(args) => stability::run(args, host),
        Command::Adjust(args) => adjust::run(args),
        Command::Policy(args) => policy::run(args),
        Command::Prior(args) => prior::run(args),
        Command::Distill(args) => distill::run(args),
        Command::Scope(args) => scope::run(args),
    }
}
