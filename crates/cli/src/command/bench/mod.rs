//! `demask bench`: how fast this machine is, and how close the engine comes to it. One file per measurement.
//!
//! Machines are noisy: what is compared runs alternately in one process, several times, and the median is shown.

mod decode;

use anyhow::Result;

/// Measures speed
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Decode(Box<decode::Args>),
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    match &args.command {
        Command::Decode(args) => decode::run(args),
    }
}
