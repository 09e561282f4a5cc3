//! `demask bench`: how fast this machine is, and how close the engine comes to it. One file per measurement.
//!
//! Machines are noisy: what is compared runs alternately in one process, several times, and the median is shown with
//! its quartiles. `measure` times, `report` shows.

mod bandwidth;
mod blocks;
mod candle;
mod compare;
mod decode;
mod forward;
mod gemm;
mod limit;
mod measure;
pub(crate) mod model;
mod parts;
mod peak;
mod predictor;
mod pretrain;
mod quality;
mod report;
mod scaling;
mod step;
mod subject;
mod touched;
mod tv_cache;

use anyhow::{Context as _, Result};

/// Measures speed: the machine's peak, products, forward passes, the TV cache, the predictor
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Peak(peak::Args),
    Bandwidth(bandwidth::Args),
    Gemm(gemm::Args),
    Forward(forward::Args),
    Step(step::Args),
    Blocks(blocks::Args),
    Decode(Box<decode::Args>),
    #[command(name = "tv-cache", alias = "cache")]
    TvCache(Box<tv_cache::Args>),
    Predictor(predictor::Args),
    Pretrain(pretrain::Args),
    Scaling(scaling::Args),
    Quality(Box<quality::Args>),
    Compare(Box<compare::Args>),
    Candle(candle::Args),
}

impl Args {
    /// Whether the allocator stays as the system has it.
    pub fn leaves_allocator(&self) -> bool {
        matches!(&self.command, Command::Candle(args) if args.leaves_allocator())
    }
}

/// Flags of every measurement.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Common {
    /// Rounds; each runs everything once, in alternating order
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) repeats: u16,
    #[command(flatten)]
    pub(crate) output: report::Output,
}

/// Flags of measurements that load no model.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Threads {
    /// Threads of the computation [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
}

impl Threads {
    /// Sizes the thread pool.
    pub(crate) fn set(&self) -> Result<()> {
        if let Some(threads) = self.threads {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.into());
            pool.build_global().context("cannot set the number of threads")?;
        }
        Ok(())
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    match &args.command {
        Command::Peak(args) => peak::run(args),
        Command::Bandwidth(args) => bandwidth::run(args),
        Command::Gemm(args) => gemm::run(args),
        Command::Forward(args) => forward::run(args),
        Command::Step(args) => step::run(args),
        Command::Blocks(args) => blocks::run(args),
        Command::Decode(args) => decode::run(args),
        Command::TvCache(args) => tv_cache::run(args),
        Command::Predictor(args) => predictor::run(args),
        Command::Pretrain(args) => pretrain::run(args),
        Command::Scaling(args) => scaling::run(args),
        Command::Quality(args) => quality::run(args),
        Command::Compare(args) => compare::run(args),
        Command::Candle(args) => candle::run(args),
    }
}
