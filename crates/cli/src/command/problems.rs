//! `demask problems`: the tasks' problems as JSON lines, for other programs.

use std::io::Write;

use anyhow::Result;
use clap::ValueEnum;
use demask::eval::run::names;
use demask::eval::task::{self, Facts, Problem, Split};
use serde_json::{Value, json};

/// Prints problems of a task as JSON lines: the same ones in every run
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name of the task, e.g. arith
    pub task: String,
    /// How many
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub limit: u32,
    /// Which part of the problems
    #[arg(long, value_enum, default_value_t = SplitArg::Test)]
    pub split: SplitArg,
    /// What a line holds
    #[arg(long, value_enum, default_value_t = Format::Problem)]
    pub format: Format,
}

/// Parts of the problems.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SplitArg {
    /// Problems a model may be trained on
    Train,
    /// Held out for choosing settings
    Validation,
    /// Held out for reported numbers
    Test,
    /// The same in names, nouns and sentences that training never shows
    Fresh,
}

/// Shapes of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Everything, with what the checker needs
    Problem,
    /// `question` and `answer`, which ends in "#### N", as GSM8K's files do (arith only)
    Gsm8k,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let [task] = &names::tasks(&args.task)?[..] else { usage!("one task is printed at a time") };
    let split = match args.split {
        SplitArg::Train => Split::Train,
        SplitArg::Validation => Split::Validation,
        SplitArg::Test => Split::Test,
        SplitArg::Fresh => Split::Fresh,
    };
    let mut out = std::io::stdout().lock();
    for problem in task::held_out(task.as_ref(), split, args.limit as usize) {
        let line = match args.format {
            Format::Problem => json!(problem),
            Format::Gsm8k => match gsm8k(&problem) {
                Some(line) => line,
                None => usage!("only arith has a number as its answer; {} has no GSM8K form", args.task),
            },
        };
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn gsm8k(problem: &Problem) -> Option<Value> {
    let Facts::Arith(story) = &problem.facts else { return None };
    let answer = format!("{}\n#### {}", problem.response, story.total());
    Some(json!({ "question": problem.prompt, "answer": answer }))
}
