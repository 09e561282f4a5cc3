//! `demask pull`: a model of the Hub on this machine, quantised if wanted, ready to run. Whatever is interrupted goes on
//! where it was: downloads in the middle of a file, quantising with its folder.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use demask::engine::Description;
use demask::hub_options;
use demask::model::Precision;
use demask::model::quantize::{self, QuantizeSettings};
use indicatif::{ProgressBar, ProgressStyle};

use crate::args::folder;
use crate::machine::size;

/// Downloads a model with its predictor, quantises it if asked, and says how to run it
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Hub name (org/name[@revision]), or a checkpoint folder to quantise
    pub model: String,
    /// Also write it with its linear maps as bytes: half of bf16
    #[arg(long, conflicts_with = "q4")]
    pub int8: bool,
    /// Also write it with four bits a weight: less than a third of bf16
    #[arg(long)]
    pub q4: bool,
    /// Where the quantised checkpoint goes [default: HF_HOME/demask/org--name-int8]
    #[arg(long, short = 'o', value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Largest file of a quantised checkpoint.
const SHARD: u64 = 4 << 30;
/// Canvas whose memory is told.
const LENGTH: usize = 512;

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let from = folder(&args.model)?;
    let precision = match (args.int8, args.q4) {
        (true, _) => Some((Precision::INT8, "int8")),
        (_, true) => Some((Precision::Q4, "q4")),
        _ if args.out.is_some() => usage!("--out is for --int8 or --q4; a download goes to the Hub's cache"),
        _ => None,
    };
    let (place, name) = match precision {
        None => (from, args.model.clone()),
        Some((precision, kind)) => {
            let out = args.out.clone().unwrap_or_else(|| home(&args.model, kind));
            quantized(&from, &out, precision)?;
            let name = out.display().to_string();
            (out, name)
        }
    };
    let described = Description::of(&place, None, LENGTH)?;
    println!("{}", place.display());
    println!("memory      about {} to run", size(described.memory_bytes() as u64));
    let predictor = described.predictor();
    println!(
        "predictor   {}",
        predictor
            .as_deref()
            .unwrap_or("none with it: --predictor names one, demask predictor train makes one")
    );
    println!("run it      demask generate --model {name} \"…\"");
    Ok(())
}

/// Where a quantised model goes by itself.
fn home(model: &str, kind: &str) -> PathBuf {
    let name = model.trim_end_matches('/').replace(['/', '\\', '@'], "--");
    hub_options().home.join("demask").join(format!("{}-{kind}", name.trim_start_matches(['-', '.'])))
}

/// Writes the quantised checkpoint, unless it is there. It is written beside its place and moved there when it is whole.
fn quantized(from: &Path, out: &Path, precision: Precision) -> Result<()> {
    if out.join("config.json").exists() {
        eprintln!("{} is there already", out.display());
        return Ok(());
    }
    let mut begun = out.as_os_str().to_owned();
    begun.push(".part");
    let begun = PathBuf::from(begun);
    if begun.exists() {
        std::fs::remove_dir_all(&begun).with_context(|| format!("cannot remove {}", begun.display()))?;
    }
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} quantising: {pos} tensors, {wide_msg}") {
        bar.set_style(style);
    }
    let settings = QuantizeSettings { precision, max_shard_bytes: SHARD };
    std::fs::create_dir_all(&begun).with_context(|| format!("cannot make {}", begun.display()))?;
    let written = quantize::folder(from, &begun, &settings, &mut |name| {
        bar.inc(1);
        bar.set_message(name.to_owned());
    });
    bar.finish_and_clear();
    written?;
    std::fs::rename(&begun, out).with_context(|| format!("cannot write {}", out.display()))
}
