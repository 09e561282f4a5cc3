//! Flags of the commands that work on benchmarks: which one, by whose rules, on what data, and whether programs may run.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use demask::eval::benchmark::{self, Definition, Options, Protocol, Question};
use demask::eval::sandbox::{Limits, Sandbox};
use demask::hub_options;
use demask::model::checkpoint::source;
use demask::model::text::Trailing;

use crate::downloads::Downloads;

const HEADING: &str = "Benchmarks";

/// By whose rules a benchmark is asked, on what data.
#[derive(Debug, Clone, Args)]
pub struct BenchmarkArgs {
    /// Whose prompts, lengths, stops and marks: dream or lm-eval
    #[arg(long, default_value = "dream", value_name = "PROTOCOL", help_heading = HEADING)]
    pub protocol: Protocol,
    /// The benchmark's data: a .jsonl, .json or .parquet file, a folder, or a dataset's name on the Hub; TASK=… is for
    /// one benchmark only, and a folder may hold a folder for each [default: the benchmark's own dataset on the Hub]
    #[arg(long, value_name = "[TASK=]FILE|NAME", help_heading = HEADING)]
    pub data: Vec<String>,
    /// Worked examples in front of each question [default: the protocol's]
    #[arg(long, value_name = "N", help_heading = HEADING)]
    pub shots: Option<usize>,
    /// File the worked examples come from [default: the train or validation file beside the data]
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    pub shots_from: Option<PathBuf>,
    /// Whether prompts go through the chat template [default: the protocol's]
    #[arg(long, value_name = "BOOL", help_heading = HEADING)]
    pub chat_template: Option<bool>,
    /// Which transformers renders an answer that is already begun: white space at its end is kept by the later ones
    #[arg(long, value_enum, default_value_t = Transformers::Current, help_heading = HEADING)]
    pub transformers: Transformers,
}

/// Versions of transformers that differ in a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Transformers {
    /// 4.47 and later
    Current,
    /// 4.46, the version Dream prescribes
    #[value(name = "4.46")]
    V4_46,
}

/// Where the data of a benchmark is.
enum Place {
    Here(PathBuf),
    Hub { name: String, start: &'static str },
}

impl BenchmarkArgs {
    /// The benchmark of a name under the protocol.
    pub fn find(&self, task: &str) -> Result<&'static Definition> {
        match benchmark::find(task, self.protocol) {
            Ok(definition) => Ok(definition),
            Err(error) => usage!("{error}"),
        }
    }

