//! Who a command works for: the terminal, or a program that called it and brings a model of its own.
//!
//! Invariant: what a command computes and writes to its folder is the same for both; only who is told differs.

use std::io::Write as _;
use std::ops::ControlFlow;

use anyhow::Result;
use demask::Model;
use demask::decode::StrategySpec;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;

use crate::args::ModelArgs;

/// How far a command is.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Progress {
    /// What is counted, in the plural.
    pub unit: &'static str,
    /// How many are done.
    pub done: u64,
    /// How many there are.
    pub total: u64,
    /// What else there is to say.
    pub message: String,
}

/// Hears how far a command is and may end it.
pub type Watch<'a> = dyn FnMut(&Progress) -> ControlFlow<()> + 'a;

/// Who a command works for.
#[derive(Default)]
pub struct Host<'a> {
    model: Option<&'a Model>,
    strategies: Option<Vec<StrategySpec>>,
    watch: Option<&'a mut Watch<'a>>,
    /// What a program is told instead of what standard output and standard error show.
    told: String,
    notes: String,
    bar: Option<ProgressBar>,
    /// What came out, for a program.
    pub result: Value,
}

impl<'a> Host<'a> {
    /// The terminal.
    pub fn terminal() -> Self {
        Self::default()
    }

    /// A program that watches.
    pub fn program(watch: &'a mut Watch<'a>) -> Self {
        Self { watch: Some(watch), ..Self::default() }
    }

    /// The same with a model that is already loaded, instead of the one the flags name.
    pub fn with_model(self, model: Option<&'a Model>) -> Self {
        Self { model, ..self }
    }

    /// The same with strategies that only this program knows, instead of those the flags name.
    pub fn with_strategies(self, strategies: Option<Vec<StrategySpec>>) -> Self {
        Self { strategies, ..self }
    }

    /// The model to work with.
    pub(crate) fn open(&self, args: &ModelArgs) -> Result<Model> {
        self.model.map_or_else(|| args.open(), |model| Ok(model.clone()))
    }

    /// Whether a program called, and not a terminal.
    pub(crate) fn is_program(&self) -> bool {
        self.watch.is_some()
    }

    /// The program's model, if it brought one.
    pub(crate) fn model(&self) -> Option<&'a Model> {
        self.model
    }

    /// The strategies to work with.
    pub(crate) fn strategies(&self, named: &[StrategySpec]) -> Vec<StrategySpec> {
        self.strategies.clone().unwrap_or_else(|| named.to_vec())
    }

    /// Shows how far the work is; `Break` if it is to end.
    pub(crate) fn show(&mut self, progress: &Progress) -> ControlFlow<()> {
        if let Some(watch) = &mut self.watch {
            return watch(progress);
        }
        let bar = self.bar.get_or_insert_with(|| {
            let bar = ProgressBar::new(progress.total);
            let template = format!("{{wide_bar}} {{pos}}/{{len}} {} {{eta}} {{msg}}", progress.unit);
            if let Ok(style) = ProgressStyle::with_template(&template) {
                bar.set_style(style);
            }
            bar
        });
        bar.set_length(progress.total);
        bar.set_position(progress.done);
        bar.set_message(progress.message.clone());
        ControlFlow::Continue(())
    }

    /// Removes the bar.
    pub(crate) fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    /// A line beside the bar, on standard error.
    pub(crate) fn note(&mut self, line: &str) {
        match &self.bar {
            _ if self.watch.is_some() => self.notes += &format!("{line}\n"),
            Some(bar) => bar.suspend(|| eprintln!("{line}")),
            None => eprintln!("{line}"),
        }
    }

    /// What the command has to say in the end, on standard output.
    pub(crate) fn say(&mut self, text: &str) -> Result<()> {
        if self.watch.is_some() {
            self.told += text;
        } else {
            std::io::stdout().lock().write_all(text.as_bytes())?;
        }
        Ok(())
    }

    /// Everything a program was told: the result in words.
    pub fn told(&self) -> &str {
        &self.told
    }

    /// What a program was told beside the result: lines about its parts, warnings.
    pub fn notes(&self) -> &str {
        &self.notes
    }
}
