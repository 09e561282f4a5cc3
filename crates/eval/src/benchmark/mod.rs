//! The paper's benchmarks, asked and marked as their owners do: GSM8K, MMLU-Pro, HumanEval, MBPP, and the Countdown and
//! Sudoku of Dream's planning evaluation.
//!
//! A [`Definition`] is a benchmark under one [`Protocol`] written as data: how many shots, how long, where a response is
//! cut, how much of the prompt is kept. One file per benchmark turns the rows of its dataset into items accordingly.
//! Invariant: an item carries everything it takes to ask it and to mark an answer; nothing else knows the benchmark.

mod countdown;
mod data;
mod extract;
mod gsm8k;
mod humaneval;
mod item;
mod mbpp;
mod mmlu_pro;
mod python_random;
mod sudoku;

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::error::{Error, Remedy, Result};

pub use item::{Check, Prompt, Question};

/// Whose rules are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// Dream's published evaluation of its instruct model (DreamLM/Dream@fac0a7f), and its planning evaluation.
    #[default]
    Dream,
    /// The task definitions of lm-evaluation-harness 0.4.13.
    LmEval,
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dream => "dream",
            Self::LmEval => "lm-eval",
        })
    }
}

impl FromStr for Protocol {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "dream" => Ok(Self::Dream),
            "lm-eval" | "lm_eval" => Ok(Self::LmEval),
            _ => Err(format!("there is no protocol {text:?}; the protocols are dream and lm-eval")),
        }
    }
}

/// A benchmark under one protocol.
#[derive(Debug)]
pub struct Definition {
    /// The task's name where it comes from, as records carry it.
    pub task: &'static str,
    /// Other names it answers to.
    pub aliases: &'static [&'static str],
    /// Whose rules these are.
    pub protocol: Protocol,
    /// Raised whenever a prompt or a mark changes.
    pub version: u32,
    /// What is followed, to the version.
    pub source: &'static str,
    /// Worked examples in front of the question.
    pub shots: usize,
    /// Whether the prompt goes through the checkpoint's chat template.
    pub chat: bool,
    /// Where a response is cut, in turn.
    pub until: &'static [&'static str],
    /// Length of the response.
    pub max_new_tokens: usize,
    /// Tokens of the prompt that are kept, from its end.
    pub max_prompt_tokens: Option<usize>,
    /// Whether answers are programs that have to be run.
    pub code: bool,
    /// The dataset on the Hub and the start of the names of its files.
    pub hub: Option<(&'static str, &'static str)>,
    /// The split that settings may be chosen on without looking at the questions that are reported.
    pub tuning: Option<&'static str>,
    build: fn(&Setup<'_>) -> Result<Vec<Question>>,
}

/// Every benchmark under every protocol that has it.
pub static ALL: &[Definition] = &[
    gsm8k::DREAM,
    mmlu_pro::DREAM,
    humaneval::DREAM,
    mbpp::DREAM,
    countdown::DREAM,
    sudoku::DREAM,
    gsm8k::LM_EVAL,
    gsm8k::LM_EVAL_COT,
    mmlu_pro::LM_EVAL,
    humaneval::LM_EVAL,
    humaneval::LM_EVAL_INSTRUCT,
    mbpp::LM_EVAL,
    mbpp::LM_EVAL_INSTRUCT,
];

/// What may be asked of a benchmark beyond its definition.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Another number of shots.
    pub shots: Option<usize>,
    /// Whether the chat template is applied.
    pub chat: Option<bool>,
    /// File the shots are taken from, where they come from another split than the questions.
    pub shots_from: Option<PathBuf>,
    /// Questions to choose settings on instead of those that are reported.
    pub tuning: bool,
}

/// A definition and the data it is applied to.
struct Setup<'a> {
    definition: &'a Definition,
    shots: usize,
    chat: bool,
    data: &'a Path,
    shots_from: Option<&'a Path>,
    /// The split the questions are taken from instead of the test split.
    tuning: Option<&'static str>,
}

impl Setup<'_> {
    /// Rows of the questions.
    fn rows(&self) -> Result<Vec<data::Row>> {
        match self.tuning {
            None => data::rows(&self.file()?),
            Some(split) => data::rows(&data::neighbour(self.data, split)?),
        }
    }

    /// The file of the test split.
    fn file(&self) -> Result<PathBuf> {
        data::split(self.data, &["test"])
    }

    /// Rows the shots are taken from: the file named for it, or the neighbour of that split.
    fn shot_rows(&self, split: &str) -> Result<Vec<data::Row>> {
        match self.shots_from {
            Some(file) => data::rows(&data::split(file, &[split])?),
            None => data::rows(&data::neighbour(self.data, split)?),
        }
    }

    fn item(&self, doc_id: usize, prompt: Prompt, target: String, check: impl Check + 'static) -> Question {
        let definition = self.definition;
        Question {
            task: definition.task.to_owned(),
            doc_id,
            prompt,
            chat: self.chat,
            until: definition.until.iter().map(|&stop| stop.to_owned()).collect(),
            max_new_tokens: definition.max_new_tokens,
            max_prompt_tokens: definition.max_prompt_tokens,
            target,
            check: Box::new(check),
        }
    }
}

impl Definition {
    /// Whether this is one of its names.
    pub fn answers_to(&self, name: &str) -> bool {
        self.task == name
            || self.aliases.contains(&name)
            || (self.task == mmlu_pro::TASK && mmlu_pro::subject(name).is_some())
    }

    /// Whether this name stands for a part of the benchmark: a subject, or Countdown with a given count of numbers.
    pub fn is_part(&self, name: &str) -> bool {
        mmlu_pro::subject(name).is_some() || countdown::size(name).is_some()
    }
}

/// The benchmark of this name under a protocol.
pub fn find(name: &str, protocol: Protocol) -> Result<&'static Definition> {
    if let Some(found) = ALL.iter().find(|d| d.protocol == protocol && d.answers_to(name)) {
        return Ok(found);
    }
    let known: Vec<&str> = ALL.iter().filter(|d| d.protocol == protocol).map(|d| d.task).collect();
    let elsewhere = ALL
        .iter()
        .find(|d| d.answers_to(name))
        .map_or(String::new(), |other| format!("; {name} belongs to the protocol {}", other.protocol));
    Err(Error::Data(format!(
        "there is no benchmark {name:?} under the protocol {protocol}; it has {}{elsewhere}",
        known.join(", ")
    )))
}

/// The items of a benchmark: questions in the order of the data, subject by subject where it has subjects.
/// `data` is a file of the benchmark's own format, or a folder that has one whose name tells the split.
pub fn open(name: &str, protocol: Protocol, data: &Path, options: &Options) -> Result<Vec<Question>> {
    let definition = find(name, protocol)?;
    if options.tuning && definition.tuning.is_none() {
        let problem = format!(
            "{} has no questions apart from those that are reported; a choice made on the test split is no longer a fair \
             report of it",
            definition.task
        );
        return Err(Error::Choice { problem, remedy: Remedy::TestSplit });
    }
    let setup = Setup {
        definition,
        shots: options.shots.unwrap_or(definition.shots),
        chat: options.chat.unwrap_or(definition.chat),
        data,
        shots_from: options.shots_from.as_deref(),
        tuning: definition.tuning.filter(|_| options.tuning),
    };
    let mut items = (definition.build)(&setup)?;
    if definition.is_part(name) {
        items.retain(|item| item.task == name);
    }
    if items.is_empty() {
        return Err(Error::Data(format!("{} has no row for {name}", data.display())));
    }
    Ok(items)
}

#[cfg(test)]
mod tests;
