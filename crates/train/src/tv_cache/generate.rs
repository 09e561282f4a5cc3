//! Making a cache: mask, measure, draw, reveal, write; file by file.
//!
//! The canvases of several examples share forward passes up to a token budget. Invariant: neither the budget, the
//! thread count, the share of the work nor an interruption changes a byte of the finished folder.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Instant;

use demask_engine::Shard;
use demask_model::files::{self, Lock};
use demask_model::{Backbone, SpecialIds};

use super::columns::Kept;
use super::format::{Example, Writer};
use super::manifest::{FileEntry, Manifest, TvCacheHeader};
use super::mask::{padded, randomness};
use super::measure::{Masking, Measure, tasks};
use super::progress::{Observer, TvCacheProgress};
use super::read::{file_name, footer};
use super::settings::TvCacheSettings;
use super::source::{Response, ResponseSource};
use crate::data::Refused;
use crate::error::{Error, Result};

/// A cache to be made or completed.
#[derive(Clone, Copy)]
pub struct Generator<'a> {
    /// The frozen backbone.
    pub backbone: &'a dyn Backbone,
    /// The responses.
    pub source: &'a dyn ResponseSource,
    /// What to make.
    pub settings: &'a TvCacheSettings,
    /// Where.
    pub folder: &'a Path,
    /// Tokens that go through the backbone at once.
    pub token_budget: usize,
    /// Which files to make, so that several machines can work on one folder.
    pub shard: Shard,
    /// How others are kept from the same files.
    pub claim: Claim,
}

/// How two processes that were given the same files stay out of each other's way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Claim {
    /// The second is refused: a person who starts one share twice is told so.
    #[default]
    Lock,
    /// Both work, under names of their own, and the first to finish a file gives it its name: for schedulers that start a
    /// lost piece again, where nobody knows whether the first is dead or only silent.
    Fence,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "there is one of it per run")]
pub enum Outcome {
    /// The cache is complete.
    Finished(Manifest),
    /// This part is complete, but files of other parts are missing.
    Waiting {
        /// Files that are there.
        files: usize,
        /// Files in all.
        all_files: usize,
    },
    /// The observer stopped it; the same call goes on.
    Stopped,
}

/// A response and the tokens of its canvas.
type Placed = (Response, Vec<u32>);

