//! `demask synthesize`: a checkpoint of any shape with random weights, to measure speed and memory
//! without the real ones. Loaded by the same code, with no special case.

mod tokenizer;

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use demask::model::Spec;
use demask::model::arch;
use demask::model::checkpoint::synthetic::{self, Init, Tensor};
use demask::model::checkpoint::{Dtype, write};
use demask::model::layer::Use;
use demask::model::shapes::{self, Shape};

use crate::args::DtypeArg;

/// Writes a checkpoint with random weights
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folder to write
    pub out: PathBuf,
    /// Whose shape to use, as `--shape list` lists them
    #[arg(long, default_value = "dream-7b", value_parser = shape, value_name = "NAME")]
    pub shape: &'static Shape,
    /// A config.json whose shape to use instead
    #[arg(long, value_name = "FILE", conflicts_with = "shape")]
    pub config: Option<PathBuf>,
    /// Number of layers instead of the config's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=512))]
    pub layers: Option<u16>,
    /// Copy tokenizer files from this folder [default: a tokenizer with one token per byte is made up]
    #[arg(long, value_name = "DIR")]
    pub tokenizer: Option<PathBuf>,
    /// Precision of the weights
    #[arg(long, value_enum, default_value_t = DtypeArg::Bf16)]
    pub dtype: DtypeArg,
    /// Largest file in MiB; more weights make more shards
    #[arg(long = "shard-size", alias = "shard", default_value_t = 4096, value_name = "MIB")]
    pub shard: u64,
    /// Only print the tensors, with their shapes
    #[arg(long)]
    pub dry_run: bool,
    /// Seed of the weights
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
}

/// The shape of a released model by its name.
pub(crate) fn shape(name: &str) -> Result<&'static Shape, String> {
    shapes::find(name).ok_or_else(|| {
        let known: Vec<String> =
            shapes::ALL.iter().map(|s| format!("\n  {:<20} {}", s.name, s.summary)).collect();
        format!("the shapes are{}", known.concat())
    })
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let mut config = match &args.config {
        None => args.shape.config(),
        Some(path) => {
            let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
            serde_json::from_slice(&text)
                .with_context(|| format!("{} is not readable JSON", path.display()))?
        }
    };
    if let Some(layers) = args.layers {
        config = shapes::with_layers(config, layers.into());
    }
    let text = serde_json::to_string_pretty(&config)?;
    let spec = Spec::from_json(&text, args.config.as_deref().unwrap_or("config.json".as_ref()))?;
    let tensors = tensors(&spec)?;
    if args.dry_run {
        let mut out = std::io::stdout().lock();
        return Ok(tensors.iter().try_for_each(|t| writeln!(out, "{} {:?}", t.name, t.shape))?);
    }
    if args.out.join("config.json").exists() {
        bail!("{} already holds a checkpoint; name another folder", args.out.display());
    }
    let dtype = match args.dtype {
        DtypeArg::F32 => Dtype::F32,
        DtypeArg::Bf16 => Dtype::Bf16,
        DtypeArg::F16 => Dtype::F16,
        DtypeArg::Int8 | DtypeArg::Q4 => {
            usage!("write the checkpoint as bf16 and quantise it with `demask quantize`")
        }
    };
    std::fs::create_dir_all(&args.out).with_context(|| format!("cannot make {}", args.out.display()))?;
    let options = write::Options { max_shard_bytes: args.shard << 20, ..write::Options::default() };
    synthetic::folder(&args.out, &tensors, dtype, args.seed, &options)?;
    match &args.tokenizer {
        Some(from) => copy_tokenizer(from, &args.out)?,
        None => tokenizer::write(&args.out, &spec, tokens(&text).unwrap_or(spec.vocab))?,
    }
    // Last, so that an interrupted run leaves a folder that is not a checkpoint.
    write::replace(&args.out.join("config.json"), |out| out.write_all(text.as_bytes()))?;
    let millions = |count: usize| format!("{:.1} M", count as f64 / 1e6);
    match spec.active_parameters() {
        active if active < spec.parameters() => {
            let (all, active) = (millions(spec.parameters()), millions(active));
            eprintln!("{}: {all} parameters, {active} of them active", args.out.display());
        }
        all => eprintln!("{}: {} parameters", args.out.display(), millions(all)),
    }
    Ok(())
}

fn copy_tokenizer(from: &Path, to: &Path) -> Result<()> {
    if !from.join("tokenizer.json").exists() {
        bail!("{} has no tokenizer.json to copy", from.display());
    }
    for name in ["tokenizer.json", "tokenizer_config.json", "generation_config.json"] {
        let path = from.join(name);
        if path.exists() {
            std::fs::copy(&path, to.join(name)).with_context(|| format!("cannot copy {}", path.display()))?;
        }
    }
    Ok(())
}

fn tensors(spec: &Spec) -> Result<Vec<Tensor>> {
    let mut all = Vec::new();
    for parameter in arch::parameters(spec)? {
        for (index, (name, shape)) in parameter.tensors().enumerate() {
            let init = match shape.as_slice() {
                // Keeps activations of every layer at about the size of its input.
                [_, width] => Init::Normal(1.0 / (*width as f32).sqrt()),
                _ if index > 0 || parameter.kind == Use::Added => Init::Zeros,
                _ => Init::Ones,
            };
            all.push(Tensor { name, shape, init });
        }
    }
    Ok(all)
}

/// How many tokens a config speaks of; the embedding may have more rows.
fn tokens(config: &str) -> Option<usize> {
    let config: serde_json::Value = serde_json::from_str(config).ok()?;
    config.get("vocab_size")?.as_u64()?.try_into().ok()
}
