//! `demask inspect`: what a checkpoint is, and what running it will take.

use std::io::Write;

use anyhow::Result;
use demask::engine::Description;

use crate::args::ModelArgs;

/// Describes a checkpoint: architecture, sizes, memory, ids, template
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Checkpoint folder or Hub name
    pub model: String,
    /// Canvas length to predict the memory for
    #[arg(long, default_value_t = 512, value_name = "N")]
    pub length: usize,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    flags: ModelArgs,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let folder = ModelArgs { model: Some(args.model.clone()), ..args.flags.clone() }.folder()?;
    let description = Description::of(&folder, args.flags.load_options()?.dtype, args.length)?;
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&description)?)?;
    } else {
        write!(out, "{description}")?;
    }
    Ok(())
}
