//! What a measurement shows: a table, or one JSON object, and with `--out` also files and a picture.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use demask::counted;
use demask::plot::{self, Chart};
use serde_json::{Map, Value, json};

use super::measure::Spread;

/// Where results go.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Output {
    /// Print one JSON object instead of the table
    #[arg(long)]
    pub(crate) json: bool,
    /// Write NAME.json and the picture NAME.svg and NAME.png into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}

/// One entry of the table.
#[derive(Debug, Clone)]
pub(crate) enum Cell {
    /// A word.
    Text(String),
    /// A whole number.
    Count(usize),
    /// A number and how many decimals to show.
    Number(f64, usize),
    /// Median and quartiles, and how many decimals to show.
    Spread(Spread, usize),
    /// A share of one.
    Share(f64),
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl Cell {
    fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Count(count) => count.to_string(),
            Self::Number(number, decimals) => format!("{number:.decimals$}"),
            Self::Spread(s, d) => format!("{:.d$} [{:.d$}, {:.d$}]", s.median, s.low, s.high, d = d),
            Self::Share(share) => format!("{:.1} %", share * 100.0),
        }
    }

    fn json(&self) -> Value {
        match self {
            Self::Text(text) => json!(text),
            Self::Count(count) => json!(count),
            Self::Number(number, _) | Self::Share(number) => json!(number),
            Self::Spread(spread, _) => spread.json(),
        }
    }
}

/// A finished measurement.
pub(crate) struct Report {
    /// Its name, also that of its files.
    pub(crate) name: &'static str,
    /// Names of the columns.
    pub(crate) columns: Vec<&'static str>,
    /// Rows of as many cells.
    pub(crate) rows: Vec<Vec<Cell>>,
    /// Sentences under the table, with the number each is about.
    notes: Vec<(String, f64, String)>,
    /// The picture.
    pub(crate) chart: Chart,
}

impl Report {
    /// An empty one.
    pub(crate) fn new(name: &'static str, columns: &[&'static str]) -> Self {
        Self { name, columns: columns.to_vec(), rows: Vec::new(), notes: Vec::new(), chart: Chart::default() }
    }

    /// Adds a sentence under the table and the number it is about.
    pub(crate) fn note(&mut self, key: impl Into<String>, value: f64, sentence: String) {
        self.notes.push((key.into(), value, sentence));
    }

    fn json(&self) -> Value {
        let rows: Vec<Value> = self
            .rows
            .iter()
            .map(|row| {
                let cells = self.columns.iter().zip(row);
                Value::Object(cells.map(|(name, cell)| ((*name).to_owned(), cell.json())).collect())
            })
            .collect();
        let notes: Map<String, Value> =
            self.notes.iter().map(|(key, value, _)| (key.clone(), json!(value))).collect();
        json!({
            "bench": self.name, "version": env!("CARGO_PKG_VERSION"), "isa": demask::kernels::isa().name(),
            "threads": rayon::current_num_threads(), "rows": rows, "results": notes,
        })
    }

    fn table(&self, out: &mut impl Write) -> std::io::Result<()> {
        let texts: Vec<Vec<String>> =
            self.rows.iter().map(|row| row.iter().map(Cell::text).collect()).collect();
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|c| {
                let cells = texts.iter().filter_map(|row| row.get(c)).map(|text| text.chars().count());
                cells.chain([self.columns[c].chars().count()]).max().unwrap_or(0)
            })
            .collect();
        let line = |cells: &mut dyn Iterator<Item = &str>| {
            let padded: Vec<String> = cells.zip(&widths).map(|(text, w)| format!("{text:>w$}")).collect();
            padded.join("  ")
        };
        let (isa, threads) = (demask::kernels::isa().name(), rayon::current_num_threads());
        writeln!(out, "{}, {isa}; medians [quartiles]", counted(threads, "thread"))?;
        writeln!(out, "{}", line(&mut self.columns.iter().copied()))?;
        for row in &texts {
            writeln!(out, "{}", line(&mut row.iter().map(String::as_str)))?;
        }
        for (_, _, sentence) in &self.notes {
            writeln!(out, "{sentence}")?;
        }
        Ok(())
    }

    /// Prints, and writes what was asked for.
    pub(crate) fn show(&self, output: &Output) -> Result<()> {
        let mut stdout = std::io::stdout().lock();
        if output.json {
            writeln!(stdout, "{}", self.json())?;
        } else {
            self.table(&mut stdout)?;
        }
        if let Some(folder) = &output.out {
            std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
            let file = folder.join(format!("{}.json", self.name));
            demask::model::file::replace(&file, |out| writeln!(out, "{:#}", self.json()))?;
            plot::write(&folder.join(self.name), &self.chart)?;
        }
        Ok(())
    }
}
