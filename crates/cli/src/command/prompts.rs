//! `demask prompts`: what a benchmark would ask, before a single forward pass.

use std::io::Write;

use anyhow::Result;
use demask::eval::benchmark::Question;
use rayon::prelude::*;
use serde_json::{Value, json};

use crate::args::TextArgs;
use crate::benchmarks::BenchmarkArgs;

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
    /// Only the first N
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    #[command(flatten)]
    model: TextArgs,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let (definition, mut items) = args.benchmark.open(&args.task, true, false)?;
    items.truncate(args.limit.unwrap_or(usize::MAX));
    let text = args.model.open()?;
    let shots = args.benchmark.shots.unwrap_or(definition.shots);
    let line = |item: &Question| -> Result<Value> {
        let prompt = item.text(text.chat(), args.benchmark.trailing())?;
        let ids = item.encode(&prompt, text.tokenizer())?;
        Ok(json!({
            "task": item.task, "doc_id": item.doc_id, "num_fewshot": shots, "version": definition.version,
            "prompt": prompt, "prompt_token_ids": ids, "prompt_tokens_kept": item.kept(&ids, text.spec().max_positions).len(),
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
