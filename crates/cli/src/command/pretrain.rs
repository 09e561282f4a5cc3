//! `demask pretrain`: a small Dream-architecture backbone from scratch, on the tasks' own problems.
//!
//! The only place where the generators of `eval` meet the training loop of `train`.

mod cuts;
mod examples;
mod watch;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use demask::eval::task::{self, Split};
use demask::model::text::Tokenizer;
use demask::train::compute::Compute;
use demask::train::pretrain::{Config, Precision, Run};
use demask::train::tokenizer;

use self::examples::Problems;
use self::watch::Terminal;
use crate::devices::Devices;

/// Problems whose text the tokenizer is trained on, and the most tokens it may have.
const TOKENIZER_PROBLEMS: usize = 40_000;
const TOKENIZER_LIMIT: usize = 3072;
/// Whole words beyond that.
const TOKENIZER_WORDS: usize = 1024;
const LARGEST_VOCABULARY: usize = 1 << 20;

/// Trains a small masked-diffusion model from scratch; continues by itself where it was stopped
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Args {
    #[command(subcommand)]
    part: Option<PretrainPart>,
    /// The run, as a TOML file
    #[arg(long, value_name = "FILE", required = true)]
    config: Option<PathBuf>,
    /// Where states, curves and the exported checkpoint go
    #[arg(long, value_name = "DIR", required = true)]
    out: Option<PathBuf>,
    /// Folder with the tokenizer [default: one is trained on the tasks' text and kept in the run's folder]
    #[arg(long, value_name = "DIR")]
    tokenizer: Option<PathBuf>,
    /// Checkpoint folder to start from instead of random weights; must have the config's shape
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
    /// Where to compute: cpu, candle (the reference device: what runs on a GPU, on the CPU), cuda, cuda:N, metal, metal:N
    #[arg(long, default_value = "cpu", value_name = "DEVICE")]
    device: Devices,
    /// Stop after this many updates in all (the state is saved and the run can continue)
    #[arg(long, value_name = "STEPS")]
    stop_at: Option<u64>,
}

#[derive(Debug, clap::Subcommand)]
enum PretrainPart {
    /// Trains only the tokenizer, on the text of the tasks' generators
    Tokenizer {
        /// Where tokenizer.json and tokenizer_config.json go
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
}

/// Runs the command.
pub fn run(args: Args) -> Result<()> {
    match (args.part, args.config, args.out) {
        (Some(PretrainPart::Tokenizer { out }), ..) => train_tokenizer(&out, &BTreeMap::new()),
        (None, Some(config), Some(out)) => {
            let (compute, more) = args.device.first()?;
            if more {
                usage!("pre-training computes on one device; name one of {}", args.device);
            }
            pretrain(&config, &out, args.tokenizer.as_deref(), args.from.as_deref(), compute, args.stop_at)
        }
        _ => bail!("--config and --out are needed"),
    }
}

fn pretrain(
    config: &Path,
    out: &Path,
    tokenizer: Option<&Path>,
    from: Option<&Path>,
    compute: Compute,
    stop_at: Option<u64>,
) -> Result<()> {
    let config = Config::read(config)?;
    check_names(&config)?;
    if config.precision == Precision::Bf16 && !compute.is_composed() && !demask::kernels::has_bf16_products()
    {
        eprintln!("note: this CPU has no products of bf16 (AVX-512-BF16), so they are f32, at f32's speed");
    }
    let own = out.join("tokenizer");
    let folder = match tokenizer {
        Some(folder) => folder,
        None => {
            if !own.join("tokenizer.json").exists() {
                train_tokenizer(&own, &config.data.mixture)?;
            }
            own.as_path()
        }
    };
    // The vocabulary is the tokenizer's, so no limit is known before it is read.
    let tokenizer = Tokenizer::open(folder, LARGEST_VOCABULARY)?;
    let spec = config.model.spec(&tokenizer)?;
    let template = demask::model::text::ChatTemplate::open(folder)?;
    let template = template.with_context(|| format!("{} has no chat template", folder.display()))?;
    let mut problems = Problems::new(&config, &tokenizer, &template);
    let mut terminal = Terminal::new(&config, &tokenizer, &template, stop_at)?;
    let run =
        Run { config: &config, spec: &spec, folder: out, tokenizer: Some(folder), start: from, compute };
    let outcome = run.train(&mut problems, &mut terminal)?;
    terminal.finish(outcome.step, config.steps(), out);
    Ok(())
}

/// Trains a tokenizer on problems of the training split, prompts as the chat template writes them.
fn train_tokenizer(out: &Path, mixture: &BTreeMap<String, f64>) -> Result<()> {
    let problems = task::mixture(&weights(mixture), Split::Train, 0).take(TOKENIZER_PROBLEMS);
    let texts = problems.flat_map(|problem| [problem.prompt, problem.response]);
    let tokenizer = tokenizer::train(texts, TOKENIZER_LIMIT, TOKENIZER_WORDS)?;
    std::fs::create_dir_all(out).with_context(|| format!("cannot create {}", out.display()))?;
    tokenizer::save(&tokenizer, out)?;
    eprintln!("a tokenizer of {} tokens is in {}", tokenizer.get_vocab_size(true), out.display());
    Ok(())
}

fn check_names(config: &Config) -> Result<()> {
    let tasks = task::all();
    let drilled = tasks.iter().filter(|task| task.drill(&mut task::Rng::new(0)).is_some());
    let drills = drilled.map(|task| task::drill_name(task.as_ref()));
    let known: Vec<String> = tasks.iter().map(|task| task.name().to_owned()).chain(drills).collect();
    let mut parts =
        config.data.mixture.keys().chain(config.stage.iter().flat_map(|stage| stage.mixture.keys()));
    match parts.find(|part| !known.contains(part)) {
        Some(name) => bail!("mixture: there is no {name:?}; there are {}", known.join(", ")),
        None => Ok(()),
    }
}

/// The weight of every part of the stream: tasks left out of a mixture have none.
fn weights(mixture: &BTreeMap<String, f64>) -> Vec<(&str, f64)> {
    let left_out = if mixture.is_empty() { 1.0 } else { 0.0 };
    let mut weights: Vec<(&str, f64)> =
        mixture.iter().map(|(part, weight)| (part.as_str(), *weight)).collect();
    for task in task::all() {
        if !mixture.contains_key(task.name()) {
            weights.push((task.name(), left_out));
        }
    }
    weights
}
