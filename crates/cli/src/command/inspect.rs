//! `demask inspect`: what a checkpoint is, and what running it will take.

use std::io::Write;

use anyhow::Result;
use demask::engine::Description;

use crate::args::{DtypeArg, folder};

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
    /// Precision of the weights [default: as stored]
    #[arg(long, value_enum)]
    pub dtype: Option<DtypeArg>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let folder = folder(&args.model)?;
    let description = Description::of(&folder, args.dtype.map(DtypeArg::precision), args.length)?;
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&description)?)?;
    } else {
        write!(out, "{description}")?;
    }
    Ok(())
}
