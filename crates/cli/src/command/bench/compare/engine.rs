//! The programs that answer: llama.cpp's, ours in two ways, and a script around the published code on PyTorch. Each runs as
//! a process of its own and says how long its steps took, without loading.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::child;
use super::file;

/// What everybody is asked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Workload {
    /// Tokens of the prompt.
    pub(super) prompt: usize,
    /// Tokens of the response.
    pub(super) response: usize,
    /// Steps that all tokens are spread over, where every step computes everything.
    pub(super) steps: usize,
    /// Tokens of a block, where blocks are cached.
    pub(super) block: usize,
    pub(super) threads: usize,
}

/// Who answers.
#[derive(Debug, Clone)]
pub(super) enum Engine {
    /// `llama-diffusion-cli`.
    Llama(PathBuf),
    /// This program with the whole canvas in every step.
    Plain,
    /// This program with the block cache and this many tokens a step.
    Cached(usize),
    /// A command that takes the flags of `scripts/compare/dream_pytorch.py`, and the precision.
    Torch(String, &'static str),
}

/// What an answer cost.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Cost {
    /// Seconds of decoding, without loading.
    pub(super) seconds: f64,
    /// Of them after the backbone: head and sampling as far as the program tells them apart.
    pub(super) after: Option<f64>,
    pub(super) steps: f64,
    /// Tokens that were decided at one a step, or as many a step as the engine decides.
    pub(super) tokens: f64,
    /// Seconds of the whole process.
    pub(super) wall: f64,
    /// Bytes resident at most.
    pub(super) peak: Option<f64>,
}

impl Cost {
    /// Seconds of a step.
    pub(super) fn step(&self) -> f64 {
        self.seconds / self.steps
    }

    /// Seconds of a token.
    pub(super) fn token(&self) -> f64 {
        self.seconds / self.tokens
    }
}

impl Engine {
    pub(super) fn name(&self) -> String {
        match self {
            Self::Llama(_) => "llama-diffusion-cli".into(),
            Self::Plain => "demask, no cache".into(),
            Self::Cached(1) => "demask, block cache".into(),
            Self::Cached(tokens) => format!("demask, block cache, {tokens} tokens a pass"),
            Self::Torch(_, dtype) => format!("PyTorch {dtype}"),
        }
    }

    /// Answers once.
    pub(super) fn answer(&self, file: &Path, config: &Path, task: &Workload) -> Result<Cost> {
        match self {
            Self::Llama(program) => llama(program, file, task),
            Self::Plain => {
                let each = task.response / task.steps;
                ours(file, task, &["-s", &format!("entropy:k={each}"), "--cache", "none"], false)
            }
            Self::Cached(tokens) => {
                let (strategy, block) = (format!("entropy:k={tokens}"), task.block.to_string());
                let flags = ["-s", &strategy, "--cache", "dual", "--block-length", &block];
                ours(file, task, &flags, true)
            }
            Self::Torch(command, dtype) => torch(command, dtype, config, task),
        }
    }
}

/// One token a step is what a step of theirs would decide, whatever the schedule asked for here.
fn llama(program: &Path, file: &Path, task: &Workload) -> Result<Cost> {
    let (length, steps) = ((task.prompt + task.response).to_string(), task.steps.to_string());
    let threads = task.threads.to_string();
    let done = child::run(Command::new(program).arg("-m").arg(file).args([
        "-p",
        &file::prompt(task.prompt),
        "-ub",
        &length,
        "-b",
        &length,
        "-c",
        &length,
        "-t",
        &threads,
        "-tb",
        &threads,
        "--temp",
        "0",
        "--diffusion-eps",
        "0.001",
        "--diffusion-steps",
        &steps,
    ]))?;
    let said = [done.out.as_str(), &done.err].concat();
    let total =
        milliseconds(&said, "total time: ").context("llama-diffusion-cli did not say its total time")?;
    let sampling = milliseconds(&said, "sampling time per step: ");
    let steps = task.steps as f64;
    Ok(Cost {
        seconds: total / 1e3,
        after: sampling.map(|each| each / 1e3 * steps),
        steps,
        tokens: steps,
        wall: done.seconds,
        peak: done.peak,
    })
}

/// The number of milliseconds after a word.
fn milliseconds(said: &str, word: &str) -> Option<f64> {
    let (_, rest) = said.rsplit_once(word)?;
    rest.split("ms").next()?.trim().parse().ok()
}

fn ours(file: &Path, task: &Workload, flags: &[&str], counts_tokens: bool) -> Result<Cost> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let (response, threads) = (task.response.to_string(), task.threads.to_string());
    let done = child::run(
        Command::new(program)
            .args(["generate", "--raw", "--json", "--eos", "none", "-n", &response, "--threads", &threads])
            .args(flags)
            .arg("--model")
            .arg(file)
            .arg(file::prompt(task.prompt)),
    )?;
    let answer: Value = serde_json::from_str(&done.out).context("demask generate printed no JSON")?;
    let number = |value: &Value| value.as_f64().context("demask generate printed no such number");
    let (seconds, steps) = (number(&answer["seconds"])?, number(&answer["steps"])?);
    let phases = &answer["metrics"]["seconds"];
    let after = number(&phases["marginals"])? + number(&phases["select"])?;
    let tokens = if counts_tokens { task.response as f64 } else { steps };
    Ok(Cost { seconds, after: Some(after), steps, tokens, wall: done.seconds, peak: done.peak })
}

fn torch(command: &str, dtype: &str, config: &Path, task: &Workload) -> Result<Cost> {
    let mut words = command.split_whitespace();
    let program = words.next().context("--pytorch names no program")?;
    let number = |n: usize| n.to_string();
    let done = child::run(
        Command::new(program)
            .args(words)
            .args(["--dtype", dtype, "--prompt", &number(task.prompt), "--response", &number(task.response)])
            .args(["--steps", &number(task.steps), "--threads", &number(task.threads)])
            .arg("--config")
            .arg(config),
    )?;
    let line = done.out.lines().rfind(|line| line.starts_with('{')).context("the script printed no JSON")?;
    let answer: Value = serde_json::from_str(line).context("the script printed no readable JSON")?;
    let seconds = answer["seconds"].as_f64().context("the script printed no seconds")?;
    let steps = task.steps as f64;
    Ok(Cost { seconds, after: None, steps, tokens: steps, wall: done.seconds, peak: done.peak })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_in_what_llama_cpp_says() {
        let said = "diffusion step: 3/4\ntotal time: 57600.12ms, time per step: 14400.03ms, sampling time per step: 2000.50ms\n";
        assert_eq!(milliseconds(said, "total time: "), Some(57600.12));
        assert_eq!(milliseconds(said, "sampling time per step: "), Some(2000.5));
        assert_eq!(milliseconds("nothing", "total time: "), None);
    }
}
