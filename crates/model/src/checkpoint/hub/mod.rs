//! A Hub repository, model or dataset, as a local folder: the cache of `huggingface_hub`, filled through `hf-hub`.
//!
//! The Hub is asked for the commit a revision means, that commit's missing files are downloaded, and only then the
//! revision's reference is moved, so an interrupted download never replaces a complete one. Where the Hub cannot be
//! reached the cache serves alone. Invariant: the folder returned has config.json and all its weights (unless only the
//! description was asked for), or all data files.

mod failure;
mod patience;
mod predictor;

use std::collections::BTreeSet;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hf_hub::api::sync::{Api, ApiBuilder, Metadata};
use hf_hub::{Cache, Repo, RepoType};

use self::failure::Failure;
use self::patience::{Sign, within};
use super::source::{HubName, HubOptions, Progress};
use super::store::{is_file_name, shard_names};
use super::{INDEX, WEIGHTS};
use crate::error::{Error, Result};

pub(super) const HUB: &str = "https://huggingface.co";
const CONFIG: &str = "config.json";
const TOKENIZER: &str = "tokenizer.json";

/// Taken when the repository has them.
const OPTIONAL: [&str; 4] =
    ["generation_config.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja"];
/// A tokenizer in its older form, taken where there is no tokenizer.json.
const OLDER_TOKENIZER: [&str; 3] = ["vocab.json", "merges.txt", "added_tokens.json"];

/// Downloads are resumed this many times before giving up.
const ATTEMPTS: u32 = 4;

/// The folder of a repository's snapshot.
pub(super) fn checkpoint(
    name: &HubName,
    options: &HubOptions,
    progress: &mut dyn Progress,
) -> Result<PathBuf> {
    folder(Kind::Model(Downloaded::Whole), name, options, progress)
}

/// The folder of a repository's snapshot with at least its config and tokenizer.
pub(super) fn description(
    name: &HubName,
    options: &HubOptions,
    progress: &mut dyn Progress,
) -> Result<PathBuf> {
    folder(Kind::Model(Downloaded::Description), name, options, progress)
}

/// The folder with the predictor of a repository that need not hold anything else.
pub(super) fn predictor(
    name: &HubName,
    options: &HubOptions,
    progress: &mut dyn Progress,
) -> Result<PathBuf> {
    folder(Kind::Model(Downloaded::Predictor), name, options, progress)
}

/// The folder with the wanted data files of a dataset.
pub(super) fn data_files_of(
    name: &HubName,
    wanted: &dyn Fn(&str) -> bool,
    options: &HubOptions,
    progress: &mut dyn Progress,
) -> Result<PathBuf> {
    folder(Kind::Dataset(Some(wanted)), name, options, progress)
}

/// The folder with the data files of a dataset: those of its training split, where the names tell.
pub(super) fn dataset(name: &HubName, options: &HubOptions, progress: &mut dyn Progress) -> Result<PathBuf> {
    folder(Kind::Dataset(None), name, options, progress)
}

/// Asks the Hub for the smallest thing there is, whatever it answers; fails where it cannot be reached.
pub(super) fn reach(name: &HubName, options: &HubOptions) -> Result<()> {
    let hub =
        Hub::new(Kind::Model(Downloaded::Description), name, options, Cache::new(options.home.join("hub")))?;
    let config = hub.api.repo(hub.at(&name.revision)).url(CONFIG);
    match hub.metadata(config) {
        Err(failure) if failure.is_outage() => Err(hub.refuse(&failure)),
        _ => Ok(()),
    }
}

fn folder(
    kind: Kind<'_>,
    name: &HubName,
    options: &HubOptions,
    progress: &mut dyn Progress,
) -> Result<PathBuf> {
    let cache = Cache::new(options.home.join("hub"));
    let cached = cached(kind, &cache, name);
    if options.offline {
        let problem = || {
            let place = cache.path().display();
            format!(
                "it is not (or not completely) in the cache {place}, and HF_HUB_OFFLINE forbids to download it"
            )
        };
        return cached.ok_or_else(|| Error::Hub { name: name.to_string(), problem: problem() });
    }
    let hub = Hub::new(kind, name, options, cache)?;
    match (hub.listing(progress), cached) {
        (Ok(listing), _) => hub.complete(&listing, progress),
        (Err(failure), Some(folder)) if failure.is_outage() => {
            progress.warn(&format!("{name}: {}; using the copy in the cache", hub.sentence(&failure)));
            Ok(folder)
        }
        (Err(failure), _) => Err(hub.refuse(&failure)),
    }
}