    /// Refuses a benchmark that is unknown or whose data cannot be meant, before anything is fetched or loaded.
    /// `alone` says that no other benchmark is asked for.
    pub fn check(&self, task: &str, alone: bool) -> Result<&'static Definition> {
        let definition = self.find(task)?;
        self.place(task, definition, alone)?;
        Ok(definition)
    }

    /// The definition and the items of a benchmark; see [`Self::check`]. `tuning` asks for those that settings are
    /// chosen on.
    pub fn open(
        &self,
        task: &str,
        alone: bool,
        tuning: bool,
    ) -> Result<(&'static Definition, Vec<Question>)> {
        let definition = self.find(task)?;
        let data = match self.place(task, definition, alone)? {
            Place::Here(path) => path,
            Place::Hub { name, start } => {
                let wanted = |file: &str| file.starts_with(start);
                let fetched =
                    source::resolve_files(&name, &wanted, &hub_options(), &mut Downloads::default());
                let hint =
                    || format!("{task} has no data here; name a file or folder that has it with --data");
                fetched.with_context(hint)?.join(start)
            }
        };
        let shots_from = self.shots_from.clone();
        let options = Options { shots: self.shots, chat: self.chat_template, shots_from, tuning };
        Ok((definition, benchmark::open(task, self.protocol, &data, &options)?))
    }

    /// What becomes of white space at the end of an answer that is already begun.
    pub fn trailing(&self) -> Trailing {
        match self.transformers {
            Transformers::Current => Trailing::Keep,
            Transformers::V4_46 => Trailing::Strip,
        }
    }

    fn place(&self, task: &str, definition: &Definition, alone: bool) -> Result<Place> {
        let start = definition.hub.map_or("", |(_, start)| start);
        let Some((data, own)) = self.named(task, definition) else {
            let Some((name, _)) = definition.hub else {
                usage!("{task} is on no Hub; name its file with --data {task}=FILE");
            };
            return Ok(Place::Hub { name: name.to_owned(), start });
        };
        let path = Path::new(data);
        // One folder for several benchmarks holds a folder for each.
        let mut names = vec![task, definition.task];
        names.extend(definition.aliases);
        let inside = names.iter().map(|name| path.join(name)).find(|folder| !own && folder.is_dir());
        if let Some(folder) = inside {
            return Ok(Place::Here(folder));
        }
        if !own && !alone {
            usage!("--data {data} could be of any benchmark; say of which with --data {task}={data}");
        }
        if path.exists() {
            return Ok(Place::Here(path.to_path_buf()));
        }
        let looks_like_a_file = data.starts_with(['.', '/']) || data.matches('/').count() != 1;
        if looks_like_a_file {
            usage!("{data} does not exist; --data is a file, a folder or a dataset's name on the Hub");
        }
        Ok(Place::Hub { name: data.to_owned(), start })
    }

    /// The value of --data for a benchmark, and whether it is for this one only.
    fn named(&self, task: &str, definition: &Definition) -> Option<(&str, bool)> {
        let entries: Vec<(Option<&str>, &str)> = self.data.iter().map(|entry| of_task(entry)).collect();
        let own = |name: &str| name == task || (definition.answers_to(name) && !definition.is_part(name));
        let exact = entries.iter().find(|(name, _)| name.is_some_and(|name| name == task));
        let own = exact.or_else(|| entries.iter().find(|(name, _)| name.is_some_and(own)));
        let general = || entries.iter().find(|(name, _)| name.is_none());
        own.map(|(_, data)| (*data, true)).or_else(|| general().map(|(_, data)| (*data, false)))
    }
}

/// The benchmark that a value of --data names, and the rest of it.
fn of_task(entry: &str) -> (Option<&str>, &str) {
    match entry.split_once('=') {
        Some((name, data)) if benchmark::ALL.iter().any(|d| d.answers_to(name)) => (Some(name), data),
        _ => (None, entry),
    }
}

/// Whether and how programs are run.
#[derive(Debug, Clone, Args)]
pub struct CodeArgs {
    /// Run the programs a model writes, in a sandbox; without it, benchmarks of programs are refused
    #[arg(long, help_heading = HEADING)]
    pub allow_code_execution: bool,
    /// The Python that runs them
    #[arg(long, default_value = "python3", value_name = "PROGRAM", help_heading = HEADING)]
    pub python: PathBuf,
    /// Seconds a program may take
    #[arg(long, default_value_t = Limits::default().seconds, value_name = "SECONDS", help_heading = HEADING,
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub code_timeout: u64,
}

impl CodeArgs {
    /// Refuses a benchmark of programs where running them was not allowed.
    pub fn check(&self, definition: &Definition) -> Result<()> {
        if definition.code && !self.allow_code_execution {
            let error = demask::eval::Error::CodeNotAllowed;
            usage!("{}: {error}; allow it with --allow-code-execution", definition.task);
        }
        Ok(())
    }

    /// The sandbox, where it is needed; tells the user what it contains.
    pub fn sandbox(&self, needed: bool) -> Result<Option<Sandbox>> {
        if !needed {
            return Ok(None);
        }
        let helper = std::env::current_exe().context("cannot find this program's own file")?;
        let limits = Limits { seconds: self.code_timeout, ..Limits::default() };
        let sandbox = Sandbox::new(&helper, &self.python, limits)?;
        eprintln!("sandbox: {}", sandbox.statement());
        Ok(Some(sandbox))
    }
}
