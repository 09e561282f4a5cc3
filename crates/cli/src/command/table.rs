//! `demask table`: the layouts of the paper's tables, filled from records.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;
use demask::decode::StrategySpec;
use demask::eval::benchmark;
use demask::eval::report::paper::{Speed, eos_table, main_table};
use demask::eval::report::table::Table;
use demask::eval::run::Sample;

use crate::evaluation::FromArgs;

/// Lays records out as the paper's tables: Markdown, CSV, LaTeX
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Main(Main),
    Eos(Eos),
}

/// Table 1: every method on every task, accuracy ± standard error and speed-up
#[derive(Debug, clap::Args)]
struct Main {
    #[command(flatten)]
    from: FromArgs,
    /// Strategy that speed-ups are relative to [default: entropy, one token]
    #[arg(long, value_name = "STRATEGY")]
    baseline: Option<StrategySpec>,
    /// Tasks that parameters were chosen on, left out of the average
    #[arg(long, value_delimiter = ',', value_name = "TASK")]
    tuned: Vec<String>,
    /// Count forward passes instead of wall-clock time
    #[arg(long)]
    forwards: bool,
    #[command(flatten)]
    out: OutArgs,
}

/// Table 2: accuracy and time without EOS filling, from a run with --eos none
#[derive(Debug, clap::Args)]
struct Eos {
    #[command(flatten)]
    from: FromArgs,
    #[command(flatten)]
    out: OutArgs,
}

#[derive(Debug, clap::Args)]
struct OutArgs {
    /// Also write NAME.md, NAME.csv and NAME.tex
    #[arg(long, short = 'o', value_name = "NAME")]
    out: Option<PathBuf>,
    /// Form of what is printed
    #[arg(long, value_enum, default_value_t = Form::Plain)]
    form: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Form {
    /// For a terminal
    Plain,
    /// Markdown
    Markdown,
    /// Comma-separated values
    Csv,
    /// LaTeX with booktabs
    Latex,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    match &args.what {
        What::Main(args) => {
            let speed = if args.forwards { Speed::Forwards } else { Speed::Time };
            let (_, samples) = args.from.read()?;
            let tuned: Vec<String> = args.tuned.iter().map(|name| recorded(name, &samples)).collect();
            print(&main_table(&samples, args.baseline.as_ref(), &tuned, speed)?, &args.out)
        }
        What::Eos(args) => {
            let (header, samples) = args.from.read()?;
            print(&eos_table(&header, &samples)?, &args.out)
        }
    }
}

/// The name that records carry for a task: gsm8k may be gsm8k_cot there.
fn recorded(name: &str, samples: &[Sample]) -> String {
    let has = |task: &str| samples.iter().any(|sample| sample.task == task);
    let definition = benchmark::ALL.iter().find(|d| d.answers_to(name) && has(d.task));
    let other = definition.filter(|_| !has(name)).map(|d| d.task);
    other.unwrap_or(name).to_owned()
}

fn print(table: &Table, args: &OutArgs) -> Result<()> {
    if let Some(path) = &args.out {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        table.write(path)?;
    }
    let text = match args.form {
        Form::Plain => table.plain(),
        Form::Markdown => table.markdown(),
        Form::Csv => table.csv(),
        Form::Latex => table.latex(),
    };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(())
}