/// The complete snapshot the cache has for this revision, if any.
fn cached(kind: Kind<'_>, cache: &Cache, name: &HubName) -> Option<PathBuf> {
    let root = cache.path().join(repository(kind, name, &name.revision).folder_name());
    let commit = fs::read_to_string(root.join("refs").join(&name.revision));
    let commit = commit.map_or_else(|_| name.revision.clone(), |commit| commit.trim().to_owned());
    let folder = root.join("snapshots").join(commit);
    // A dataset's reference is only moved once its files are there.
    let complete = match kind {
        Kind::Dataset(None) => folder.is_dir(),
        // Which files were fetched depends on who asked; there must be one of those wanted now.
        Kind::Dataset(Some(wanted)) => has_wanted(&folder, &folder, wanted),
        Kind::Model(Downloaded::Whole) => is_complete(&folder),
        Kind::Model(Downloaded::Description) => is_described(&folder),
        Kind::Model(Downloaded::Predictor) => {
            has_wanted(&folder, &folder, &|file| file.ends_with(".safetensors"))
        }
    };
    complete.then_some(folder)
}

fn is_complete(folder: &Path) -> bool {
    let has = |file: &str| folder.join(file).exists();
    has(CONFIG)
        && (has(WEIGHTS)
            || shard_names(&folder.join(INDEX)).is_ok_and(|shards| shards.iter().all(|shard| has(shard))))
}

/// A tokenizer may be missing from the repository itself, so its absence would not be cured by asking again.
fn is_described(folder: &Path) -> bool {
    let has = |file: &str| folder.join(file).exists();
    has(CONFIG)
        && (has(TOKENIZER) || OLDER_TOKENIZER[..2].iter().all(|file| has(file)) || is_complete(folder))
}

fn has_wanted(root: &Path, folder: &Path, wanted: &dyn Fn(&str) -> bool) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    entries.flatten().map(|entry| entry.path()).any(|path| {
        let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
        if path.is_dir() { has_wanted(root, &path, wanted) } else { wanted(&name) }
    })
}

/// What a repository holds; of a dataset, which of its data files are wanted where it is not its training split.
#[derive(Clone, Copy)]
enum Kind<'a> {
    Model(Downloaded),
    Dataset(Option<&'a dyn Fn(&str) -> bool>),
}

/// How much of a checkpoint is wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Downloaded {
    Whole,
    /// Config and tokenizer: no weights, no predictor.
    Description,
    /// A predictor alone.
    Predictor,
}

fn repository(kind: Kind<'_>, name: &HubName, revision: &str) -> Repo {
    let kind = match kind {
        Kind::Model(_) => RepoType::Model,
        Kind::Dataset(_) => RepoType::Dataset,
    };
    Repo::with_revision(name.repository.clone(), kind, revision.to_owned())
}

/// A commit and, where the endpoint says, its files.
struct Listing {
    commit: String,
    files: Option<BTreeSet<String>>,
}

impl Listing {
    fn may_have(&self, file: &str) -> bool {
        self.files.as_ref().is_none_or(|files| files.contains(file))
    }
}

struct Hub<'a> {
    kind: Kind<'a>,
    name: &'a HubName,
    endpoint: String,
    cache: Cache,
    api: Api,
    patience: Duration,
}

impl<'a> Hub<'a> {
    fn new(kind: Kind<'a>, name: &'a HubName, options: &HubOptions, cache: Cache) -> Result<Self> {
        let endpoint = options.endpoint.as_deref().unwrap_or(HUB).trim_end_matches('/').to_owned();
        let token = options.token.clone().or_else(|| cache.token());
        let api = ApiBuilder::from_cache(cache.clone())
            .with_endpoint(endpoint.clone())
            .with_token(token)
            .with_progress(false)
            .with_user_agent("demask", env!("CARGO_PKG_VERSION"))
            .build();
        let api = api.map_err(|cause| Error::Hub { name: name.to_string(), problem: cause.to_string() })?;
        Ok(Self { kind, name, endpoint, cache, api, patience: options.patience })
    }

