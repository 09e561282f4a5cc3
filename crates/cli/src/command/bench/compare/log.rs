//! What was measured, kept in a file from run to run: a comparison of hours can be made in pieces, when the machine is free.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};

use super::engine::Cost;

/// Where and for how long.
#[derive(Debug, clap::Args)]
pub(super) struct Flags {
    /// Keep every answer's cost in this file, a line each, and go on from those it has
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// With --log: stop before the first answer that begins after this many minutes
    #[arg(long, value_name = "N", requires = "log")]
    minutes: Option<u16>,
    /// With --log: run nothing, show what the file has
    #[arg(long, requires = "log")]
    from_log: bool,
    /// Keep the GGUF files in this folder and use those it has
    #[arg(long, value_name = "DIR")]
    pub(super) files: Option<PathBuf>,
}

/// One line of the file.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Entry {
    /// What everybody was asked, as a sentence: costs of something else are left alone.
    asked: String,
    layers: usize,
    engine: String,
    round: u16,
    cost: Cost,
}

/// The file, its lines that belong to this comparison, and when to stop.
#[derive(Debug)]
pub(super) struct Log {
    path: Option<PathBuf>,
    asked: String,
    known: Vec<Entry>,
    until: Option<Instant>,
    /// Whether nothing may be run.
    closed: bool,
}

impl Log {
    /// Reads what there is; a file that does not exist yet is empty.
    pub(super) fn open(flags: &Flags, asked: String) -> Result<Self> {
        let mut known = Vec::new();
        if let Some(path) = flags.log.as_deref().filter(|path| path.exists()) {
            let text =
                std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
            for line in text.lines() {
                let entry: Entry = serde_json::from_str(line)
                    .with_context(|| format!("{} has a line that is no measured answer", path.display()))?;
                known.extend(Some(entry).filter(|entry| entry.asked == asked));
            }
        } else if flags.from_log {
            usage!("--from-log: there is no such file yet");
        }
        let until =
            flags.minutes.map(|minutes| Instant::now() + Duration::from_secs(60 * u64::from(minutes)));
        Ok(Self { path: flags.log.clone(), asked, known, until, closed: flags.from_log })
    }

    /// Whether nothing is to be run.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// The cost of an answer: the one that is known, or else what `measure` finds, which is then kept. Nothing if it is not
    /// known and nothing may be run.
    pub(super) fn cost(
        &mut self,
        (layers, engine, round): (usize, &str, u16),
        measure: impl FnOnce() -> Result<Cost>,
    ) -> Result<Option<Cost>> {
        let same =
            |entry: &&Entry| (entry.layers, entry.engine.as_str(), entry.round) == (layers, engine, round);
        if let Some(known) = self.known.iter().find(same) {
            return Ok(Some(known.cost));
        }
        if self.closed {
            return Ok(None);
        }
        if self.until.is_some_and(|until| Instant::now() > until) {
            bail!("the minutes are over; {} answers are kept, run the same again to go on", self.known.len());
        }
        let cost = measure()?;
        let entry = Entry { asked: self.asked.clone(), layers, engine: engine.to_owned(), round, cost };
        // As it will be read again: numbers that went through their digits may differ in the last bit.
        let line = serde_json::to_string(&entry)?;
        let entry: Entry = serde_json::from_str(&line)?;
        let cost = entry.cost;
        if let Some(path) = &self.path {
            let context = || format!("cannot write {}", path.display());
            let mut file = OpenOptions::new().create(true).append(true).open(path).with_context(context)?;
            writeln!(file, "{line}").with_context(context)?;
        }
        self.known.push(entry);
        Ok(Some(cost))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_measured_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let flags = |from_log| Flags { log: Some(path.clone()), minutes: None, from_log, files: None };
        let cost = Cost { seconds: 3.0, after: None, steps: 2.0, tokens: 2.0, wall: 4.0, peak: None };
        assert!(Log::open(&flags(true), "this".into()).is_err(), "no file to show");
        for _ in 0..2 {
            let mut log = Log::open(&flags(false), "this".into()).unwrap();
            assert_eq!(log.cost((1, "a", 0), || Ok(cost)).unwrap().unwrap().seconds, 3.0);
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 1, "the second run knows it");
        let mut closed = Log::open(&flags(true), "this".into()).unwrap();
        assert!(closed.cost((1, "a", 0), || panic!("not again")).unwrap().is_some());
        assert!(closed.cost((1, "a", 1), || panic!("nothing is run")).unwrap().is_none());
        let mut other = Log::open(&flags(true), "that".into()).unwrap();
        assert!(
            other.cost((1, "a", 0), || panic!("nothing is run")).unwrap().is_none(),
            "asked something else"
        );
        let mut over = Log::open(&Flags { minutes: Some(0), ..flags(false) }, "this".into()).unwrap();
        std::thread::sleep(Duration::from_millis(5));
        assert!(over.cost((2, "a", 0), || panic!("too late")).unwrap_err().to_string().contains("go on"));
    }
}
