//! Flags of the commands that work on benchmarks: which one, by whose rules, on what data, and whether programs may run.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Args;
use demask_eval::benchmark::{self, Definition, Item, Options, Protocol};
use demask_eval::sandbox::{Limits, Sandbox};
use demask_model::checkpoint::source;

use crate::args::hub_options;
use crate::loaded::Downloads;

/// Which benchmark, by whose rules, on what data.
#[derive(Debug, Clone, Args)]
pub struct BenchmarkArgs {
    /// Whose prompts, lengths, stops and marks: dream or lm-eval
    #[arg(long, default_value = "dream", value_name = "PROTOCOL")]
    pub protocol: Protocol,
    /// The benchmark's data: a .jsonl, .json or .parquet file, a folder, or a dataset's name on the Hub
    /// [default: the benchmark's own dataset on the Hub]
    #[arg(long, value_name = "FILE|NAME")]
    pub data: Option<String>,
    /// Worked examples in front of each question [default: the protocol's]
    #[arg(long, value_name = "N")]
    pub shots: Option<usize>,
    /// File the worked examples come from [default: the train or validation file beside the data]
    #[arg(long, value_name = "FILE")]
    pub shots_from: Option<PathBuf>,
    /// Whether prompts go through the chat template [default: the protocol's]
    #[arg(long, value_name = "BOOL")]
    pub chat_template: Option<bool>,
}

impl BenchmarkArgs {
    /// The definition and the items of a benchmark.
    pub fn open(&self, task: &str) -> Result<(&'static Definition, Vec<Item>)> {
        let definition = match benchmark::find(task, self.protocol) {
            Ok(definition) => definition,
            Err(error) => usage!("{error}"),
        };
        let data = self.data(definition)?;
        let options =
            Options { shots: self.shots, chat: self.chat_template, shots_from: self.shots_from.clone() };
        Ok((definition, benchmark::open(task, self.protocol, &data, &options)?))
    }

    fn data(&self, definition: &Definition) -> Result<PathBuf> {
        let (name, start) = match (&self.data, definition.hub) {
            (Some(data), _) if Path::new(data).exists() => return Ok(data.into()),
            (Some(name), hub) => (name.as_str(), hub.map_or("", |(_, start)| start)),
            (None, Some((name, start))) => (name, start),
            (None, None) => usage!("{} is on no Hub; name its file with --data", definition.task),
        };
        let looks_like_a_file = name.starts_with(['.', '/']) || name.matches('/').count() != 1;
        if looks_like_a_file {
            usage!("{name} does not exist; --data is a file, a folder or a dataset's name on the Hub");
        }
        let wanted = |file: &str| file.starts_with(start);
        let folder = source::resolve_files(name, &wanted, &hub_options(), &mut Downloads::default())?;
        Ok(folder.join(start))
    }
}

/// Whether and how programs are run.
#[derive(Debug, Clone, Args)]
pub struct CodeArgs {
    /// Run the programs a model writes, in a sandbox; without it, benchmarks of programs are refused
    #[arg(long)]
    pub allow_code_execution: bool,
    /// The Python that runs them
    #[arg(long, default_value = "python3", value_name = "PROGRAM")]
    pub python: PathBuf,
    /// Seconds a program may take
    #[arg(long, default_value_t = Limits::default().seconds, value_name = "SECONDS",
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub code_timeout: u64,
}

impl CodeArgs {
    /// The sandbox, where it is needed and allowed; tells the user what it contains.
    pub fn sandbox(&self, needed: bool) -> Result<Option<Sandbox>> {
        if !needed {
            return Ok(None);
        }
        if !self.allow_code_execution {
            usage!("{}", demask_eval::Error::CodeNotAllowed);
        }
        let helper = std::env::current_exe().context("cannot find this program's own file")?;
        let limits = Limits { seconds: self.code_timeout, ..Limits::default() };
        let sandbox = Sandbox::new(&helper, &self.python, limits)?;
        eprintln!("sandbox: {}", sandbox.statement());
        Ok(Some(sandbox))
    }
}