    /// Asks the Hub; an endpoint without the listing service is asked for config.json's commit instead.
    fn listing(&self, progress: &mut dyn Progress) -> Result<Listing, Failure> {
        let repo = self.api.repo(self.at(&self.name.revision));
        let config = repo.url(if matches!(self.kind, Kind::Model(Downloaded::Predictor)) {
            predictor::USUAL
        } else {
            CONFIG
        });
        let heard = |_| flow(progress);
        let info = within(self.patience, heard, move |_| repo.info().map_err(Failure::from));
        let listing = match info {
            Ok(info) => Listing {
                commit: info.sha,
                files: Some(info.siblings.into_iter().map(|sibling| sibling.rfilename).collect()),
            },
            Err(Failure::Status(404)) if matches!(self.kind, Kind::Model(_)) => {
                let metadata = self.metadata(config)?;
                Listing { commit: metadata.commit_hash().to_owned(), files: None }
            }
            Err(failure) => return Err(failure),
        };
        // The commit becomes a folder's name.
        if listing.commit.is_empty() || !listing.commit.chars().all(|c| c.is_ascii_alphanumeric()) {
            return Err(Failure::Strange(format!("it gives `{}` as the commit", listing.commit)));
        }
        Ok(listing)
    }

    fn metadata(&self, url: String) -> Result<Metadata, Failure> {
        let api = self.api.clone();
        within(
            self.patience,
            |_| ControlFlow::Continue(()),
            move |_| api.metadata(&url).map_err(Failure::from),
        )
    }

    /// Completes the snapshot of a commit and points the revision at it.
    fn complete(&self, listing: &Listing, progress: &mut dyn Progress) -> Result<PathBuf> {
        let snapshot = Snapshot { hub: self, listing };
        match self.kind {
            Kind::Dataset(wanted) => snapshot.fetch_data(wanted, progress)?,
            Kind::Model(Downloaded::Predictor) => snapshot.fetch_predictor(progress)?,
            Kind::Model(part) => snapshot.fetch_checkpoint(part, progress)?,
        }
        // A description must not take the place of a whole checkpoint of an earlier commit.
        let part_only = matches!(self.kind, Kind::Model(Downloaded::Description | Downloaded::Predictor));
        if !part_only || cached(Kind::Model(Downloaded::Whole), &self.cache, self.name).is_none() {
            let reference = self.cache.repo(self.at(&self.name.revision));
            reference.create_ref(&listing.commit).map_err(Error::write(self.cache.path()))?;
        }
        Ok(snapshot.folder())
    }

    fn at(&self, revision: &str) -> Repo {
        repository(self.kind, self.name, revision)
    }

    fn refuse(&self, failure: &Failure) -> Error {
        Error::Hub { name: self.name.to_string(), problem: self.sentence(failure) }
    }

    fn sentence(&self, failure: &Failure) -> String {
        failure.sentence(&self.endpoint, self.cache.path())
    }
}

struct Snapshot<'a> {
    hub: &'a Hub<'a>,
    listing: &'a Listing,
}

