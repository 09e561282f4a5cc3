//! `demask doctor`: what this machine has, and what that means: which models fit, and how long a pass of each takes. The
//! times are not looked up but follow from passes that are measured here and now.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use demask::eval::sandbox::{Limits, Sandbox};
use demask::kernels;
use demask::model::checkpoint::source::{self, HubOptions};
use demask::model::{Precision, Spec, memory, shapes, synthetic};
use demask::{Model, Prompt, counted, hub_options};

use super::bench::model::{Canvas, operations, pass};
use crate::machine::{self, size};

/// Tells what this machine has, which models fit, and how long each pass would take, measured
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Tokens of the canvas that a pass goes over
    #[arg(long, default_value_t = 256, value_name = "N", value_parser = clap::value_parser!(u32).range(16..=4096))]
    pub length: u32,
    /// Leave the Hub alone
    #[arg(long)]
    pub offline: bool,
}

/// The model that is asked about on the Hub.
const KNOWN: &str = "Dream-org/Dream-v0-Instruct-7B";
/// How long the Hub may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// One layer whose weights are larger than the caches, and which is made in a second.
const PROBE: [(&str, u32); 9] = [
    ("hidden_size", 2048),
    ("intermediate_size", 6144),
    ("num_attention_heads", 16),
    ("num_key_value_heads", 4),
    ("vocab_size", 2048),
    ("mask_token_id", 2047),
    ("pad_token_id", 1),
    ("bos_token_id", 1),
    ("eos_token_id", 1),
];
/// Passes of which the fastest counts.
const REPEATS: usize = 3;
/// Precisions as they are told.
const PRECISIONS: [(&str, Precision); 3] = [
    ("bf16", Precision::Float(demask::model::checkpoint::Dtype::Bf16)),
    ("int8", Precision::INT8),
    ("q4", Precision::Q4),
];

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    writeln!(out, "cores         {cores}")?;
    writeln!(out, "instructions  {}", instructions())?;
    let memory = machine::memory();
    match memory {
        Some(memory) => writeln!(out, "memory        {}, {} free", size(memory.total), size(memory.free))?,
        None => writeln!(out, "memory        this system does not tell")?,
    }
    writeln!(out, "devices       {}", devices())?;
    writeln!(out, "sandbox       {}", sandbox())?;
    writeln!(out, "Hub           {}", hub(args.offline))?;
    writeln!(out, "inside        {}", inside()?)?;
    out.flush()?;
    let length = args.length as usize;
    let rates =
        PRECISIONS.iter().map(|(_, precision)| rate(*precision, length)).collect::<Result<Vec<_>>>()?;
    let told: Vec<String> =
        PRECISIONS.iter().zip(&rates).map(|((name, _), rate)| format!("{name} {:.0}", rate / 1e9)).collect();
    writeln!(out, "products      {} billion operations a second, measured on one layer", told.join(", "))?;
    writeln!(out, "\nMemory a model takes, and seconds of one pass over {}:", counted(length, "token"))?;
    writeln!(out, "{:<20} {:>18} {:>18} {:>18}", "", PRECISIONS[0].0, PRECISIONS[1].0, PRECISIONS[2].0)?;
    for shape in shapes::ALL {
        let spec = Spec::from_json(&shape.config().to_string(), "config.json".as_ref())?;
        let work = operations(&spec, &[Canvas::new(&spec, length, length / 2)]);
        let mut line = format!("{:<20}", shape.name);
        for ((_, precision), rate) in PRECISIONS.iter().zip(&rates) {
            let bytes = memory::estimate(&spec, Some(2.0), Some(*precision), length, 0).total() as u64;
            let fits = memory.is_none_or(|memory| bytes <= memory.free);
            let seconds = if fits { format!("{:.2} s", work / rate) } else { "too large".into() };
            line += &format!(" {:>9} {seconds:>9}", size(bytes));
        }
        writeln!(out, "{line}")?;
    }
    writeln!(
        out,
        "\nAn answer takes as many passes as its decoder needs; `demask pull org/name --int8` gets a model."
    )?;
    Ok(())
}

fn instructions() -> String {
    let here = kernels::isa();
    let better: Vec<&str> =
        kernels::Isa::ALL.into_iter().filter(|isa| *isa > here).map(kernels::Isa::name).collect();
    match better.is_empty() {
        true => here.name().to_owned(),
        false => format!("{} (there is code for {} too)", here.name(), better.join(", ")),
    }
}

fn devices() -> String {
    let built = |name: &str, has: bool| {
        if has { format!("{name} (built in)") } else { format!("no {name} in this build") }
    };
    format!(
        "processor, {}, {}",
        built("CUDA", cfg!(feature = "cuda")),
        built("Metal", cfg!(feature = "metal"))
    )
}

/// Whether programs of a model can be tried here, and what holds them.
fn sandbox() -> String {
    let tried = std::env::current_exe()
        .context("this program's own file is not to be found")
        .and_then(|helper| Ok(Sandbox::new(&helper, Path::new("python3"), Limits::default())?.statement()));
    tried.unwrap_or_else(|error| format!("none, so humaneval and mbpp cannot be judged: {error:#}"))
}

fn hub(offline: bool) -> String {
    let options = hub_options();
    let place = options.home.join("hub");
    let cache = format!("cache {} ({})", place.display(), counted(cached(&place), "model"));
    if offline || options.offline {
        return format!("not asked; {cache}");
    }
    let begun = Instant::now();
    let asked = HubOptions { patience: options.patience.min(PATIENCE), ..options.clone() };
    match source::reach(KNOWN, &asked) {
        Ok(()) => format!("{} answers in {:.2} s; {cache}", options.address(), begun.elapsed().as_secs_f64()),
        Err(error) => format!("{error}; {cache}"),
    }
}

fn cached(hub: &Path) -> usize {
    let named = |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with("models--");
    std::fs::read_dir(hub).map_or(0, |entries| entries.flatten().filter(named).count())
}

/// The model inside this program, on a prompt: what an answer took.
fn inside() -> Result<String> {
    let begun = Instant::now();
    let model = Model::embedded()?;
    let loaded = begun.elapsed();
    let answer = model.generate(Prompt::User("How many pens are 2 pens and 3 pens?".into())).run()?;
    Ok(format!(
        "the small model loads in {:.2} s; an answer of {} took {:.2} s",
        loaded.as_secs_f64(),
        counted(answer.metrics.forwards, "pass"),
        answer.seconds
    ))
}

/// Operations a second of a pass in this precision.
fn rate(precision: Precision, length: usize) -> Result<f64> {
    let mut config = shapes::with_layers(shapes::ALL[0].config(), 1);
    for (key, value) in PROBE {
        config[key] = value.into();
    }
    let spec = Spec::from_json(&config.to_string(), "config.json".as_ref())?;
    let model = synthetic::transformer(spec.clone(), precision, 0)?;
    let canvas = [Canvas::new(&spec, length, length)];
    let mut fastest = f64::INFINITY;
    for _ in 0..REPEATS {
        let begun = Instant::now();
        pass(&model, &canvas)?;
        fastest = fastest.min(begun.elapsed().as_secs_f64());
    }
    Ok(operations(&spec, &canvas) / fastest)
}
