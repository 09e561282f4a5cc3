//! `demask predictor eval`: a predictor against the dependency that is measured, and against decoding without it.

use std::io::Write;

use anyhow::Result;
use demask::decode::StrategySpec;
use demask::eval::run::suite::{Generated, Suite};
use demask::eval::task::Split;
use demask::train::data::Encoder;
use demask::train::fit::Report;
use demask::train::tv_cache::{Generator, HiddenRows, Stored, TvCacheSettings};
use demask::{Decoding, Model, Prompt, Shard};

use crate::args::ModelArgs;
use crate::command::train::predictor::warn_if_useless;
use crate::command::tv_cache::data::Data;

/// Says how good a predictor is: error against a constant, by distance and what cannot be explained; accuracy and steps
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    model: ModelArgs,
    /// Responses to measure on: a .jsonl or .parquet file, a folder of them, a Hub dataset, or task:NAME,…
    #[arg(long, default_value = "task:all", value_name = "DATA")]
    data: String,
    /// Responses to measure, two masks each, each drawn twice
    #[arg(long, default_value_t = 32, value_name = "N", value_parser = clap::value_parser!(u32).range(2..))]
    limit: u32,
    /// Task on which decoders are compared; `none` compares nothing
    #[arg(long, default_value = "arith", value_name = "TASK")]
    task: String,
    /// Test problems of the task
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    problems: u32,
    /// Decoders that are compared; may be given several times [default: demask, threshold:threshold=0.95 and entropy]
    #[arg(long, short = 's', value_name = "STRATEGY")]
    strategy: Vec<StrategySpec>,
    /// Take texts as they are, without the chat template
    #[arg(long)]
    raw: bool,
    /// Fill responses up with EOS to one of these lengths, as the canvas is when decoding
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    pad_to: Vec<usize>,
    /// Tokens that go through the model at once; bounds the memory
    #[arg(long, default_value_t = 8192, value_name = "N")]
    token_budget: usize,
    /// Seed of masks and draws
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let model = args.model.open()?;
    let Some(predictor) = model.predictor() else {
        usage!("there is no predictor to evaluate; name one with --predictor FILE|DIR|NAME");
    };
    let data = Data::open(&args.data, Some(args.limit as usize), args.seed)?;
    let template = model.text().chat().filter(|_| !args.raw).cloned();
    let end_of_turn = matches!(data, Data::Files(_));
    let encoder = Encoder::new(model.tokenizer().clone(), template).with_end_of_turn(end_of_turn);
    let settings = TvCacheSettings {
        seed: args.seed,
        masks_per_response: 2,
        repeat_share: 1.0,
        pad_to: args.pad_to.clone(),
        limit: args.limit as usize,
        hidden: HiddenRows::Both,
        hidden_dtype: Stored::F32,
        ..TvCacheSettings::default()
    };
    let examples = Generator {
        backbone: model.backbone(),
        source: &*data.source(&encoder),
        settings: &settings,
        folder: std::path::Path::new(""),
        token_budget: args.token_budget,
        shard: Shard::WHOLE,
    }
    .examples()?;
    let report = Report::of(predictor, &examples)?;
    print!("{report}");
    warn_if_useless(&report);
    if args.task == "none" {
        return Ok(());
    }
    compare(args, &model)
}

/// Accuracy and forward passes of decoders on test problems.
fn compare(args: &Args, model: &Model) -> Result<()> {
    let Some((task, fresh)) = Generated::find(&args.task) else { usage!("--task takes one task, or none") };
    let split = if fresh { Split::Fresh } else { Split::Test };
    let suite = Generated::new(task, split, args.problems as usize, model.text(), None)?;
    let mut strategies = args.strategy.clone();
    if strategies.is_empty() {
        for name in ["demask", "threshold:threshold=0.95", "entropy"] {
            strategies.push(name.parse()?);
        }
    }
    let mut out = std::io::stdout().lock();
    writeln!(out, "{} test problems of {}:", suite.len(), args.task)?;
    for strategy in &strategies {
        let (mut right, mut forwards) = (0, 0);
        for index in 0..suite.len() {
            let item = suite.item(index, model.text())?;
            let (strategy, length) = (Some(strategy.clone()), Some(item.max_new_tokens));
            let decoding = Decoding { strategy, length, ..Decoding::default() };
            let answer = model.generate(Prompt::Tokens(item.tokens)).decoding(decoding).run()?;
            right += usize::from(suite.score(index, &answer.text)?.correct);
            forwards += answer.metrics.forwards;
        }
        let count = suite.len().max(1) as f64;
        writeln!(
            out,
            "  {:<26} {:5.1} % right, {:.1} forward passes each",
            strategy.to_string(),
            100.0 * right as f64 / count,
            forwards as f64 / count
        )?;
    }
    Ok(())
}
