//! `demask bench compare`: beside the programs people would use instead, on the same file, taking turns. `answer` waits for
//! whole answers; `pass` (with `--pass`) times a prompt's pass alone.

mod answer;
mod child;
mod engine;
mod file;
mod log;
mod pass;

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::ValueEnum;
use demask::model::gguf::Kind;
use demask::model::{Spec, shapes};

use super::model::{ModelShape, Outline};
use super::{Common, Threads};
use crate::args::DtypeArg;

/// Answers beside llama.cpp's and PyTorch's on a file of the same weights; with --pass one pass
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folder of llama.cpp's programs, or the program itself (llama-diffusion-cli; llama-bench with --pass)
    #[arg(long, value_name = "BIN")]
    llama_cpp: Option<PathBuf>,
    /// A config.json whose shape to use [default: Dream-7B's]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Format of the weights in the file [default: q8-0; with --pass q8-0 and q4-0]
    #[arg(long, value_enum, value_delimiter = ',')]
    kind: Vec<KindArg>,
    /// Numbers of layers; from the first two that of the whole model follows [default: 1, 2; with --pass 4]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=512))]
    layers: Vec<u16>,
    #[command(flatten)]
    answer: answer::Flags,
    #[command(flatten)]
    log: log::Flags,
    /// Compare one pass over a prompt with llama.cpp's llama-bench instead of answers
    #[arg(long)]
    pass: bool,
    /// With --pass: canvas length
    #[arg(long, default_value_t = 512, value_name = "L", requires = "pass")]
    length: usize,
    /// With --pass: also run ours with weights quantised by itself, in groups of 128
    #[arg(long, requires = "pass")]
    own_groups: bool,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    threads: Threads,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum KindArg {
    #[value(name = "q8-0", alias = "q8_0")]
    Q8_0,
    #[value(name = "q4-0", alias = "q4_0")]
    Q4_0,
    #[value(name = "f16")]
    F16,
}

impl KindArg {
    fn kind(self) -> (&'static str, Kind) {
        match self {
            Self::Q8_0 => ("q8-0", Kind::Q8_0),
            Self::Q4_0 => ("q4-0", Kind::Q4_0),
            Self::F16 => ("f16", Kind::F16),
        }
    }
}

impl Args {
    /// The model with this many layers.
    fn shape(&self, layers: u16) -> ModelShape {
        let outline = Outline { shape: &shapes::ALL[0], config: self.config.clone(), layers: Some(layers) };
        ModelShape { outline, dtype: DtypeArg::Int8 }
    }

    /// Its shape with all layers that it has.
    fn whole(&self) -> Result<Spec> {
        Outline { shape: &shapes::ALL[0], config: self.config.clone(), layers: None }.spec(None)
    }

    fn kinds(&self, usual: &[KindArg]) -> Vec<KindArg> {
        if self.kind.is_empty() { usual.to_vec() } else { self.kind.clone() }
    }

    fn depths(&self, usual: &[u16]) -> Vec<u16> {
        if self.layers.is_empty() { usual.to_vec() } else { self.layers.clone() }
    }
}

/// llama.cpp's program of this name, given it or its folder.
fn program(given: &Path, name: &str) -> Result<PathBuf> {
    let program = if given.is_dir() { given.join(name) } else { given.to_owned() };
    if !program.is_file() {
        usage!("{} is not a program; name llama.cpp's {name}", program.display());
    }
    Ok(program)
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    args.threads.set()?;
    if args.pass { pass::run(args) } else { answer::run(args) }
}
