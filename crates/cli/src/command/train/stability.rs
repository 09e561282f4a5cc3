//! `demask train stability`: the head of `demask:start=stable`, from TV caches with labels, or in rounds in which the
//! decoder that uses it visits the states it learns from.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use clap::ValueEnum;
use demask::decode::dependency::Parts;
use demask::model::HiddenRow;
use demask::model::checkpoint::Dtype;
use demask::train::part::PartProgress;
use demask::train::stability::{Round, Rounds, StabilityFit, StabilityReport, StabilitySettings};
use demask::train::tv_cache::{Cache, Labelling, TvCacheSettings, Visits};
use demask::{Model, counted};
use indicatif::ProgressBar;

use super::terminal::{bar, folder_of, stop_on_signals};
use crate::args::ModelArgs;
use crate::command::tv_cache::data::Data;
use crate::command::tv_cache::{HiddenArg, Watched, clock, hidden_rows, usual_decoder};
use crate::host::Host;

/// Trains the stability head of the predictor, for demask:start=stable; continues by itself where it was stopped
#[derive(Debug, clap::Args)]
pub(super) struct StabilityArgs {
    #[command(flatten)]
    model: ModelArgs,
    /// The file to write: the model's predictor with the head in it; caches, states and reports go to a folder of the
    /// same name with the ending .run
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Train on these caches, made with labels (tv-cache generate --gamma), instead of decoding
    #[arg(long, value_name = "DIR,…", value_delimiter = ',', conflicts_with_all = ["data", "rounds", "gamma"])]
    cache: Vec<PathBuf>,
    /// Prompts: a .jsonl or .parquet file, a folder of them, a Hub dataset (org/name[@revision]), or task:NAME,…
    /// (task:all) for generated problems
    #[arg(long, value_name = "DATA", default_value = "task:all")]
    data: String,
    /// Rounds of decoding, labelling and training; the head of one decodes the next
    #[arg(long, value_name = "N", default_value_t = 2)]
    rounds: usize,
    /// Prompts of a round
    #[arg(long, value_name = "N", default_value_t = 2000)]
    limit: usize,
    /// States of each decoding that are labelled
    #[arg(long, value_name = "N", default_value_t = 5)]
    states: u32,
    /// What is above this probability is sure
    #[arg(long, value_name = "P", default_value_t = 0.97)]
    gamma: f32,
    /// Decoder of the rounds after the first [default: demask:start=stable with this gamma]
    #[arg(long, short = 's', value_name = "STRATEGY")]
    strategy: Option<String>,
    /// Decoder of the first round, which has no head yet [default: demask:start=confident with this gamma]
    #[arg(long, value_name = "STRATEGY")]
    first: Option<String>,
    /// Sampling temperature of the decodings
    #[arg(long, value_name = "T", default_value_t = 0.0)]
    temperature: f32,
    /// Nucleus of the decodings
    #[arg(long, value_name = "P")]
    top_p: Option<f32>,
    /// Fill responses up with EOS to one of these lengths, as the canvas is when decoding
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    pad_to: Vec<usize>,
    /// Take texts as they are, without the chat template
    #[arg(long)]
    raw: bool,
    /// Which hidden row stands for a position, where the model has no predictor that says it
    #[arg(long, value_enum, default_value_t = RowArg::IMinusOne)]
    hidden_row: RowArg,
    /// Passes over the labelled positions
    #[arg(long, value_name = "N")]
    epochs: Option<u64>,
    /// Positions per update
    #[arg(long, value_name = "N")]
    batch: Option<usize>,
    /// Highest learning rate
    #[arg(long, value_name = "X")]
    rate: Option<f64>,
    /// Width between the head's two layers
    #[arg(long, value_name = "N")]
    inner: Option<usize>,
    /// Tokens that go through the model at once; bounds the memory
    #[arg(long, default_value_t = 8192, value_name = "N")]
    token_budget: usize,
    /// Seed of problems, states, starting weights and order
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum RowArg {
    /// The row of the masked token itself
    I,
    /// The row before it
    #[value(name = "i-1")]
    IMinusOne,
}

/// Trains the head.
pub(super) fn run(args: &StabilityArgs, host: &mut Host<'_>) -> Result<()> {
    let model = args.model.open()?;
    let parts = model.predictor_parts()?;
    folder_of(&args.out)?;
    if args.cache.is_empty() {
        in_rounds(args, &model, parts.as_ref(), host)
    } else {
        on_caches(args, parts.as_ref())
    }
}

fn on_caches(args: &StabilityArgs, parts: Option<&Parts>) -> Result<()> {
    let caches = args.cache.iter().map(|folder| Cache::open(folder)).collect::<Result<Vec<_>, _>>()?;
    let settings = args.settings();
    let folder = args.out.with_extension("run");
    let row = args.row();
    let fit = StabilityFit { caches: &caches, parts, row, settings: &settings, folder: &folder };
    let mut watch = Watch::new()?;
    let fitted = fit.run(&mut |progress| watch.step(progress));
    watch.end();
    match fitted? {
        None => println!("stopped; the same command continues"),
        Some(fitted) => {
            print!("{}", fitted.report);
            save(&fitted.parts, &fitted.report, &args.out)?;
        }
    }
    Ok(())
}

fn in_rounds(args: &StabilityArgs, model: &Model, parts: Option<&Parts>, host: &mut Host<'_>) -> Result<()> {
    let data = Data::open(&args.data, Some(args.limit * args.rounds), args.seed)?;
    let encoder = data.encoder(model, args.raw);
    let row = parts.map_or(args.row(), |parts| parts.metadata.hidden_row);
    let kept = if row == HiddenRow::I { HiddenArg::I } else { HiddenArg::IMinusOne };
    let cache = TvCacheSettings {
        seed: args.seed,
        masks_per_response: args.states,
        repeat_share: 0.0,
        pad_to: args.pad_to.clone(),
        limit: args.limit,
        hidden: hidden_rows(Some(kept), 0, 0),
        stability: Some(Labelling { gamma: args.gamma, alone: true }),
        ..TvCacheSettings::default()
    };
    let has = parts.is_some_and(|parts| !parts.heads.is_empty());
    let visits = |chosen: &Option<String>, head: bool| Visits {
        strategy: chosen.clone().unwrap_or_else(|| usual_decoder(has, head, args.gamma)),
        temperature: args.temperature,
        top_p: args.top_p,
        heads: String::new(),
    };
    let (first, then) = (visits(&args.first, false), visits(&args.strategy, true));
    let rounds = Rounds {
        backbone: model.backbone(),
        context: model.context(),
        parts,
        row,
        source: &*data.source(&encoder),
        cache: &cache,
        first: &first,
        then: &then,
        count: args.rounds,
        settings: &args.settings(),
        folder: &args.out.with_extension("run"),
        token_budget: args.token_budget,
    };
    let mut watch = Watch::new()?;
    let last = rounds.run(&mut Watched(host), &mut |progress| watch.step(progress), &mut |round: &Round| {
        println!(
            "round {}: {} so far, the last visited by {}",
            round.index + 1,
            counted(round.labels as usize, "labelled position"),
            round.strategy
        );
        print!("{}", round.fitted.report);
    });
    host.clear();
    watch.end();
    match last? {
        None => println!("stopped; the same command continues"),
        Some(round) => save(&round.fitted.parts, &round.fitted.report, &args.out)?,
    }
    Ok(())
}

fn save(parts: &Parts, report: &StabilityReport, out: &Path) -> Result<()> {
    parts.save(out, Dtype::F32)?;
    println!("{}: use it with -s demask:start=stable,gamma={} --predictor", out.display(), report.gamma);
    if report.is_worse_than_a_constant() {
        eprintln!(
            "warning: this head is no better than a constant (log-loss {:.5} against {:.5}); label more states, or train \
             longer",
            report.log_loss, report.constant
        );
    }
    Ok(())
}

impl StabilityArgs {
    fn settings(&self) -> StabilitySettings {
        let usual = StabilitySettings::default();
        StabilitySettings {
            seed: self.seed,
            epochs: self.epochs.unwrap_or(usual.epochs),
            batch: self.batch.unwrap_or(usual.batch),
            rate: self.rate.unwrap_or(usual.rate),
            inner: self.inner.unwrap_or(usual.inner),
            ..usual
        }
    }

    fn row(&self) -> HiddenRow {
        match self.hidden_row {
            RowArg::I => HiddenRow::I,
            RowArg::IMinusOne => HiddenRow::IMinusOne,
        }
    }
}

/// A bar on standard error for each training, and a clean end on Ctrl-C.
struct Watch {
    bar: Option<ProgressBar>,
    stop: Arc<AtomicBool>,
}

impl Watch {
    fn new() -> Result<Self> {
        Ok(Self { bar: None, stop: stop_on_signals()? })
    }

    fn end(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    fn step(&mut self, progress: &PartProgress) -> ControlFlow<()> {
        let bar = self.bar.get_or_insert_with(|| bar(progress.steps, "updates"));
        bar.set_length(progress.steps);
        bar.set_position(progress.step);
        let number = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{v:.5}"));
        let (loss, held) = (number(progress.loss), number(progress.validation));
        bar.set_message(format!("log-loss {loss}, held out {held}, {} left", clock(progress.left)));
        if self.stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
