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
use serde_json::{Value, json};

use crate::args::DtypeArg;

/// Writes a checkpoint with random weights
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folder to write
    pub out: PathBuf,
    /// Whose shape to use
    #[arg(long, value_enum, default_value_t = Shape::Dream7b)]
    pub shape: Shape,
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

/// Shapes of released models.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Shape {
    /// Dream-v0-7B: hidden 3584, 28 layers
    #[value(name = "dream-7b")]
    Dream7b,
    /// LLaDA-8B: hidden 4096, 32 layers
    #[value(name = "llada-8b")]
    Llada8b,
}

/// LLaDA-8B's shape, as its config.json gives it.
fn llada_8b() -> Value {
    json!({
        "architectures": ["LLaDAModelLM"], "model_type": "llada", "block_type": "llama", "activation_type": "silu",
        "layer_norm_type": "rms", "vocab_size": 126464, "embedding_size": 126464, "d_model": 4096,
        "mlp_hidden_size": 12288, "n_layers": 32, "n_heads": 32, "n_kv_heads": 32, "max_sequence_length": 4096,
        "rms_norm_eps": 1e-5, "rope": true, "rope_theta": 5e5, "weight_tying": false, "include_bias": false,
        "include_qkv_bias": false, "mask_token_id": 126336, "pad_token_id": 126081, "eos_token_id": 126081
    })
}

/// Dream-v0-7B's shape, as its config.json gives it.
pub(crate) fn dream_7b() -> Value {
    json!({
        "architectures": ["DreamModel"], "model_type": "Dream", "torch_dtype": "bfloat16",
        "vocab_size": 152064, "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28,
        "num_attention_heads": 28, "num_key_value_heads": 4, "max_position_embeddings": 131072,
        "rms_norm_eps": 1e-6, "rope_theta": 1e6, "tie_word_embeddings": false, "hidden_act": "silu",
        "mask_token_id": 151666, "pad_token_id": 151643, "bos_token_id": 151643, "eos_token_id": 151643
    })
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let mut config = match &args.config {
        None if args.shape == Shape::Llada8b => llada_8b(),
        None => dream_7b(),
        Some(path) => {
            let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
            serde_json::from_slice(&text)
                .with_context(|| format!("{} is not readable JSON", path.display()))?
        }
    };
    if let Some(layers) = args.layers {
        let key = if config.get("n_layers").is_some() { "n_layers" } else { "num_hidden_layers" };
        config[key] = layers.into();
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
        DtypeArg::Int8 => usage!("write the checkpoint as bf16 and make it int8 with `demask quantize`"),
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
    eprintln!("{}: {:.1} M parameters", args.out.display(), spec.parameters() as f64 / 1e6);
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
    let architecture = arch::by_name(spec.architecture).context("the architecture has no tensor names")?;
    let named = arch::tensors(spec, &architecture.names);
    Ok(named
        .into_iter()
        .map(|(name, shape)| {
            let init = match shape.as_slice() {
                [_] if name.ends_with(".bias") => Init::Zeros,
                [_] => Init::Ones,
                // Keeps activations of every layer at about the size of its input.
                dims => Init::Normal(1.0 / (dims[dims.len() - 1] as f32).sqrt()),
            };
            Tensor { name, shape, init }
        })
        .collect())
}

/// How many tokens a config speaks of; the embedding may have more rows.
fn tokens(config: &str) -> Option<usize> {
    let config: serde_json::Value = serde_json::from_str(config).ok()?;
    config.get("vocab_size")?.as_u64()?.try_into().ok()
}
