//! `demask inspect`: what a checkpoint is, and what running it will take.

use std::io::Write;
use std::path::Path;

use anyhow::Result;
use demask::counted;
use demask::engine::PREDICTOR;
use demask::model::checkpoint::Store;
use demask::model::gguf::{self, Gguf};
use demask::model::text::{ChatTemplate, Tokenizer};
use demask::model::{Spec, memory};
use serde_json::json;

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
    let spec = Spec::from_folder(&folder)?;
    let options = args.flags.load_options()?;
    // A folder with config and tokenizer but no weights can still be described.
    let gguf = if gguf::is_gguf(&folder) { Some(Gguf::open(&folder)?) } else { None };
    let weights = match &gguf {
        Some(gguf) => Some((gguf.size_in_bytes(), gguf.tensors())),
        None if has_weights(&folder) => {
            let store = Store::open(&folder)?;
            Some((store.size_in_bytes(), store.names().len()))
        }
        None => None,
    };
    let tokenizer = if gguf.is_some() || has_tokenizer(&folder) {
        Some(Tokenizer::open(&folder, spec.vocab)?)
    } else {
        None
    };
    let chat = ChatTemplate::open(&folder)?;
    // As a response ends: with the config's tokens, or where a template ends a turn.
    let mut eos = spec.ids.eos.clone();
    if let (Some(tokenizer), true) = (&tokenizer, chat.is_some()) {
        eos.extend(tokenizer.ends_of_turn().into_iter().filter(|id| !spec.ids.eos.contains(id)));
    }
    let stored = weights.map(|(bytes, _)| bytes as f64 / spec.parameters() as f64);
    let estimate = memory::estimate(&spec, stored, options.dtype, args.length, tokenizer_size(&folder));
    let mut out = std::io::stdout().lock();
    if args.json {
        let object = json!({
            "folder": folder, "architecture": spec.architecture, "parameters": spec.parameters(),
            "vocab": spec.vocab, "hidden": spec.hidden, "layers": spec.layers, "heads": spec.heads,
            "kv_heads": spec.kv_heads, "head_dim": spec.head_dim, "ffn": spec.ffn, "rope_theta": spec.rope_theta,
            "eps": spec.eps, "max_positions": spec.max_positions, "tied": spec.tied, "qkv_bias": spec.qkv_bias,
            "shift": spec.shift, "mask": spec.ids.mask, "eos": eos, "pad": spec.ids.pad, "bos": spec.ids.bos,
            "weights_bytes": weights.map(|(bytes, _)| bytes), "length": args.length,
            "memory_bytes": estimate.total(), "tokenizer": tokenizer.as_ref().map(Tokenizer::size),
            "chat_template": chat.as_ref().map(|c| c.names().to_vec()),
            "predictor": folder.join(PREDICTOR).exists(),
        });
        writeln!(out, "{object}")?;
        return Ok(());
    }
    let gib = |bytes: usize| {
        let (size, unit) = if bytes >= 1 << 30 { (1_u64 << 30, "GiB") } else { (1 << 20, "MiB") };
        format!("{:.2} {unit}", bytes as f64 / size as f64)
    };
    let mut row = |name: &str, value: String| writeln!(out, "{name:<18} {value}");
    row("folder", folder.display().to_string())?;
    row(
        "architecture",
        format!("{}, {:.1} M parameters", spec.architecture, spec.parameters() as f64 / 1e6),
    )?;
    row("vocabulary", spec.vocab.to_string())?;
    row("hidden", format!("{} in {}, MLP {}", spec.hidden, counted(spec.layers, "layer"), spec.ffn))?;
    row("heads", format!("{} of {} with {} key/value heads", spec.heads, spec.head_dim, spec.kv_heads))?;
    row("context", format!("{} positions, rope theta {}", spec.max_positions, spec.rope_theta))?;
    row(
        "numerics",
        format!("RMSNorm eps {:e}, qkv bias {}, tied head {}", spec.eps, spec.qkv_bias, spec.tied),
    )?;
    let shift = if spec.shift { "row i-1 predicts position i" } else { "row i predicts position i" };
    row("logit shift", shift.into())?;
    let optional = |id: Option<u32>| id.map_or("none".into(), |id: u32| id.to_string());
    let eos: Vec<String> = eos.iter().map(u32::to_string).collect();
    row(
        "ids",
        format!(
            "mask {}, eos {}, pad {}, bos {}",
            spec.ids.mask,
            eos.join("+"),
            optional(spec.ids.pad),
            optional(spec.ids.bos)
        ),
    )?;
    match weights {
        Some((bytes, tensors)) => row("weights", format!("{} in {}", gib(bytes), counted(tensors, "tensor")))?,
        None => row("weights", "none in this folder".into())?,
    }
    match &tokenizer {
        Some(t) => row(
            "tokenizer",
            format!("{} tokens, {} ids of the vocabulary unused", t.size(), t.holes().len()),
        )?,
        None => row("tokenizer", "none".into())?,
    }
    row("chat template", chat.map_or("none".into(), |c| c.names().join(", ")))?;
    row("predictor", if folder.join(PREDICTOR).exists() { PREDICTOR.into() } else { "none".to_owned() })?;
    row(
        "memory",
        format!(
            "about {} at {} tokens: weights {}, then activations {} or logits {}, the rest {}",
            gib(estimate.total()),
            args.length,
            gib(estimate.weights),
            gib(estimate.activations),
            gib(estimate.logits),
            gib(estimate.rest)
        ),
    )?;
    Ok(())
}

fn tokenizer_size(folder: &Path) -> usize {
    std::fs::metadata(folder.join("tokenizer.json")).map_or(0, |file| file.len() as usize)
}

fn has_tokenizer(folder: &Path) -> bool {
    folder.join("tokenizer.json").exists() || folder.join("vocab.json").exists()
}

fn has_weights(folder: &Path) -> bool {
    use demask::model::checkpoint::{INDEX, WEIGHTS};
    let shards_here = || {
        std::fs::read_dir(folder).is_ok_and(|mut d| {
            d.any(|f| f.is_ok_and(|f| f.path().extension().is_some_and(|e| e == "safetensors")))
        })
    };
    folder.join(WEIGHTS).exists() || (folder.join(INDEX).exists() && shards_here())
}