impl Snapshot<'_> {
    fn folder(&self) -> PathBuf {
        self.hub.cache.repo(self.hub.at(&self.listing.commit)).pointer_path(&self.listing.commit)
    }

    fn fetch_checkpoint(&self, part: Downloaded, progress: &mut dyn Progress) -> Result<()> {
        self.required(CONFIG, progress)?;
        let whole = part == Downloaded::Whole;
        for file in OPTIONAL {
            self.optional(file, progress)?;
        }
        if !self.optional(TOKENIZER, progress)? {
            for file in OLDER_TOKENIZER {
                self.optional(file, progress)?;
            }
        }
        if whole && !self.optional(WEIGHTS, progress)? {
            self.required(INDEX, progress)?;
            for shard in shard_names(&self.folder().join(INDEX))? {
                self.required(&shard, progress)?;
            }
        }
        if whole {
            self.fetch_beside(progress)?;
        }
        Ok(())
    }

    fn fetch_data(&self, wanted: Option<&dyn Fn(&str) -> bool>, progress: &mut dyn Progress) -> Result<()> {
        let all = self.listing.files.iter().flatten();
        let files = match wanted {
            None => data_files(all),
            Some(wanted) => all.map(String::as_str).filter(|f| is_data(f) && wanted(f)).collect(),
        };
        if files.is_empty() {
            let problem = "this dataset has no .parquet or .jsonl file".to_owned();
            return Err(Error::Hub { name: self.hub.name.to_string(), problem });
        }
        files.iter().try_for_each(|file| self.required(file, progress))
    }

    fn required(&self, file: &str, progress: &mut dyn Progress) -> Result<()> {
        if self.optional(file, progress)? {
            return Ok(());
        }
        let problem = format!("{} of this repository has no {file}", self.hub.name.revision);
        Err(Error::Hub { name: self.hub.name.to_string(), problem })
    }

    /// Whether the repository has the file; afterwards the snapshot has it too.
    fn optional(&self, file: &str, progress: &mut dyn Progress) -> Result<bool> {
        if !is_inside(file) || !self.listing.may_have(file) {
            return Ok(false);
        }
        let path = self.folder().join(file);
        if path.exists() {
            return Ok(true);
        }
        match self.download(file, &path, progress) {
            Ok(()) => Ok(true),
            Err(Failure::Status(404)) => Ok(false),
            Err(failure) => Err(self.hub.refuse(&failure)),
        }
    }

    fn download(&self, file: &str, path: &Path, progress: &mut dyn Progress) -> Result<(), Failure> {
        let mut attempt = 1;
        loop {
            let failure = match self.attempt(file, path, progress) {
                Ok(()) => return Ok(()),
                Err(failure) if attempt == ATTEMPTS => return Err(failure),
                Err(failure) => failure,
            };
            match failure {
                Failure::Resume | Failure::Status(416) => self.forget_part(file)?,
                Failure::Unreachable(_)
                | Failure::Interrupted(_)
                | Failure::Length
                | Failure::Status(500..) => {
                    std::thread::sleep(Duration::from_millis(200) * 2_u32.pow(attempt));
                }
                _ => return Err(failure),
            }
            attempt += 1;
        }
    }

    fn attempt(&self, file: &str, path: &Path, progress: &mut dyn Progress) -> Result<(), Failure> {
        let (mut promised, mut begun) = (0, false);
        let heard = |sign| {
            match sign {
                Sign::Begin(name, bytes) => {
                    promised = bytes;
                    // hf-hub announces a file twice: before and after it has looked for a partial one.
                    if !std::mem::replace(&mut begun, true) {
                        progress.begin(&name, bytes);
                    }
                }
                Sign::Advance(bytes) => progress.advance(bytes),
                Sign::Finish => progress.finish(),
                Sign::Nothing => {}
            }
            flow(progress)
        };
        let (repo, wanted) = (self.hub.api.repo(self.hub.at(&self.listing.commit)), file.to_owned());
        let found = within(self.hub.patience, heard, move |reporter| {
            repo.download_with_progress(&wanted, reporter).map_err(Failure::from)
        })?;
        // hf-hub trusts the server's answer to a range request; a whole file appended to a part of one shows here.
        let length = fs::metadata(&found).map_err(|cause| Failure::Cache(cause.to_string()))?.len();
        if length != promised {
            let blob = fs::canonicalize(&found).unwrap_or_else(|_| found.clone());
            let _ = (fs::remove_file(&found), fs::remove_file(blob));
            return Err(Failure::Length);
        }
        if found != path {
            return Err(Failure::Strange(format!("{file} belongs to another commit")));
        }
        Ok(())
    }

    /// Removes a partial download that cannot be continued.
    fn forget_part(&self, file: &str) -> Result<(), Failure> {
        let at = self.hub.at(&self.listing.commit);
        let metadata = self.hub.metadata(self.hub.api.repo(at.clone()).url(file))?;
        let cache = self.hub.cache.repo(at);
        let part = cache.blob_path(metadata.etag()).with_extension("part");
        fs::remove_file(part).map_err(|cause| Failure::Cache(cause.to_string()))
    }
}

/// Whether a request goes on.
fn flow(progress: &mut dyn Progress) -> ControlFlow<()> {
    if progress.stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// A path that does not lead out of the snapshot.
fn is_inside(file: &str) -> bool {
    file.split('/').all(is_file_name)
}

fn is_data(file: &str) -> bool {
    file.ends_with(".parquet") || file.ends_with(".jsonl")
}

/// The parquet files of a dataset, or else its JSON lines; only those of the training split, where names tell it.
fn data_files<'a>(all: impl Iterator<Item = &'a String> + Clone) -> Vec<&'a str> {
    let ending = |ending: &str| -> Vec<&str> {
        all.clone().map(String::as_str).filter(|file| file.ends_with(ending)).collect()
    };
    let files = [ending(".parquet"), ending(".jsonl")]
        .into_iter()
        .find(|files| !files.is_empty())
        .unwrap_or_default();
    let training: Vec<&str> = files.iter().copied().filter(|file| file.contains("train")).collect();
    if training.is_empty() { files } else { training }
}
