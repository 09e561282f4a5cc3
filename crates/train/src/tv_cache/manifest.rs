//! What a cache is of: the header every file carries, and the manifest that lists the files.

use std::path::Path;

use demask_model::backbone::AS_STORED;
use demask_model::{Backbone, checkpoint::write, files};
use serde::{Deserialize, Serialize};

use super::read::file_name;
use super::settings::TvCacheSettings;
use super::source::ResponseSource;
use crate::data::Refused;
use crate::error::{Error, Result};

/// Version of the files' layout.
pub(super) const FORMAT: u32 = 1;
pub(super) const MANIFEST: &str = "manifest.json";
pub(super) const REFUSED: &str = "refused.jsonl";

/// Everything the rows are a function of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TvCacheHeader {
    /// Version of the layout.
    pub format: u32,
    /// Version of the program.
    pub version: String,
    /// Identifies the backbone's weights.
    pub backbone: String,
    /// The precision they were brought to.
    #[serde(default = "as_stored")]
    pub precision: String,
    /// Architecture of the backbone.
    pub architecture: String,
    /// Width of the hidden rows, the paper's `d`.
    pub d: usize,
    /// Size of the vocabulary.
    pub vocab: usize,
    /// The mask token.
    pub mask_id: u32,
    /// Identifies the responses.
    pub source: String,
    /// Responses in all files together, refused ones included.
    pub responses: usize,
    /// How it was made.
    pub settings: TvCacheSettings,
}

fn as_stored() -> String {
    AS_STORED.to_owned()
}

impl TvCacheHeader {
    /// Of a run.
    pub(super) fn new(
        backbone: &dyn Backbone,
        source: &dyn ResponseSource,
        settings: &TvCacheSettings,
    ) -> Self {
        let spec = backbone.spec();
        let all = source.len();
        Self {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            backbone: backbone.fingerprint(),
            precision: backbone.precision(),
            architecture: spec.architecture.to_owned(),
            d: spec.hidden,
            vocab: spec.vocab,
            mask_id: spec.ids.mask,
            source: source.identity(),
            responses: if settings.limit == 0 { all } else { all.min(settings.limit) },
            settings: settings.clone(),
        }
    }

    /// Number of parquet files.
    pub fn files(&self) -> usize {
        self.responses.div_ceil(self.settings.responses_per_file)
    }

    /// Whether two runs make the same rows.
    pub fn agrees(&self, other: &Self) -> bool {
        Self { version: other.version.clone(), ..self.clone() } == *other
    }
}

/// One file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// Its name.
    pub name: String,
    /// Responses with rows in it.
    pub responses: usize,
    /// Its rows.
    pub examples: usize,
    /// Off-diagonal pairs of all rows.
    pub pairs: u64,
    /// Rows of the source that could not be used.
    pub refused: usize,
}

/// The table of contents, written when every file is there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// What the cache is of.
    pub header: TvCacheHeader,
    /// The files in order.
    pub files: Vec<FileEntry>,
}

impl Manifest {
    /// Reads it, if the folder has one.
    pub fn read(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join(MANIFEST);
        if !path.exists() {
            return Ok(None);
        }
        let text = files::read(&path).map_err(Error::read(&path))?;
        let damaged = |cause| format!("is not a manifest of a TV cache ({cause})");
        let manifest: Self = serde_json::from_slice(&text)
            .map_err(|cause| Error::Cache { path: path.clone(), problem: damaged(cause.to_string()) })?;
        if manifest.header.format != FORMAT {
            let problem =
                format!("has layout version {}, this program reads {FORMAT}", manifest.header.format);
            return Err(Error::Cache { path, problem });
        }
        if let Err(problem) = manifest.check() {
            return Err(Error::Cache { path, problem });
        }
        Ok(Some(manifest))
    }

    /// Refuses numbers that cannot be true and names that lead out of the folder.
    fn check(&self) -> std::result::Result<(), String> {
        let TvCacheHeader { d, vocab, responses, ref settings, .. } = self.header;
        let limits = [
            ("d", d, 1 << 17),
            ("vocab", vocab, 1 << 22),
            ("responses", responses, 1 << 40),
            ("responses_per_file", settings.responses_per_file, 1 << 40),
        ];
        for (what, value, limit) in limits {
            if value == 0 || value > limit {
                return Err(format!("says that {what} is {value}, which is not between 1 and {limit}"));
            }
        }
        if self.files.len() != self.header.files() {
            let (found, wanted) = (self.files.len(), self.header.files());
            return Err(format!("lists {found} files where its header asks for {wanted}"));
        }
        for (index, file) in self.files.iter().enumerate() {
            if file.name != file_name(index) {
                return Err(format!("names {:?} where {} belongs", file.name, file_name(index)));
            }
            if file.examples > 1 << 40
                || file.pairs > 1 << 60
                || file.responses > responses
                || file.refused > responses
            {
                return Err(format!("says things of {} that cannot be true", file.name));
            }
        }
        Ok(())
    }

    pub(super) fn write(&self, folder: &Path, refused: &[Refused]) -> Result<()> {
        write::replace(&folder.join(REFUSED), |out| {
            for row in refused {
                writeln!(out, "{}", serde_json::to_string(row)?)?;
            }
            Ok(())
        })?;
        write::replace(&folder.join(MANIFEST), |out| {
            serde_json::to_writer_pretty(&mut *out, self)?;
            writeln!(out)
        })?;
        Ok(())
    }

    /// Rows of all files.
    pub fn examples(&self) -> usize {
        self.files.iter().map(|file| file.examples).sum()
    }

    /// Responses of all files.
    pub fn responses(&self) -> usize {
        self.files.iter().map(|file| file.responses).sum()
    }

    /// Off-diagonal pairs of all files.
    pub fn pairs(&self) -> u64 {
        self.files.iter().map(|file| file.pairs).sum()
    }

    /// Rows of the source that could not be used.
    pub fn refused(&self) -> usize {
        self.files.iter().map(|file| file.refused).sum()
    }
}

/// The rows of the source that a cache leaves out.
pub(super) fn read_refused(folder: &Path) -> Result<Vec<Refused>> {
    let path = folder.join(REFUSED);
    let text = files::read_to_string(&path).map_err(Error::read(&path))?;
    let row = |line: &str| {
        let problem = |cause: serde_json::Error| {
            format!("is damaged ({cause}); delete it and manifest.json and run again")
        };
        serde_json::from_str(line)
            .map_err(|cause| Error::Cache { path: path.clone(), problem: problem(cause) })
    };
    text.lines().map(row).collect()
}
