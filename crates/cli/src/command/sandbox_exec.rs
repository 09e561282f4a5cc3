//! `demask sandbox-exec`, hidden: the helper a code answer runs behind. It takes its own rights away and becomes Python.

use std::process::ExitCode;

/// Runs a program with its rights taken away (used by demask itself)
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What to run and what to leave it, as JSON
    pub order: String,
}

/// Runs the command.
pub fn run(args: &Args) -> ExitCode {
    demask::eval::sandbox::confine(&args.order)
}
