//! `demask quantize`: a checkpoint whose linear maps are bytes or four bits, which maps and starts at once.

use std::path::{Path, PathBuf};

use anyhow::Result;
use demask::counted;
use demask::model::checkpoint::quantized::Packing;
use demask::model::importance::{self, Inputs};
use demask::model::quantize::{self, QuantizeSettings};
use demask::model::{LoadOptions, Precision};
use indicatif::{ProgressBar, ProgressStyle};

use crate::args::folder;
use crate::masked;

/// Writes a checkpoint with its linear maps as bytes (half the size of bf16) or as four bits
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Checkpoint folder or Hub name
    pub model: String,
    /// Folder to write
    pub out: PathBuf,
    /// Bits of a weight
    #[arg(long, value_enum, default_value_t = Bits::Int8)]
    pub dtype: Bits,
    /// Weights of a row that share a scale [default: 128; q4 in multiples of 128 has a factor for every 32]
    #[arg(long, value_name = "N")]
    pub group: Option<usize>,
    /// With q4: let the model read texts first (task:NAME, a file or folder) and round for what its maps are given
    #[arg(long, value_name = "DATA")]
    pub data: Option<String>,
    /// Texts of --data
    #[arg(long, alias = "texts", default_value_t = 128, value_name = "N", requires = "data")]
    pub limit: usize,
    /// Seed of the texts
    #[arg(long, default_value_t = 0, requires = "data")]
    pub seed: u64,
    /// Largest file in MiB; more weights make more shards
    #[arg(long = "shard-size", alias = "shard", default_value_t = 4096, value_name = "MIB")]
    pub shard: u64,
}

/// What weights become.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Bits {
    /// Bytes
    Int8,
    /// Four bits, the head bytes
    Q4,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let folder = folder(&args.model)?;
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {pos} tensors, {wide_msg}") {
        bar.set_style(style);
    }
    let (name, group, precision) = match args.dtype {
        Bits::Int8 => {
            let group = args.group.unwrap_or(Packing::INT8.group);
            ("int8", group, Precision::Int8 { group })
        }
        Bits::Q4 => {
            let group = args.group.unwrap_or(Packing::Q4.group);
            ("q4", group, Precision::Q4 { group })
        }
    };
    let settings = QuantizeSettings { precision, max_shard_bytes: args.shard << 20 };
    let inputs = inputs(args, &folder)?;
    let written = quantize::weighed(&folder, &args.out, &settings, &inputs, &mut |name| {
        bar.inc(1);
        bar.set_message(name.to_owned());
    });
    bar.finish_and_clear();
    let written = written?;
    println!(
        "{}: {:.2} GiB in {}, {name} in groups of {group}",
        args.out.display(),
        written.tensor_bytes as f64 / f64::from(1 << 30),
        counted(written.files.len(), "file"),
    );
    let assistant = folder.join("assistant");
    if assistant.is_dir() {
        eprintln!("note: the assistant is not copied; name it with --assistant {}", assistant.display());
    }
    Ok(())
}

/// What the maps are given while the model reads the texts; nothing without any.
fn inputs(args: &Args, folder: &Path) -> Result<Inputs> {
    let Some(data) = &args.data else { return Ok(Inputs::default()) };
    if args.dtype != Bits::Q4 {
        usage!("--data chooses the scales of q4; int8 is rounded the same without");
    }
    let (model, inputs) = importance::watched(folder, &LoadOptions::default())?;
    let responses = masked::responses(data, args.limit, args.seed, folder, &model)?;
    masked::marginals(&model, &responses, &mut |_| ())?;
    let (texts, spread) = (counted(responses.len(), "text"), inputs.spread());
    eprintln!("{texts} read; the largest input of a map is up to {spread:.0} times the mean square of all");
    Ok(inputs)
}
