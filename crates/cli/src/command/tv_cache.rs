//! `demask tv-cache`: makes TV caches (phase 1 of section 4.3) and looks into them.
//!
//! The only place where the generators of `eval` meet the cache of `train`.

pub(crate) mod data;
#[cfg(feature = "object-store")]
mod remote;

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;
use demask::train::data::Encoder;
use demask::train::tv_cache::{
    Cache, Claim, Generator, HiddenRows, Info, Labelling, Observer, Outcome, States, Stored, TvCacheProgress,
    TvCacheSettings, Visits, heads,
};
use demask::{Model, Shard, counted};
use serde_json::json;

use self::data::Data;
use crate::args::ModelArgs;
use crate::host::{Host, Progress};
use crate::shard;

/// What is sure where nothing else is said.
const SURE: f32 = 0.97;

/// Hidden rows wider than this are not stored unless asked for: a large model's would fill the disk.
pub(crate) const WIDEST_STORED: usize = 1024;

/// Measures dependency on real responses (the TV cache), and looks into caches
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Generate(Box<GenerateArgs>),
    Info(InfoArgs),
}

/// Makes a TV cache; continues by itself where it was stopped
#[derive(Debug, clap::Args)]
struct GenerateArgs {
    #[command(flatten)]
    model: ModelArgs,
    /// Responses: a .jsonl or .parquet file, a folder of them, a Hub dataset (org/name[@revision]), or
    /// task:NAME,… (task:all) for generated problems
    #[arg(long, value_name = "DATA")]
    data: String,
    /// Folder of the cache; with the feature object-store, also s3://bucket/folder
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Take texts as they are, without the chat template
    #[arg(long)]
    raw: bool,
    /// End responses where their text ends, without the template's end-of-turn token [default for generated problems]
    #[arg(long, conflicts_with = "raw")]
    no_end_of_turn: bool,
    /// At most this many responses [default: all; 2000 of generated problems]
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Independent masks per response
    #[arg(long, default_value_t = 5, value_name = "N")]
    masks_per_response: u32,
    /// Share of masks with a second draw, from which the irreducible error is estimated
    #[arg(long, default_value_t = 0.05, value_name = "SHARE")]
    repeat_share: f64,
    /// Fill responses up with EOS to one of these lengths, as the canvas is when decoding
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    pad_to: Vec<usize>,
    /// Leave out longer prompts and responses (together)
    #[arg(long, default_value_t = 1024, value_name = "N")]
    max_tokens: usize,
    /// Leave out longer responses
    #[arg(long, default_value_t = 512, value_name = "N")]
    max_response: usize,
    /// Hidden rows stored, so that training needs no backbone [default: both, or none of wide models]
    #[arg(long, value_enum)]
    hidden: Option<HiddenArg>,
    /// Number format of the hidden rows
    #[arg(long, value_enum, default_value_t = StoredArg::F16)]
    hidden_dtype: StoredArg,
    /// Store divergences beside total variations, for a predictor of mutual information (the strategy mi)
    #[arg(long)]
    divergence: bool,
    /// Which states are measured
    #[arg(long, value_enum, default_value_t = StatesArg::Random)]
    states: StatesArg,
    /// Decoder whose states are measured, for --states decoder [default: demask, starting with what heads there are]
    #[arg(long, short = 's', value_name = "STRATEGY")]
    strategy: Option<String>,
    /// Sampling temperature of that decoder
    #[arg(long, value_name = "T", default_value_t = 0.0)]
    temperature: f32,
    /// Nucleus of that decoder
    #[arg(long, value_name = "P")]
    top_p: Option<f32>,
    /// Store stability labels: whether the most probable token of what is not above this probability changes once all
    /// that is above it is revealed [default: none; 0.97 for --states decoder]
    #[arg(long, value_name = "P")]
    gamma: Option<f32>,
    /// Measure no dependency, so that a state costs two passes
    #[arg(long)]
    labels_only: bool,
    /// Responses per parquet file; a killed run repeats at most one file
    #[arg(long, default_value_t = 64, value_name = "N")]
    responses_per_file: usize,
    /// Tokens that go through the model at once; bounds the memory
    #[arg(long, default_value_t = 8192, value_name = "N")]
    token_budget: usize,
    /// Make only every n-th file, counting from 0: 0/4 … 3/4 on four machines with one folder; auto asks the cluster's
    /// scheduler
    #[arg(long, value_name = "I/N|auto", value_parser = shard::read)]
    shard: Option<Shard>,
    /// Do not refuse a share that another process works on: the first to finish a file gives it its name. For schedulers
    /// that start lost work again
    #[arg(long)]
    fenced: bool,
    /// Only tell how many files the cache has
    #[arg(long)]
    plan: bool,
    /// Seed of masks and draws
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

/// Prints counts, the distribution of D and its profile over distance, and draws them
#[derive(Debug, clap::Args)]
struct InfoArgs {
    /// Folder of the cache
    cache: PathBuf,
    /// Draw FILE.svg and FILE.png [default: info in the cache's folder]
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
    /// List the rows of the source that could not be used
    #[arg(long)]
    refused: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum HiddenArg {
    /// None: training runs the model again
    None,
    /// The row of the masked token itself
    I,
    /// The row before it
    #[value(name = "i-1")]
    IMinusOne,
    /// Both
    Both,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StatesArg {
    /// Random masks of the responses, as in the paper
    Random,
    /// States that a decoder visits on their prompts
    Decoder,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum StoredArg {
    /// 16-bit floating point
    F16,
    /// 32-bit floating point
    F32,
}

/// Runs the command.
pub fn run(args: &Args, host: &mut Host<'_>) -> Result<()> {
    match &args.command {
        Command::Generate(args) => generate(args, host),
        Command::Info(args) => info(args, host),
    }
}

fn generate(args: &GenerateArgs, host: &mut Host<'_>) -> Result<()> {
    let model = host.open(&args.model)?;
    let template = model.text().chat().filter(|_| !args.raw).cloned();
    let data = Data::open(&args.data, args.limit, args.seed)?;
    // Small models pre-trained on the tasks end a response with EOS alone.
    let end_of_turn = !args.no_end_of_turn && matches!(data, Data::Files(_));
    let encoder = Encoder::new(model.tokenizer().clone(), template).with_end_of_turn(end_of_turn);
    let settings = args.settings(&model);
    let generator = Generator {
        backbone: model.backbone(),
        source: &*data.source(&encoder),
        settings: &settings,
        folder: &args.out,
        token_budget: args.token_budget,
        shard: args.shard.unwrap_or_default(),
        context: Some(model.context()),
        claim: if args.fenced { Claim::Fence } else { Claim::Lock },
    };
    if args.plan {
        let files = generator.files()?;
        host.result = json!({ "all_files": files });
        return host.say(&format!("{}: {}\n", args.out.display(), counted(files, "file")));
    }
    let outcome = match args.out.to_str().filter(|out| out.contains("://")) {
        Some(url) => in_bucket(&generator, url, host),
        None => generator.run(&mut Watched(host)).map_err(anyhow::Error::from),
    };
    host.clear();
    let folder = args.out.display();
    match outcome? {
        Outcome::Finished(manifest) => {
            host.result = json!({ "files": manifest.files.len(), "all_files": manifest.files.len() });
            host.say(&format!(
                "{folder}: {} of {}, {}, {} refused\n",
                counted(manifest.examples(), "example"),
                counted(manifest.responses(), "response"),
                counted(manifest.pairs() as usize, "pair"),
                counted(manifest.refused(), "row")
            ))?;
            if manifest.labels() > 0 {
                host.say(&format!(
                    "{} with a stability label\n",
                    counted(manifest.labels() as usize, "position")
                ))?;
            }
            if manifest.refused() > 0 {
                let list = args.out.join("refused.jsonl");
                host.note(&format!("the refused rows and reasons are in {}", list.display()));
            }
        }
        Outcome::Waiting { files, all_files } => {
            host.result = json!({ "files": files, "all_files": all_files });
            host.say(&format!(
                "{folder}: {files} of {all_files} files are there; the other shards are missing\n"
            ))?;
        }
        Outcome::Stopped => host.say(&format!("{folder}: stopped; the same command continues\n"))?,
    }
    Ok(())
}

#[cfg(feature = "object-store")]
fn in_bucket(generator: &Generator<'_>, url: &str, host: &mut Host<'_>) -> Result<Outcome> {
    remote::run(generator, url, host)
}

#[cfg(not(feature = "object-store"))]
fn in_bucket(_: &Generator<'_>, url: &str, _: &mut Host<'_>) -> Result<Outcome> {
    usage!(
        "{url} is in a bucket; this program was built without the feature object-store and writes to folders"
    )
}

impl GenerateArgs {
    fn settings(&self, model: &Model) -> TvCacheSettings {
        let hidden = hidden_rows(self.hidden, model.backbone().spec().hidden, WIDEST_STORED);
        let gamma = self.gamma.or((self.states == StatesArg::Decoder || self.labels_only).then_some(SURE));
        let states = match self.states {
            StatesArg::Random => States::Random,
            StatesArg::Decoder => {
                let (context, gamma) = (model.context(), gamma.unwrap_or(SURE));
                let usual = || usual_decoder(context.predictor.is_some(), context.stability.is_some(), gamma);
                States::Decoder(Visits {
                    strategy: self.strategy.clone().unwrap_or_else(usual),
                    temperature: self.temperature,
                    top_p: self.top_p,
                    heads: heads(context),
                })
            }
        };
        let hidden_dtype = match self.hidden_dtype {
            StoredArg::F16 => Stored::F16,
            StoredArg::F32 => Stored::F32,
        };
        TvCacheSettings {
            seed: self.seed,
            masks_per_response: self.masks_per_response,
            repeat_share: if self.labels_only { 0.0 } else { self.repeat_share },
            pad_to: self.pad_to.clone(),
            max_tokens: self.max_tokens,
            max_response: self.max_response,
            limit: self.limit.unwrap_or(0),
            responses_per_file: self.responses_per_file,
            hidden,
            hidden_dtype,
            divergence: self.divergence,
            states,
            stability: gamma.map(|gamma| Labelling { gamma, alone: self.labels_only }),
        }
    }
}

/// The decoder whose states are visited where none is chosen: the one that will decode with the heads there are.
pub(crate) fn usual_decoder(predictor: bool, stability: bool, gamma: f32) -> String {
    match (predictor, stability) {
        (true, true) => format!("demask:start=stable,tau=0.4,gamma={gamma}"),
        (true, false) => format!("demask:start=confident,tau=0.4,gamma={gamma}"),
        (false, _) => "threshold:threshold=0.95".into(),
    }
}

/// Which hidden rows are stored: those that were chosen, else both of a narrow model and none of a wide one.
pub(crate) fn hidden_rows(chosen: Option<HiddenArg>, width: usize, widest: usize) -> HiddenRows {
    match chosen {
        Some(HiddenArg::None) => HiddenRows::None,
        Some(HiddenArg::I) => HiddenRows::I,
        Some(HiddenArg::IMinusOne) => HiddenRows::IMinusOne,
        Some(HiddenArg::Both) => HiddenRows::Both,
        None if width > widest => HiddenRows::None,
        None => HiddenRows::Both,
    }
}

fn info(args: &InfoArgs, host: &mut Host<'_>) -> Result<()> {
    let cache = Cache::open(&args.cache)?;
    let info = Info::of(&cache)?;
    let mut out = info.to_string();
    if args.refused {
        for row in cache.refused()? {
            out += &format!("row {} {}\n", row.row, row.why);
        }
    }
    if !cache.header().settings.measures_dependency() {
        return host.say(&out);
    }
    let picture = args.picture.clone().unwrap_or_else(|| args.cache.join("info"));
    info.draw(&picture)?;
    out += &format!("picture    {} and .png\n", picture.with_extension("svg").display());
    host.say(&out)
}

/// Tells the host how far it is.
pub(crate) struct Watched<'h, 'a>(pub &'h mut Host<'a>);

impl Observer for Watched<'_, '_> {
    fn on_progress(&mut self, progress: &TvCacheProgress) -> ControlFlow<()> {
        let (examples, tokens) = (progress.examples_per_second(), progress.tokens_per_second());
        let speed = |left| format!("{examples:.1} examples/s, {tokens:.0} tokens/s, {} left", clock(left));
        self.0.show(&Progress {
            unit: "responses",
            done: progress.responses as u64,
            total: progress.all_responses as u64,
            message: progress.left().map(speed).unwrap_or_default(),
        })
    }
}

/// Hours, minutes and seconds.
pub(crate) fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}
