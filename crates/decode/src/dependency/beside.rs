//! What lies beside a predictor or a checkpoint: predictors' files of any name, and what was found out about one.
//!
//! Invariant: opening a folder reads headers only, and a file that is no predictor is passed by.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use demask_model::HiddenRow;
use demask_model::checkpoint::{Store, weight_files, write};
use demask_model::files;
use serde_json::{Value, json};

use crate::dependency::Measure;
use crate::dependency::file::FILE_NAME;
use crate::dependency::reading::Reading;
use crate::error::Result;

/// The predictors' files of a folder, sorted: `predictor.safetensors` alone where it is there, else every safetensors
/// file besides a checkpoint's weights whose tensors are a predictor's.
pub fn files_in(folder: &Path) -> Vec<PathBuf> {
    let usual = folder.join(FILE_NAME);
    if usual.exists() {
        return vec![usual];
    }
    let weights = weight_files(folder);
    let is_predictor = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        name.ends_with(".safetensors")
            && !weights.contains(&name)
            && path.is_file()
            && Store::open_file(path).is_ok_and(|store| is_of_dependency(&store))
    };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_predictor).collect();
    found.sort();
    found
}

/// Whether tensors are a predictor's of total variation, and not another trained part's or one of information.
fn is_of_dependency(store: &Store) -> bool {
    let says = |key: &str, expected: &str| store.metadata().get(key).is_none_or(|found| found == expected);
    says("demask_part", "predictor")
        && says("measure", Measure::TotalVariation.name())
        && !Reading::new(store).tensors().is_empty()
}

/// Names of files, for a sentence.
pub fn file_names(paths: &[PathBuf]) -> String {
    let name = |path: &PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned());
    paths.iter().filter_map(name).collect::<Vec<_>>().join(", ")
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

    /// Everything that is written beside a predictor; a file that is no JSON object says nothing.
    pub(super) fn facts(predictor: &Path) -> Option<(PathBuf, BTreeMap<String, String>)> {
        let path = Self::path(predictor);
        let text = files::read(&path).ok()?;
        let Ok(Value::Object(fields)) = serde_json::from_slice(&text) else { return None };
        let plain = |value: Value| match value {
            Value::String(text) => Some(text),
            Value::Number(number) => Some(number.to_string()),
            Value::Bool(flag) => Some(flag.to_string()),
            _ => None,
        };
        Some((path, fields.into_iter().filter_map(|(key, value)| Some((key, plain(value)?))).collect()))
    }
}
