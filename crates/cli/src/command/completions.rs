//! `demask completions`: shell completions.

use anyhow::Result;
use clap::CommandFactory;
use clap_complete::Shell;

/// Prints shell completions
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shell
    pub shell: Shell,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    clap_complete::generate(args.shell, &mut crate::Cli::command(), "demask", &mut std::io::stdout());
    Ok(())
}
