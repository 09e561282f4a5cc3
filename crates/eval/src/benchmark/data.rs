//! Rows of a dataset as its owners ship it: JSON lines, a JSON list, or parquet.

use std::fs;
use std::path::{Path, PathBuf};

use demask_model::files;
use demask_model::guard::caught;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use serde_json::{Map, Value};

use crate::error::{Error, Remedy, Result};

/// Bytes of the largest JSON file that is read whole.
const LARGEST: u64 = 4 << 30;
const ENDINGS: [&str; 4] = ["jsonl", "ndjson", "json", "parquet"];

/// One row and where it stands.
#[derive(Debug, Clone)]
pub(super) struct Row {
    fields: Map<String, Value>,
    place: String,
}

impl Row {
    /// A field that must be a text.
    pub(super) fn text(&self, name: &str) -> Result<&str> {
        match self.fields.get(name) {
            Some(Value::String(text)) => Ok(text),
            Some(_) => Err(self.problem(format!("has a {name} that is not a text"))),
            None => Err(self.problem(format!("has no {name}"))),
        }
    }

    /// A field that must be a list of texts.
    pub(super) fn texts(&self, name: &str) -> Result<Vec<&str>> {
        let list = self.fields.get(name).and_then(Value::as_array);
        let texts = list.and_then(|list| list.iter().map(Value::as_str).collect::<Option<Vec<_>>>());
        texts.ok_or_else(|| self.problem(format!("has no list of texts called {name}")))
    }

    /// A field that must be a whole number.
    pub(super) fn number(&self, name: &str) -> Result<i64> {
        let number = self.fields.get(name).and_then(Value::as_i64);
        number.ok_or_else(|| self.problem(format!("has no whole number called {name}")))
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.fields.contains_key(name)
    }

    pub(super) fn problem(&self, problem: impl Into<String>) -> Error {
        Error::Data(format!("{} {}", self.place, problem.into()))
    }

    /// A row of MBPP that is part of the program.
    pub(super) fn from_text_and_tests(text: &str, tests: &[&str]) -> Self {
        let mut fields = Map::new();
        fields.insert("text".into(), text.into());
        fields.insert("test_list".into(), tests.into());
        Self { fields, place: "the shot".into() }
    }
}

/// All rows of a file.
pub(super) fn rows(path: &Path) -> Result<Vec<Row>> {
    let rows = match path.extension().and_then(|e| e.to_str()) {
        Some("parquet") => table(path)?,
        _ => json(path)?,
    };
    if rows.is_empty() {
        return Err(Error::Data(format!("{} has no rows", path.display())));
    }
    let place = |index: usize| format!("row {index} of {}", path.display());
    Ok(rows.into_iter().enumerate().map(|(i, fields)| Row { fields, place: place(i) }).collect())
}

fn json(path: &Path) -> Result<Vec<Map<String, Value>>> {
    let text = files::read_at_most(path, LARGEST).and_then(as_text).map_err(Error::read(path))?;
    if text.trim_start().starts_with('[') {
        let problem = |cause| Error::Data(format!("{} is not a JSON list of rows ({cause})", path.display()));
        return serde_json::from_str(&text).map_err(problem);
    }
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let row = |(number, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|cause| {
            Error::Data(format!("line {} of {} is not a JSON object ({cause})", number + 1, path.display()))
        })
    };
    lines.map(row).collect()
}

fn as_text(bytes: Vec<u8>) -> std::io::Result<String> {
    String::from_utf8(bytes).map_err(|_| std::io::Error::other("it is not UTF-8"))
}

fn table(path: &Path) -> Result<Vec<Map<String, Value>>> {
    let damaged = |why| Error::Data(format!("{} cannot be read: {why}", path.display()));
    caught(|| table_rows(path)).map_err(damaged)?
}

fn table_rows(path: &Path) -> Result<Vec<Map<String, Value>>> {
    let file = files::open(path).map_err(Error::read(path))?;
    let problem = |cause: &dyn std::fmt::Display| {
        Error::Data(format!("{} is not a readable parquet file ({cause})", path.display()))
    };
    let reader = SerializedFileReader::new(file).map_err(|cause| problem(&cause))?;
    let rows = reader.get_row_iter(None).map_err(|cause| problem(&cause))?;
    let mut table = Vec::new();
    for row in rows {
        let row = row.map_err(|cause| problem(&cause))?;
        let fields = row.into_columns().into_iter();
        table.push(fields.filter_map(|(name, field)| Some((name, cell(&field)?))).collect());
    }
    Ok(table)
}

/// A text, a whole number or a list of them; other kinds of columns are not part of these datasets.
fn cell(field: &Field) -> Option<Value> {
    match field {
        Field::Str(text) => Some(text.as_str().into()),
        Field::Byte(number) => Some((*number).into()),
        Field::Short(number) => Some((*number).into()),
        Field::Int(number) => Some((*number).into()),
        Field::Long(number) => Some((*number).into()),
        Field::UByte(number) => Some((*number).into()),
        Field::UShort(number) => Some((*number).into()),
        Field::UInt(number) => Some((*number).into()),
        Field::ULong(number) => Some((*number).into()),
        Field::ListInternal(list) => {
            list.elements().iter().map(cell).collect::<Option<_>>().map(Value::Array)
        }
        _ => None,
    }
}

/// The file of a split: the path itself where it is a file, else the one file of the folder whose name names the split.
pub(super) fn split(path: &Path, names: &[&str]) -> Result<PathBuf> {
    if !path.is_dir() {
        return Ok(path.to_owned());
    }
    let mut files = Vec::new();
    collect(path, 3, &mut files)?;
    files.sort();
    let named = |file: &&PathBuf| {
        let name = file.file_name().map(|n| n.to_string_lossy().to_lowercase()).unwrap_or_default();
        names.iter().any(|split| name.starts_with(split))
    };
    let mut found: Vec<&PathBuf> = files.iter().filter(named).collect();
    if found.is_empty() {
        // As in mbpp/mbpp.jsonl.
        found = files.iter().filter(|file| file.file_stem() == path.file_name()).collect();
    }
    match (found.as_slice(), files.as_slice()) {
        ([one], _) => Ok((*one).clone()),
        ([], [one]) => Ok(one.clone()),
        _ => Err(Error::Data(format!(
            "{} has {} files of the split {} where one was expected; name the file itself",
            path.display(),
            found.len(),
            names.join(" or ")
        ))),
    }
}

/// The file of another split in the same folder.
pub(super) fn neighbour(path: &Path, name: &str) -> Result<PathBuf> {
    let folder = if path.is_dir() { path } else { path.parent().unwrap_or(Path::new(".")) };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let mut files = Vec::new();
    collect(folder, if path.is_dir() { 3 } else { 0 }, &mut files)?;
    files.sort();
    let is_it = |file: &PathBuf| {
        file.file_name().is_some_and(|n| n.to_string_lossy().to_lowercase().starts_with(name))
    };
    files.into_iter().find(is_it).ok_or_else(|| {
        let problem = format!(
            "the shots come from the {name} split, and {} has no file called {name}…",
            folder.display()
        );
        Error::Choice { problem, remedy: Remedy::NameShots }
    })
}

fn collect(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).map_err(Error::read(folder))? {
        let path = entry.map_err(Error::read(folder))?.path();
        if path.is_dir() && depth > 0 {
            collect(&path, depth - 1, files)?;
        } else if path.extension().and_then(|e| e.to_str()).is_some_and(|e| ENDINGS.contains(&e)) {
            files.push(path);
        }
    }
    Ok(())
}
