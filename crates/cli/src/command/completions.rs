//! `demask completions`: shell completions.

use std::io::Write;

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
    // Into memory first: the generator panics when its reader goes away.
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut crate::Cli::command(), "demask", &mut text);
    std::io::stdout().lock().write_all(&text)?;
    Ok(())
}