impl Generator<'_> {
    /// Makes the files that are missing; writes the manifest if then all are there.
    pub fn run(&self, observer: &mut dyn Observer) -> Result<Outcome> {
        self.settings.check()?;
        if self.shard.index >= self.shard.count {
            let value = format!("{}/{}", self.shard.index, self.shard.count);
            return Err(Error::Setting { name: "the shard", value, allowed: "i/n with i from 0 to n-1" });
        }
        let header = TvCacheHeader::new(self.backbone, self.source, self.settings);
        if header.responses == 0 {
            return Err(Error::Data {
                path: self.folder.to_owned(),
                problem: "there are no responses to measure".into(),
            });
        }
        // Several may work on one folder, each on a share of its own.
        let share = format!(".demask-{}-of-{}.lock", self.shard.index, self.shard.count);
        let _lock = match self.claim {
            Claim::Lock => Some(Lock::take_named(self.folder, &share)?),
            Claim::Fence => {
                std::fs::create_dir_all(self.folder).map_err(Error::write(self.folder))?;
                None
            }
        };
        if let Some(manifest) = Manifest::read(self.folder)? {
            self.accept(&header, &manifest.header, self.folder)?;
            return Ok(Outcome::Finished(manifest));
        }
        match self.make_files(&header, observer)? {
            ControlFlow::Continue(()) => self.complete(header),
            ControlFlow::Break(()) => Ok(Outcome::Stopped),
        }
    }

    /// How many files the whole cache has.
    pub fn files(&self) -> Result<usize> {
        self.settings.check()?;
        Ok(TvCacheHeader::new(self.backbone, self.source, self.settings).files())
    }

    fn make_files(&self, header: &TvCacheHeader, observer: &mut dyn Observer) -> Result<ControlFlow<()>> {
        let mine: Vec<usize> = (0..header.files()).filter(|&file| self.shard.has(file)).collect();
        let responses = |file: usize| self.range(header, file).len();
        let mut missing = Vec::new();
        let all_responses = mine.iter().map(|&file| responses(file)).sum();
        let mut progress =
            TvCacheProgress { all_files: mine.len(), all_responses, ..TvCacheProgress::default() };
        for file in mine {
            let path = self.path(file);
            if path.exists() {
                self.accept(header, &footer(&path)?.0, &path)?;
                progress.files += 1;
                progress.responses += responses(file);
            } else {
                missing.push(file);
            }
        }
        let mut flow = observer.on_progress(&progress);
        let start = Instant::now();
        for file in missing {
            if flow.is_break() {
                return Ok(flow);
            }
            let made = self.make_file(header, file, &mut |step| {
                progress.responses += step.responses;
                progress.fresh += step.responses;
                progress.examples += step.examples;
                progress.tokens += step.tokens;
                progress.refused += step.refused;
                progress.seconds = start.elapsed().as_secs_f64();
                observer.on_progress(&progress)
            })?;
            if made.is_break() {
                return Ok(made);
            }
            progress.files += 1;
            flow = observer.on_progress(&progress);
        }
        Ok(ControlFlow::Continue(()))
    }

    fn make_file(
        &self,
        header: &TvCacheHeader,
        file: usize,
        done: &mut dyn FnMut(Step) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        let (responses, refused) = self.read(self.range(header, file))?;
        if done(Step { responses: refused.len(), refused: refused.len(), ..Step::default() }).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        let tasks: Vec<Masking<'_>> =
            responses.iter().flat_map(|(r, tokens)| self.tasks(r, tokens)).collect();
        let path = self.path(file);
        match self.claim {
            // What a killed run of this share left of it; other shares have files of their own.
            Claim::Lock => files::clean_of(&path),
            // Another may be at work on it.
            Claim::Fence => files::clean(self.folder),
        }
        let mut writer = Writer::new(&path, Kept::of(self.settings));
        let (responses, refusals) = (responses.len(), refused.len());
        let mut entry =
            FileEntry { name: file_name(file), responses, examples: 0, pairs: 0, refused: refusals };
        let measure =
            Measure { backbone: self.backbone, settings: self.settings, token_budget: self.token_budget };
        let mut flow = ControlFlow::Continue(());
        measure.each(&tasks, &mut |group, later, examples| {
            let mut step =
                Step { responses: finished(group, later), examples: examples.len(), ..Step::default() };
            step.tokens = group.iter().map(|task| task.tokens_through_backbone() as u64).sum();
            for example in examples {
                let masked = example.positions.len() as u64;
                entry.examples += 1;
                entry.pairs += masked * (masked - 1);
                writer.push(example)?;
            }
            flow = done(step);
            Ok(flow)
        })?;
        if flow.is_break() {
            return Ok(flow);
        }
        let json = |value: serde_json::Result<String>| {
            value.map_err(std::io::Error::from).map_err(Error::write(&path))
        };
        writer.finish(vec![
            ("header", json(serde_json::to_string(header))?),
            ("file", json(serde_json::to_string(&entry))?),
            ("refused", json(serde_json::to_string(&refused))?),
        ])?;
        Ok(ControlFlow::Continue(()))
    }

    /// Measures all responses and keeps the examples in memory: for a few of them, where nothing is to be written.
    pub fn examples(&self) -> Result<Vec<Example>> {
        self.settings.check()?;
        let header = TvCacheHeader::new(self.backbone, self.source, self.settings);
        let (responses, _) = self.read(0..header.responses)?;
        let tasks: Vec<Masking<'_>> =
            responses.iter().flat_map(|(r, tokens)| self.tasks(r, tokens)).collect();
        let measure =
            Measure { backbone: self.backbone, settings: self.settings, token_budget: self.token_budget };
        let mut all = Vec::new();
        measure.each(&tasks, &mut |_, _, examples| {
            all.extend(examples);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(all)
    }

    /// The responses of a range as canvases, and why others are not among them.
    fn read(&self, range: std::ops::Range<usize>) -> Result<(Vec<Placed>, Vec<Refused>)> {
        let (mut responses, mut refused) = (Vec::new(), Vec::new());
        for (row, read) in range.clone().zip(self.source.read(range)?) {
            match read.and_then(|response| self.canvas(row, response)) {
                Ok(response) => responses.push(response),
                Err(why) => refused.push(why),
            }
        }
        Ok((responses, refused))
    }

    /// Prompt and ended response in one row of tokens, or why not.
    fn canvas(&self, row: usize, response: Response) -> Result<Placed, Refused> {
        let spec = self.backbone.spec();
        let settings = self.settings;
        let longest = settings.max_tokens.min(spec.max_positions);
        let mut tokens = response.prompt.clone();
        tokens.extend(&response.response);
        let ended = end(settings, &response, &spec.ids);
        tokens.extend(&ended);
        let length = response.response.len() + ended.len();
        let why = if response.prompt.is_empty() {
            Some("has an empty prompt".to_owned())
        } else if response.response.is_empty() || length < 2 {
            Some("has a response of fewer than two tokens".to_owned())
        } else if length > settings.max_response {
            Some(format!("has a response of {length} tokens, more than {}", settings.max_response))
        } else if tokens.len() > longest {
            Some(format!("has {} tokens, more than {longest}", tokens.len()))
        } else if tokens.contains(&spec.ids.mask) {
            Some("contains the mask token".to_owned())
        } else {
            tokens
                .iter()
                .find(|&&t| t as usize >= spec.vocab)
                .map(|t| format!("has token {t} outside the vocabulary"))
        };
        match why {
            Some(why) => Err(Refused { row: row as u64, why }),
            None => Ok((response, tokens)),
        }
    }

    fn tasks<'a>(&self, response: &'a Response, tokens: &'a [u32]) -> Vec<Masking<'a>> {
        tasks(self.settings, response, tokens, self.backbone.spec())
    }

    fn complete(&self, header: TvCacheHeader) -> Result<Outcome> {
        let all_files = header.files();
        let there: Vec<PathBuf> =
            (0..all_files).map(|file| self.path(file)).filter(|path| path.exists()).collect();
        if there.len() < all_files {
            return Ok(Outcome::Waiting { files: there.len(), all_files });
        }
        let (mut files, mut refused) = (Vec::with_capacity(all_files), Vec::new());
        for path in there {
            let (found, file, rows) = footer(&path)?;
            self.accept(&header, &found, &path)?;
            files.push(file);
            refused.extend(rows);
        }
        let manifest = Manifest { header, files };
        manifest.write(self.folder, &refused)?;
        Ok(Outcome::Finished(manifest))
    }

    fn accept(&self, own: &TvCacheHeader, found: &TvCacheHeader, path: &Path) -> Result<()> {
        if own.agrees(found) {
            return Ok(());
        }
        let problem = "was made with another model, data or settings; use another folder or delete it".into();
        Err(Error::Cache { path: path.to_owned(), problem })
    }

    fn range(&self, header: &TvCacheHeader, file: usize) -> std::ops::Range<usize> {
        let size = self.settings.responses_per_file;
        file * size..((file + 1) * size).min(header.responses)
    }

    fn path(&self, file: usize) -> PathBuf {
        self.folder.join(file_name(file))
    }
}

/// What a batch of examples added.
#[derive(Default)]
struct Step {
    responses: usize,
    examples: usize,
    tokens: u64,
    refused: usize,
}

/// The end-of-sequence tokens that follow a response.
fn end(settings: &TvCacheSettings, response: &Response, ids: &SpecialIds) -> Vec<u32> {
    let Some(&eos) = ids.eos.first() else { return Vec::new() };
    let tokens = &response.response;
    let ends = tokens.last().is_some_and(|last| ids.eos.contains(last));
    let least = tokens.len() + usize::from(!ends);
    vec![eos; padded(settings, randomness(settings, &response.id), least) - tokens.len()]
}

/// Responses whose last mask is in the group.
fn finished(group: &[Masking<'_>], later: &[Masking<'_>]) -> usize {
    let same = |a: &Masking<'_>, b: &Masking<'_>| std::ptr::eq(a.response(), b.response());
    let inside = group.windows(2).filter(|pair| !same(&pair[0], &pair[1])).count();
    let last = match (group.last(), later.first()) {
        (Some(last), Some(next)) => !same(last, next),
        (last, None) => last.is_some(),
        (None, Some(_)) => false,
    };
    inside + usize::from(last)
}
