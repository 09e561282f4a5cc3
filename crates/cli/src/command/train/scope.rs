//! `demask train scope`: the classifier that knows the kinds of prompt the tasks ask from those they do not.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use demask::engine::{SCOPE, Scope, Text};
use demask::eval::task::{self, Split, off_task};
use demask::train::scope::{Prompted, TrainedScope, fit};

use crate::args::TextArgs;

/// Off-task prompts of this seed are trained on; those of the next one are held out.
const SEED: u64 = 1;

/// Said of a prompt outside.
const REMARK: &str = "this small model knows word problems and sums, lists of names, multiple choice, small Python \
functions, 4x4 squares and short open lists, and this is none of them; try \"Ann has 9 coins. She finds 6 more. How \
many coins does she have now?\"";

/// Fits the classifier that tells when a prompt is none of the tasks' kinds
#[derive(Debug, clap::Args)]
pub struct ScopeArgs {
    #[command(flatten)]
    model: TextArgs,
    /// Folder of the checkpoint that scope.json is written into
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Prompts of each kind, on task and off
    #[arg(long, alias = "examples", default_value_t = 18_000, value_name = "N", value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    limit: u32,
}

/// Runs the command.
pub fn run(args: &ScopeArgs) -> Result<()> {
    let text = args.model.open()?;
    let vocabulary = text.spec().vocab;
    let TrainedScope { scope, loss, baseline } = fit(&examples(args, &text)?, vocabulary, REMARK);
    println!("log loss {loss:.4} nats in training, {baseline:.4} of a constant");
    report(&scope, &text)?;
    std::fs::create_dir_all(&args.out).with_context(|| format!("cannot make {}", args.out.display()))?;
    let path = args.out.join(SCOPE);
    let json = scope.to_json();
    demask::model::file::replace(&path, |file| file.write_all(json.as_bytes()))?;
    println!("{}", path.display());
    Ok(())
}

/// Prompts of all tasks in turn, and as many that no task asks.
fn examples(args: &ScopeArgs, text: &Text) -> Result<Vec<Prompted>> {
    let tasks = task::all();
    let mut examples = Vec::with_capacity(2 * args.limit as usize);
    for index in 0..u64::from(args.limit) {
        let task = &tasks[index as usize % tasks.len()];
        let prompt = task::problem_at(task.as_ref(), Split::Train, SEED, index).prompt;
        examples.push(Prompted { tokens: text.tokenizer().encode(&prompt)?, inside: true });
        examples.push(Prompted { tokens: text.tokenizer().encode(&off_task(SEED, index))?, inside: false });
    }
    Ok(examples)
}

/// False alarms on the held-out problems of every task, hits on other off-task prompts.
fn report(scope: &Scope, text: &Text) -> Result<()> {
    let alarms = |prompts: &[String]| -> Result<f64> {
        let mut outside = 0;
        for prompt in prompts {
            outside += usize::from(scope.remark(&text.tokenizer().encode(prompt)?).is_some());
        }
        Ok(100.0 * outside as f64 / prompts.len() as f64)
    };
    println!("remarked on, % of 500:   test  fresh wording");
    for task in task::all() {
        let prompts = |problems: Vec<task::Problem>| -> Vec<String> {
            problems.into_iter().map(|problem| problem.prompt).collect()
        };
        let usual = alarms(&prompts(task::test_set(task.as_ref(), 500)))?;
        let fresh = alarms(&prompts(task::fresh_set(task.as_ref(), 500)))?;
        println!("  {:<20} {usual:>6.1} {fresh:>14.1}", task.name());
    }
    let outside: Vec<String> = (0..500).map(|index| off_task(SEED + 1, index)).collect();
    println!("  {:<20} {:>6.1}", "off task", alarms(&outside)?);
    Ok(())
}
