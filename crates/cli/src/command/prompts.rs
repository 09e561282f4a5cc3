//! `demask prompts`: what a benchmark would ask, before a single forward pass.

use std::io::Write;

use anyhow::Result;
use clap::ValueEnum;
use demask_eval::benchmark::Item;
use demask_model::Spec;
use demask_model::text::{ChatTemplate, Tokenizer, Trailing};
use rayon::prelude::*;
use serde_json::{Value, json};

use crate::args::ModelArgs;
use crate::benchmarks::BenchmarkArgs;
use crate::loaded::folder;

/// Prompts worked on at once.
const CHUNK: usize = 256;

/// Prints a benchmark's prompts, one JSON object a line; needs only a checkpoint's config and tokenizer
#[derive(Debug, clap::Args)]
pub struct Args {
    /// gsm8k, mmlu_pro (or mmlu_pro_law, …), humaneval, mbpp, countdown, sudoku, or lm_eval's name of one
    #[arg(long, short, value_name = "TASK")]
    pub task: String,
    #[command(flatten)]
    benchmark: BenchmarkArgs,
    /// Which transformers renders an answer that is already begun: white space at its end is kept by the later ones
    #[arg(long, value_enum, default_value_t = Transformers::Current)]
    pub transformers: Transformers,
    /// Only the first N
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    #[command(flatten)]
    model: ModelArgs,
}

/// Versions of transformers that differ in a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Transformers {
    /// 4.47 and later
    Current,
    /// 4.46, the version Dream prescribes
    #[value(name = "4.46")]
    V4_46,
}

impl From<Transformers> for Trailing {
    fn from(version: Transformers) -> Self {
        match version {
            Transformers::Current => Self::Keep,
            Transformers::V4_46 => Self::Strip,
        }
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let (definition, mut items) = args.benchmark.open(&args.task)?;
    items.truncate(args.limit.unwrap_or(usize::MAX));
    let folder = folder(&args.model)?;
    let spec = Spec::from_folder(&folder)?;
    let tokenizer = Tokenizer::open(&folder, spec.vocab)?;
    let template = ChatTemplate::open(&folder)?;
    let shots = args.benchmark.shots.unwrap_or(definition.shots);
    let line = |item: &Item| -> Result<Value> {
        let prompt = item.text(template.as_ref(), args.transformers.into())?;
        let ids = item.encode(&prompt, &tokenizer)?;
        Ok(json!({
            "task": item.task, "doc_id": item.doc_id, "num_fewshot": shots, "version": definition.version,
            "prompt": prompt, "prompt_token_ids": ids, "prompt_tokens_kept": item.kept(&ids, spec.max_positions).len(),
            "until": item.until, "max_new_tokens": item.max_new_tokens, "target": item.target,
        }))
    };
    let mut out = std::io::stdout().lock();
    for chunk in items.chunks(CHUNK) {
        let lines: Vec<Value> = chunk.par_iter().map(line).collect::<Result<_>>()?;
        for line in lines {
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}
