//! `demask demo`: prompts to try on every task, and one of them decoded by DEMASK and one token at a time, side by side.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use anyhow::{Error, Result};
use demask::decode::StrategySpec;
use demask::decode::trace::Trace;
use demask::eval::run::names;
use demask::eval::run::suite::{Generated, Suite};
use demask::eval::task::{self, Split};
use demask::{Decoding, Model, Prompt, counted};

use crate::args::{CanvasArgs, ModelArgs, announce};
use crate::replay::{Panel, play};
use crate::view::besides;

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
    #[arg(long, alias = "prompts", default_value_t = 2, value_name = "N")]
    limit: usize,
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
    names::resolve(&[&args.task], false)?;
    let mut out = std::io::stdout().lock();
    if args.limit > 0 {
        writeln!(out, "Prompts to try with demask generate \"…\":")?;
        for task in task::all() {
            writeln!(out, "\n{}", task.name())?;
            for problem in task::test_set(task.as_ref(), args.limit) {
                writeln!(out, "  {}", problem.prompt.trim().replace('\n', "\n  "))?;
            }
        }
        writeln!(out)?;
    }
    drop(out);
    let model = args.model.open()?;
    let Some((task, fresh)) = Generated::find(&args.task) else { usage!("--task takes one task") };
    let split = if fresh { Split::Fresh } else { Split::Test };
    let length = args.canvas.max_new_tokens.map(|n| n as usize);
    let suite = Generated::new(task, split, args.problem + 1, model.text(), length)?;
    if suite.len() <= args.problem {
        usage!("{} has only {} test problems", args.task, suite.len());
    }
    compare(args, &model, &suite)
}

fn compare(args: &Args, model: &Model, suite: &Generated) -> Result<()> {
    let item = suite.item(args.problem, model.text())?;
    let mut strategies = args.strategy.clone();
    if strategies.is_empty() {
        announce(model, &Decoding::default());
        strategies.extend([model.strategy(&Decoding::default()), "entropy".parse()?]);
        strategies.dedup();
    }
    println!("{}\n", suite.problems()[args.problem].prompt.trim());
    let (mut panels, mut lines) = (Vec::new(), Vec::new());
    for strategy in &strategies {
        let (strategy, length) = (Some(strategy.clone()), Some(item.max_new_tokens));
        let decoding = Decoding { strategy, length, ..args.canvas.decoding() };
        let steps = model.generate(Prompt::Tokens(item.tokens.clone())).decoding(decoding).steps()?;
        let (header, mut steps) = (steps.header(), steps);
        let records = steps.by_ref().collect::<demask::Result<Vec<_>>>()?;
        let trace = Trace { header, steps: records };
        let answer = steps.finish()?;
        let score = suite.score(args.problem, &answer.text)?;
        let verdict = if score.correct { "right" } else { "wrong" };
        panels.push(Panel::new(answer.strategy.clone(), &trace, &model.ids().eos).map_err(Error::msg)?);
        let m = &answer.metrics;
        let beside = besides(m.assistant_rows, m.inner_calls, m.seconds.extra);
        lines.push((
            answer.strategy,
            format!("{}{beside}", counted(m.forwards, "forward pass")),
            verdict,
            answer.text,
        ));
    }
    if std::io::stdout().is_terminal() {
        play(&panels, model.tokenizer(), Duration::from_millis(args.pause))?;
        println!();
    }
    for (strategy, cost, verdict, answer) in lines {
        println!("{strategy}: {cost}, {verdict}\n  {}", answer.trim().replace('\n', "\n  "));
    }
    Ok(())
}
