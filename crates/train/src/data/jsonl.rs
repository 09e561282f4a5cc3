//! JSON lines by number: one pass finds where the lines begin, later reads seek.

use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use demask_model::files;
use demask_model::hash::Hash;
use demask_model::text::Message;
use serde_json::Value;

use super::{Content, Record, Records, Refused};
use crate::error::{Error, Result};

/// A file of JSON lines; empty lines do not count.
pub(super) struct Lines {
    path: PathBuf,
    /// First and one past the last byte of every line.
    places: Vec<(u64, u64)>,
    hash: u64,
}

impl Lines {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let mut file = BufReader::with_capacity(1 << 20, files::open(path).map_err(Error::read(path))?);
        let (mut places, mut sum, mut start, mut line) = (Vec::new(), Hash::new(), 0, Vec::new());
        loop {
            line.clear();
            let read = file.read_until(b'\n', &mut line).map_err(Error::read(path))?;
            if read == 0 {
                break;
            }
            if !line.trim_ascii().is_empty() {
                places.push((start, start + read as u64));
            }
            sum = sum.bytes(&line);
            start += read as u64;
        }
        if places.is_empty() {
            return Err(Error::Data { path: path.to_owned(), problem: "has no lines".into() });
        }
        Ok(Self { path: path.to_owned(), places, hash: sum.value() })
    }
}

impl Records for Lines {
    fn len(&self) -> usize {
        self.places.len()
    }

    fn identity(&self) -> String {
        format!("jsonl:{}:{:016x}", self.places.len(), self.hash)
    }

    fn read(&self, range: Range<usize>) -> Result<Vec<Result<Record, Refused>>> {
        let places = &self.places[range.clone()];
        let (Some(first), Some(last)) = (places.first(), places.last()) else { return Ok(Vec::new()) };
        let mut file = files::open(&self.path).map_err(Error::read(&self.path))?;
        file.seek(SeekFrom::Start(first.0)).map_err(Error::read(&self.path))?;
        let mut bytes = vec![0; (last.1 - first.0) as usize];
        file.read_exact(&mut bytes).map_err(Error::read(&self.path))?;
        let line = |place: &(u64, u64)| &bytes[(place.0 - first.0) as usize..(place.1 - first.0) as usize];
        let rows = range
            .zip(places)
            .map(|(row, place)| record(row, line(place)).map_err(|why| Refused { row: row as u64, why }));
        Ok(rows.collect())
    }
}

fn record(row: usize, line: &[u8]) -> Result<Record, String> {
    let value: Value = serde_json::from_slice(line).map_err(|cause| format!("is not JSON ({cause})"))?;
    let id = match value.get("id") {
        Some(Value::String(id)) => id.clone(),
        Some(Value::Number(id)) => id.to_string(),
        _ => row.to_string(),
    };
    Ok(Record { id, content: content(&value)? })
}

fn content(value: &Value) -> Result<Content, String> {
    if let Some(messages) = value.get("messages") {
        let messages: Result<Vec<Message>, _> = serde_json::from_value(messages.clone());
        return messages.map(Content::Messages).map_err(|cause| format!("has unusable messages ({cause})"));
    }
    let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    match (text("prompt"), text("response")) {
        (Some(prompt), Some(response)) => Ok(Content::Pair { prompt, response }),
        _ => Err("has neither messages nor a prompt and a response".into()),
    }
}
