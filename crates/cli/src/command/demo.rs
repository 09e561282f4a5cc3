//! `demask demo`: prompts to try on every task, and one of them decoded by DEMASK and one token at a time, side by side.

use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Error, Result};
use demask_decode::observer::Recorder;
use demask_decode::trace::{Header, Trace};
use demask_decode::{Decoder, Job, StrategySpec};
use demask_eval::suite::{Generated, Suite, Text};
use demask_eval::task::{self, Split};

use crate::args::{CanvasArgs, ModelArgs};
use crate::evaluating::task_names;
use crate::loaded::Loaded;
use crate::replay::{Panel, play};

/// Shows prompts to try, and DEMASK beside one-token decoding on one of them
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Task of the problem that is decoded
    #[arg(long, default_value = "arith", value_name = "TASK")]
    task: String,
    /// Number of the problem among the task's test problems
    #[arg(long, default_value_t = 0, value_name = "N")]
    problem: usize,
    /// Prompts to print of each task
    #[arg(long, default_value_t = 2, value_name = "N")]
    prompts: usize,
    /// Decoders to compare; may be given several times [default: demask and entropy]
    #[arg(long, short = 's', value_name = "STRATEGY")]
    strategy: Vec<StrategySpec>,
    /// Milliseconds between frames
    #[arg(long, default_value_t = 250, value_name = "MS")]
    pause: u64,
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    canvas: CanvasArgs,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    task_names(std::slice::from_ref(&args.task))?;
    let mut out = std::io::stdout().lock();
    if args.prompts > 0 {
        writeln!(out, "Prompts to try with demask generate \"…\":")?;
        for task in task::all() {
            writeln!(out, "\n{}", task.name())?;
            for problem in task::test_set(task.as_ref(), args.prompts) {
                writeln!(out, "  {}", problem.prompt.trim().replace('\n', "\n  "))?;
            }
        }
        writeln!(out)?;
    }
    drop(out);
    let loaded = Loaded::open(&args.model)?;
    let Some((task, fresh)) = Generated::find(&args.task) else { usage!("--task takes one task") };
    let split = if fresh { Split::Fresh } else { Split::Test };
    let text = Text { tokenizer: &loaded.tokenizer, chat: loaded.chat.as_ref() };
    let length = args.canvas.max_new_tokens.map(|n| n as usize);
    let suite = Generated::new(task, split, args.problem + 1, &text, length)?;
    if suite.len() <= args.problem {
        usage!("{} has only {} test problems", args.task, suite.len());
    }
    compare(args, &loaded, &suite)
}

fn compare(args: &Args, loaded: &Loaded, suite: &Generated) -> Result<()> {
    let text = Text { tokenizer: &loaded.tokenizer, chat: loaded.chat.as_ref() };
    let item = suite.item(args.problem, &text)?;
    let mut strategies = args.strategy.clone();
    if strategies.is_empty() {
        strategies.extend([loaded.default_strategy(), "entropy".parse()?]);
        strategies.dedup();
    }
    println!("{}\n", suite.problems()[args.problem].prompt.trim());
    let (mut panels, mut lines) = (Vec::new(), Vec::new());
    for strategy in &strategies {
        let canvas = demask_decode::Canvas::generate(&item.tokens, item.max_new_tokens, &loaded.ids)?;
        let options = loaded.options(&args.canvas, item.tokens.len())?;
        let header = Header::new(&canvas, strategy, &options.cache, options.seed);
        let recorder = Arc::new(Mutex::new(Recorder::default()));
        let job = Job::new(canvas, strategy, &loaded.context, options, Box::new(recorder.clone()))?;
        let mut jobs = [job];
        Decoder::new(&loaded.backbone).run(&mut jobs)?;
        let [job] = jobs;
        let answer = loaded.text(job.canvas())?;
        let score = suite.score(args.problem, &answer)?;
        let steps = std::mem::take(&mut recorder.lock().unwrap_or_else(PoisonError::into_inner).records);
        let totals = job.totals();
        let verdict = if score.correct { "right" } else { "wrong" };
        lines.push((strategy.to_string(), totals.forwards, verdict, answer));
        let trace = Trace { header, steps };
        panels.push(Panel::new(strategy.to_string(), &trace, &loaded.ids.eos).map_err(Error::msg)?);
    }
    if std::io::stdout().is_terminal() {
        play(&panels, &loaded.tokenizer, Duration::from_millis(args.pause))?;
        println!();
    }
    for (strategy, forwards, verdict, answer) in lines {
        println!(
            "{strategy}: {forwards} forward passes, {verdict}\n  {}",
            answer.trim().replace('\n', "\n  ")
        );
    }
    Ok(())
}
