//! `demask quantize`: a checkpoint whose linear maps are bytes, which maps and starts at once.

use std::path::PathBuf;

use anyhow::Result;
use demask::counted;
use demask::model::checkpoint::quantized;
use demask::model::quantize::{self, Settings};
use indicatif::{ProgressBar, ProgressStyle};

use crate::args::folder;

/// Writes a checkpoint with its linear maps as bytes (half the size of bf16)
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Checkpoint folder or Hub name
    pub model: String,
    /// Folder to write
    pub out: PathBuf,
    /// Weights of a row that share a scale
    #[arg(long, default_value_t = quantized::GROUP, value_name = "N")]
    pub group: usize,
    /// Largest file in MiB; more weights make more shards
    #[arg(long = "shard-size", alias = "shard", default_value_t = 4096, value_name = "MIB")]
    pub shard: u64,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let folder = folder(&args.model)?;
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {pos} tensors, {wide_msg}") {
        bar.set_style(style);
    }
    let settings = Settings { group: args.group, max_shard_bytes: args.shard << 20 };
    let written = quantize::folder(&folder, &args.out, &settings, &mut |name| {
        bar.inc(1);
        bar.set_message(name.to_owned());
    });
    bar.finish_and_clear();
    let written = written?;
    println!(
        "{}: {:.2} GiB in {}, int8 in groups of {}",
        args.out.display(),
        written.tensor_bytes as f64 / f64::from(1 << 30),
        counted(written.files.len(), "file"),
        args.group
    );
    Ok(())
}
