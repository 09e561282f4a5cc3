//! What lies beside a predictor or a checkpoint: predictors' files of any name, and what was found out about one.
//!
//! Invariant: opening a folder reads headers only; a file that is something else is passed by, and one that may be a
//! predictor and is not used is named with the reason.

use std::collections::BTreeMap;
use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use demask_model::checkpoint::{Store, weight_files, write};
use demask_model::{HiddenRow, files, names_predictor};
use serde_json::{Value, json};

use crate::dependency::Measure;
use crate::dependency::file::FILE_NAME;
use crate::dependency::reading::Reading;
use crate::error::{Error, Result};

/// A predictor that is there and not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassedOver {
    /// A file's name, or where else it lies.
    pub what: String,
    /// The reason.
    pub why: String,
}

impl PassedOver {
    /// A file.
    pub fn file(path: &Path, why: impl fmt::Display) -> Self {
        Self { what: file_name(path), why: why.to_string() }
    }

    /// Several in a sentence; nothing where there is none.
    pub fn list(all: &[Self]) -> Option<String> {
        let all: Vec<String> = all.iter().map(ToString::to_string).collect();
        (!all.is_empty()).then(|| format!("passed over: {}", all.join(", ")))
    }
}

impl fmt::Display for PassedOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.what, self.why)
    }
}

/// The predictors' files of a folder, of any name, besides a checkpoint's weights.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Candidates {
    /// Those whose tensors are a predictor's, sorted.
    pub files: Vec<PathBuf>,
    /// Those that cannot be read or told, sorted.
    pub passed_over: Vec<PassedOver>,
}

/// Which predictor of a checkpoint folder counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// This file.
    File(PathBuf),
    /// What lies among the weights.
    Inside,
    /// None of these files, since nothing says which.
    Several(Vec<PathBuf>),
    /// There is none.
    Nothing,
}

impl Candidates {
    /// Looks into a folder.
    pub fn of(folder: &Path) -> Self {
        let weights = weight_files(folder);
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        paths.retain(|path| {
            let name = file_name(path);
            name.ends_with(".safetensors") && !weights.contains(&name) && !path.is_dir()
        });
        paths.sort();
        let mut found = Self::default();
        for path in paths {
            // The usual name is a promise: what is wrong with that file is an error, not a reason to pass it over.
            match Store::open_file(&path).map_err(Error::from).and_then(|store| is_of_dependency(&store)) {
                _ if file_name(&path) == FILE_NAME => found.files.push(path),
                Ok(true) => found.files.push(path),
                Ok(false) => {}
                Err(why) => found.passed_over.push(PassedOver::file(&path, why)),
            }
        }
        found
    }

    /// The one that counts, where `inside` says that a predictor lies among the weights too: the file of the usual name,
    /// else a file that is the only one, else what lies among the weights. The others are named.
    pub fn choose(self, inside: bool) -> (Choice, Vec<PassedOver>) {
        let Self { mut files, mut passed_over } = self;
        let usual = files.iter().position(|path| file_name(path) == FILE_NAME);
        let first = usual.or((files.len() == 1).then_some(0));
        let choice = match first.map(|index| files.remove(index)) {
            Some(file) => Choice::File(file),
            None if inside => Choice::Inside,
            None if files.is_empty() => Choice::Nothing,
            None => return (Choice::Several(files), passed_over),
        };
        let before = match &choice {
            Choice::File(file) => format!("{} comes first", file_name(file)),
            _ => "one of several; the predictor among the weights comes first".to_owned(),
        };
        if inside && choice != Choice::Inside {
            passed_over
                .push(PassedOver { what: "the predictor among the weights".into(), why: before.clone() });
        }
        passed_over.extend(files.iter().map(|path| PassedOver::file(path, &before)));
        (choice, passed_over)
    }
}

/// Whether tensors are a predictor's of total variation, and not another trained part's or one of information; an error
/// where they seem to be one and cannot be told.
fn is_of_dependency(store: &Store) -> Result<bool> {
    let says = |key: &str, expected: &str| store.metadata().get(key).is_none_or(|found| found == expected);
    if !says("demask_part", "predictor") || !says("measure", Measure::TotalVariation.name()) {
        return Ok(false);
    }
    let named = names_predictor(&file_name(store.path()));
    Reading::new(store).is_predictor(named || store.metadata().contains_key("demask_part"))
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Names of files, for a sentence.
pub fn file_names(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| file_name(path)).collect::<Vec<_>>().join(", ")
}

/// What was measured about a predictor whose file does not say it: a JSON object beside it, of which every field counts
/// as if the file's metadata held it.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibrated {
    /// Which hidden row stands for a position.
    pub hidden_row: HiddenRow,
    /// How that was found, for a reader.
    pub measured: String,
}

/// A file beside a predictor and what it says.
pub(super) type Facts = Option<(PathBuf, BTreeMap<String, String>)>;

impl Calibrated {
    /// Where it lies: `predictor.json` beside `predictor.safetensors`, or in the folder whose weights hold the predictor.
    pub fn path(predictor: &Path) -> PathBuf {
        let usual = Path::new(FILE_NAME).with_extension("json");
        if predictor.is_dir() { predictor.join(usual) } else { predictor.with_extension("json") }
    }

    /// Writes it beside the predictor and returns where.
    pub fn write(&self, predictor: &Path) -> Result<PathBuf> {
        let path = Self::path(predictor);
        let text = json!({ "hidden_row": self.hidden_row.to_string(), "measured": self.measured });
        write::replace(&path, |out| writeln!(out, "{text:#}"))?;
        Ok(path)
    }

    /// Everything that is written beside a predictor, if anything is; a file that cannot be used is an error, because what
    /// it says would otherwise be assumed.
    pub(super) fn facts(predictor: &Path) -> Result<Facts> {
        let path = Self::path(predictor);
        let bad = |problem: String| Error::Predictor(format!("{}: {problem}", path.display()));
        let text = match files::read(&path) {
            Err(cause) if [ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&cause.kind()) => {
                return Ok(None);
            }
            read => read.map_err(|cause| bad(format!("cannot be read ({cause})")))?,
        };
        let fields = match serde_json::from_slice(&text) {
            Ok(Value::Object(fields)) => fields,
            Ok(_) => {
                return Err(bad("is no JSON object; delete it, or calibrate the predictor again".into()));
            }
            Err(cause) => {
                return Err(bad(format!(
                    "is not JSON ({cause}); delete it, or calibrate the predictor again"
                )));
            }
        };
        let plain = |value: Value| match value {
            Value::String(text) => Some(text),
            Value::Number(number) => Some(number.to_string()),
            Value::Bool(flag) => Some(flag.to_string()),
            _ => None,
        };
        let fields = fields.into_iter().filter_map(|(key, value)| Some((key, plain(value)?))).collect();
        Ok(Some((path, fields)))
    }
}
