//! Results as JSON lines, appended as they come: a header that says what they belong to, then one record a line.
//!
//! Invariant: after any interruption the file is a prefix of what the whole run writes; the line that was being
//! written is cut off when the run goes on, and a file of another run is refused, not mixed.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};

/// The records of a run, in the file and in memory.
pub struct Journal<R> {
    path: PathBuf,
    file: File,
    records: Vec<R>,
}

impl<R: Serialize + DeserializeOwned> Journal<R> {
    /// Opens the file's records, or begins them. `compare` says whether what is found belongs to this run.
    pub fn open<H: Serialize + DeserializeOwned>(
        path: &Path,
        header: &H,
        compare: impl FnOnce(&H) -> std::result::Result<(), String>,
    ) -> Result<Self> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(Error::write(folder))?;
        }
        let path = path.to_path_buf();
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(cause) => return Err(Error::Read { path, cause }),
        };
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let records = match parse::<H, R>(&path, &text[..whole])? {
            None => Vec::new(),
            Some((found, records)) => {
                compare(&found).map_err(|problem| Error::OtherRun { path: path.clone(), problem })?;
                records
            }
        };
        let mut file =
            OpenOptions::new().create(true).append(true).open(&path).map_err(Error::write(&path))?;
        file.set_len(whole as u64).map_err(Error::write(&path))?;
        if whole == 0 {
            let line = serde_json::to_string(header).map_err(|e| Error::write(&path)(e.into()))?;
            writeln!(file, "{line}").map_err(Error::write(&path))?;
        }
        Ok(Self { path, file, records })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All records.
    pub fn records(&self) -> &[R] {
        &self.records
    }

    /// Adds records; those that were added are whole lines even if the process dies right after.
    pub fn append(&mut self, records: Vec<R>) -> Result<()> {
        let mut text = String::new();
        for record in &records {
            text.push_str(&serde_json::to_string(record).map_err(|e| Error::write(&self.path)(e.into()))?);
            text.push('\n');
        }
        self.file.write_all(text.as_bytes()).map_err(Error::write(&self.path))?;
        self.records.extend(records);
        Ok(())
    }

    /// Makes sure that everything is on the disk.
    pub fn sync(&self) -> Result<()> {
        self.file.sync_all().map_err(Error::write(&self.path))
    }
}

/// The header and the whole records of a file, without touching it.
pub fn read<H: DeserializeOwned, R: DeserializeOwned>(path: &Path) -> Result<(H, Vec<R>)> {
    let text = fs::read_to_string(path).map_err(Error::read(path))?;
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    parse(path, &text[..whole])?.ok_or_else(|| Error::Nothing(format!("{} is empty", path.display())))
}

fn parse<H: DeserializeOwned, R: DeserializeOwned>(path: &Path, lines: &str) -> Result<Option<(H, Vec<R>)>> {
    let other = |problem: String| Error::OtherRun { path: path.to_path_buf(), problem };
    let mut lines = lines.lines();
    let Some(first) = lines.next() else { return Ok(None) };
    let header = serde_json::from_str(first).map_err(|e| other(format!("its first line is {e}")))?;
    let record = |(number, line)| {
        serde_json::from_str(line).map_err(|e| other(format!("line {} is damaged ({e})", number + 2)))
    };
    Ok(Some((header, lines.enumerate().map(record).collect::<Result<Vec<_>>>()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_line_is_cut_and_another_run_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/records.jsonl");
        let same = |found: &String| if found == "run" { Ok(()) } else { Err(format!("it is {found}")) };
        let mut journal = Journal::<u32>::open(&path, &"run".to_owned(), same).unwrap();
        journal.append(vec![1, 2]).unwrap();
        drop(journal);
        let whole = fs::read(&path).unwrap();
        fs::write(&path, [&whole[..], b"{\"torn"].concat()).unwrap();
        let journal = Journal::<u32>::open(&path, &"run".to_owned(), same).unwrap();
        assert_eq!(journal.records(), [1, 2]);
        assert_eq!(fs::read(&path).unwrap(), whole);
        let refused = Journal::<u32>::open(&path, &"x".to_owned(), |_: &String| Err("of y".into()));
        assert!(matches!(refused, Err(Error::OtherRun { .. })));
        assert_eq!(read::<String, u32>(&path).unwrap(), ("run".to_owned(), vec![1, 2]));
    }
}
