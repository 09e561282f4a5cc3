//! `demask score`: marks responses that are already there, ours or anybody's.

use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use demask::eval::benchmark::Question;
use rayon::prelude::*;
use serde::Deserialize;
use serde_json::json;

use crate::benchmarks::{BenchmarkArgs, CodeArgs};

/// Marks responses to a benchmark, one JSON object a line
#[derive(Debug, clap::Args)]
pub struct Args {
    /// gsm8k, mmlu_pro (or mmlu_pro_law, …), humaneval, mbpp, countdown, sudoku, or lm_eval's name of one
    #[arg(long, short, value_name = "TASK")]
    pub task: String,
    #[command(flatten)]
    benchmark: BenchmarkArgs,
    /// Lines with doc_id, response, and task where it has subjects
    #[arg(long, value_name = "FILE")]
    pub responses: PathBuf,
    #[command(flatten)]
    code: CodeArgs,
}

#[derive(Debug, Deserialize)]
struct Response {
    doc_id: usize,
    #[serde(default)]
    task: Option<String>,
    response: String,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    // Worked examples do not matter to a mark.
    let benchmark =
        BenchmarkArgs { shots: Some(args.benchmark.shots.unwrap_or(0)), ..args.benchmark.clone() };
    args.code.check(benchmark.check(&args.task, true)?)?;
    let (definition, items) = benchmark.open(&args.task, true, false)?;
    let responses = read(args)?;
    let sandbox = args.code.sandbox(definition.code)?;
    let by_id: HashMap<(&str, usize), &Question> =
        items.iter().map(|i| ((i.task.as_str(), i.doc_id), i)).collect();
    let only = items.first().map(|item| item.task.as_str()).unwrap_or_default();
    let score = |response: &Response| -> Result<_> {
        let task = response.task.as_deref().unwrap_or(only);
        let Some(item) = by_id.get(&(task, response.doc_id)) else {
            usage!("{task} has no question {}; the responses belong to other data", response.doc_id);
        };
        let score = item.score(&response.response, sandbox.as_ref())?;
        let line = json!({
            "task": task, "doc_id": response.doc_id, "correct": score.correct, "strict": score.strict,
            "extracted": score.extracted,
        });
        Ok((score, line))
    };
    let scores: Vec<_> = responses.par_iter().map(score).collect::<Result<_>>()?;
    let mut out = std::io::stdout().lock();
    for (_, line) in &scores {
        writeln!(out, "{line}")?;
    }
    let right = scores.iter().filter(|(score, _)| score.correct).count();
    let share = 100.0 * right as f64 / scores.len().max(1) as f64;
    eprintln!("{}: {right} of {} right ({share:.1} %)", definition.task, scores.len());
    Ok(())
}

fn read(args: &Args) -> Result<Vec<Response>> {
    let path = args.responses.display();
    let text = fs::read_to_string(&args.responses).with_context(|| format!("cannot read {path}"))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let parse = |(number, line): (usize, &str)| {
        serde_json::from_str(line)
            .with_context(|| format!("line {} of {path} is not a doc_id with its response", number + 1))
    };
    lines.map(parse).collect()
}
