//! What a user calls a model: a folder, or a name on the Hub.
//!
//! Invariant: nothing here reads the environment; the caller does and passes [`HubOptions`].

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::hub;
use crate::error::{Error, Result};

/// How to reach the Hub.
#[derive(Debug, Clone)]
pub struct HubOptions {
    /// `HF_HOME`: the folder whose `hub` subfolder is the cache and whose `token` file is the login.
    pub home: PathBuf,
    /// `HF_ENDPOINT`: another address than the Hub's own.
    pub endpoint: Option<String>,
    /// `HF_TOKEN`: wins over the login of `home`.
    pub token: Option<String>,
    /// `HF_HUB_OFFLINE`: use the cache only.
    pub offline: bool,
    /// `HF_HUB_DOWNLOAD_TIMEOUT`: how long a server may send nothing before it is given up.
    pub patience: Duration,
}

impl HubOptions {
    /// The usual patience.
    pub const PATIENCE: Duration = Duration::from_secs(30);

    /// The address that is asked.
    pub fn address(&self) -> &str {
        self.endpoint.as_deref().unwrap_or(hub::HUB)
    }
}

/// Watches downloads.
pub trait Progress {
    /// A file of this many bytes starts (or starts again).
    fn begin(&mut self, file: &str, bytes: u64) {
        let _ = (file, bytes);
    }
    /// This many more bytes are on disk.
    fn advance(&mut self, bytes: u64) {
        let _ = bytes;
    }
    /// The file is complete.
    fn finish(&mut self) {}
    /// Something the user should know although the run goes on.
    fn warn(&mut self, sentence: &str) {
        let _ = sentence;
    }
    /// Whether the download is to end; asked several times a second. What is on disk stays, and is continued later.
    fn stopped(&mut self) -> bool {
        false
    }
}

/// Watches nothing.
impl Progress for () {}

/// A repository of the Hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubName {
    /// `org/name`
    pub repository: String,
    /// A branch, tag or commit.
    pub revision: String,
}

impl fmt::Display for HubName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.revision.as_str() {
            "main" => f.write_str(&self.repository),
            revision => write!(f, "{}@{revision}", self.repository),
        }
    }
}

/// Where a checkpoint is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A folder of this machine, or a GGUF file.
    Folder(PathBuf),
    /// A repository of the Hub.
    Hub(HubName),
}

impl Source {
    /// A folder that exists wins; otherwise `org/name[@revision]`.
    pub fn parse(text: &str) -> Result<Self> {
        let path = Path::new(text);
        if path.is_dir() || crate::gguf::is_gguf(path) {
            return Ok(Self::Folder(path.to_path_buf()));
        }
        if path.exists() {
            return Err(Error::NotACheckpoint {
                path: path.to_path_buf(),
                wanted: "files in it: it is a file itself",
            });
        }
        let (repository, revision) = text.split_once('@').unwrap_or((text, "main"));
        if is_repository(repository) && is_revision(revision) {
            return Ok(Self::Hub(HubName {
                repository: repository.to_owned(),
                revision: revision.to_owned(),
            }));
        }
        Err(Error::ModelName { name: text.to_owned() })
    }
}

/// The folder of a checkpoint, downloaded first if it is a Hub name that the cache does not hold.
pub fn resolve(model: &str, options: &HubOptions, progress: &mut dyn Progress) -> Result<PathBuf> {
    match Source::parse(model)? {
        Source::Folder(folder) => Ok(folder),
        Source::Hub(name) => hub::checkpoint(&name, options, progress),
    }
}

/// The folder of a checkpoint whose weights may be missing: of a Hub name only config, tokenizer and chat template are
/// downloaded.
pub fn resolve_description(
    model: &str,
    options: &HubOptions,
    progress: &mut dyn Progress,
) -> Result<PathBuf> {
    match Source::parse(model)? {
        Source::Folder(folder) => Ok(folder),
        Source::Hub(name) => hub::description(&name, options, progress),
    }
}

/// Whether the Hub answers, asked about a model; what it answers does not matter.
pub fn reach(model: &str, options: &HubOptions) -> Result<()> {
    match Source::parse(model)? {
        Source::Folder(_) => Ok(()),
        Source::Hub(name) => hub::reach(&name, options),
    }
}

/// Where a dependency predictor is: the file or folder that is named, or the folder of a Hub repository of its own,
/// downloaded where the cache does not hold it.
pub fn resolve_predictor(named: &Path, options: &HubOptions, progress: &mut dyn Progress) -> Result<PathBuf> {
    let text = named.to_str().filter(|text| !named.exists() && !text.ends_with(".safetensors"));
    match text.map(Source::parse) {
        Some(Ok(Source::Hub(name))) => hub::predictor(&name, options, progress),
        _ => Ok(named.to_path_buf()),
    }
}

/// The folder with the data files of a dataset on the Hub, `org/name[@revision]`, downloaded where the cache does not
/// hold them.
pub fn resolve_dataset(dataset: &str, options: &HubOptions, progress: &mut dyn Progress) -> Result<PathBuf> {
    match Source::parse(dataset)? {
        Source::Folder(folder) => Ok(folder),
        Source::Hub(name) => hub::dataset(&name, options, progress),
    }
}

/// The folder with those data files of a dataset on the Hub that are wanted, whatever their split; see
/// [`resolve_dataset`].
pub fn resolve_files(
    dataset: &str,
    wanted: &dyn Fn(&str) -> bool,
    options: &HubOptions,
    progress: &mut dyn Progress,
) -> Result<PathBuf> {
    match Source::parse(dataset)? {
        Source::Folder(folder) => Ok(folder),
        Source::Hub(name) => hub::data_files_of(&name, wanted, options, progress),
    }
}

fn is_repository(text: &str) -> bool {
    let mut parts = text.split('/');
    let (Some(owner), Some(name), None) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    [owner, name].iter().all(|part| {
        part.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '_')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
            && !part.contains("..")
            && part.len() <= 96
    })
}

fn is_revision(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 200
        && text.split('/').all(|part| !part.is_empty() && !part.starts_with('.'))
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c))
}
