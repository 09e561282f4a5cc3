//! Results as JSON lines, appended as they come: a header that says what they belong to, then one record per line.
//!
//! Invariants: the folder has one writer at a time; after any interruption the file is a prefix of what the whole run
//! writes; the line that was being written, torn wherever it may be, is cut off when the run goes on; a file of another
//! run is refused, not mixed; a record appears once.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use demask_model::files::{self, Lock};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};

/// What a power cut may cost.
const SYNC: Duration = Duration::from_secs(2);
/// Bytes of the largest journal that is read.
const LARGEST: u64 = 16 << 30;

/// A record that can be told from all others of its journal.
pub trait Keyed {
    /// Its name, for a person to read.
    fn key(&self) -> String;
}

/// The records of a run, in the file and in memory.
pub struct Journal<R> {
    path: PathBuf,
    file: File,
    records: Vec<R>,
    synced: Instant,
    _lock: Lock,
}

impl<R: Keyed + Serialize + DeserializeOwned> Journal<R> {
    /// Opens the file's records, or begins them. `compare` says whether what is found belongs to this run.
    pub fn open<H: Serialize + DeserializeOwned>(
        path: &Path,
        header: &H,
        compare: impl FnOnce(&H) -> std::result::Result<(), String>,
    ) -> Result<Self> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let lock = Lock::take(folder)?;
        let path = path.to_path_buf();
        let bytes = match files::read_at_most(&path, LARGEST) {
            Ok(bytes) => bytes,
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(cause) => return Err(Error::Read { path, cause }),
        };
        let whole = whole_lines(&bytes);
        let records = match parse::<H, R>(&path, whole)? {
            None => Vec::new(),
            Some((found, records)) => {
                compare(&found).map_err(|problem| Error::OtherRun { path: path.clone(), problem })?;
                records
            }
        };
        let mut file =
            OpenOptions::new().create(true).append(true).open(&path).map_err(Error::write(&path))?;
        file.set_len(whole.len() as u64).map_err(Error::write(&path))?;
        if whole.is_empty() {
            let line = serde_json::to_string(header).map_err(|e| Error::write(&path)(e.into()))?;
            writeln!(file, "{line}").map_err(Error::write(&path))?;
            file.sync_all().and_then(|()| files::sync_folder_of(&path)).map_err(Error::write(&path))?;
        }
        Ok(Self { path, file, records, synced: Instant::now(), _lock: lock })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All records.
    pub fn records(&self) -> &[R] {
        &self.records
    }

    /// Adds records; those that were added are whole lines even if the process dies right after, and on the disk within
    /// seconds.
    pub fn append(&mut self, records: Vec<R>) -> Result<()> {
        let mut text = String::new();
        for record in &records {
            text.push_str(&serde_json::to_string(record).map_err(|e| Error::write(&self.path)(e.into()))?);
            text.push('\n');
        }
        self.write(records, &text)
    }

    /// Adds a record as another journal has written it: read and written again, its numbers might end in another digit.
    pub fn append_as_written(&mut self, record: R, line: &str) -> Result<()> {
        self.write(vec![record], &format!("{line}\n"))
    }

    fn write(&mut self, records: Vec<R>, text: &str) -> Result<()> {
        self.file.write_all(text.as_bytes()).map_err(Error::write(&self.path))?;
        self.records.extend(records);
        if self.synced.elapsed() >= SYNC {
            self.file.sync_data().map_err(Error::write(&self.path))?;
            self.synced = Instant::now();
        }
        Ok(())
    }

    /// Makes sure that everything is on the disk.
    pub fn sync(&self) -> Result<()> {
        self.file.sync_all().map_err(Error::write(&self.path))
    }
}

/// The header and the whole records of a file, without touching it.
pub fn read<H: DeserializeOwned, R: Keyed + DeserializeOwned>(path: &Path) -> Result<(H, Vec<R>)> {
    let bytes = files::read_at_most(path, LARGEST).map_err(Error::read(path))?;
    let found = parse(path, whole_lines(&bytes))?;
    found.ok_or_else(|| Error::Nothing(format!("{} is empty", path.display())))
}

/// The header and the whole records of a file, each beside the line it was read from.
pub fn read_lines<H: DeserializeOwned, R: Keyed + DeserializeOwned>(
    path: &Path,
) -> Result<(H, Vec<(R, String)>)> {
    let (header, records) = read::<H, R>(path)?;
    let text = files::read_at_most(path, LARGEST).map_err(Error::read(path))?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let lines = text.lines().skip(1).map(str::to_owned);
    Ok((header, records.into_iter().zip(lines).collect()))
}

/// Everything up to the last line's end; what follows was being written.
fn whole_lines(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
    &bytes[..end]
}

fn parse<H: DeserializeOwned, R: Keyed + DeserializeOwned>(
    path: &Path,
    bytes: &[u8],
) -> Result<Option<(H, Vec<R>)>> {
    let other = |problem: String| Error::OtherRun { path: path.to_path_buf(), problem };
    let mut lines = bytes.split_inclusive(|&byte| byte == b'\n');
    let Some(first) = lines.next() else { return Ok(None) };
    let header = serde_json::from_slice(first).map_err(|e| other(format!("its first line is {e}")))?;
    let (mut records, mut seen) = (Vec::new(), HashMap::new());
    for (line, number) in lines.zip(2..) {
        let damaged = |e| other(format!("line {number} is damaged ({e})"));
        let record: R = serde_json::from_slice(line).map_err(damaged)?;
        if let Some(earlier) = seen.insert(record.key(), number) {
            let key = record.key();
            let problem =
                format!("lines {earlier} and {number} are both of {key}, so two runs wrote to it at once");
            return Err(other(problem));
        }
        records.push(record);
    }
    Ok(Some((header, records)))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    impl Keyed for u32 {
        fn key(&self) -> String {
            self.to_string()
        }
    }

    fn open(path: &Path) -> Result<Journal<u32>> {
        let same = |found: &String| if found == "run" { Ok(()) } else { Err(format!("it is {found}")) };
        Journal::open(path, &"run".to_owned(), same)
    }

    #[test]
    fn a_torn_line_is_cut_and_another_run_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/records.jsonl");
        let mut journal = open(&path).unwrap();
        journal.append(vec![1, 2]).unwrap();
        drop(journal);
        let whole = fs::read(&path).unwrap();
        // The second is torn inside a character.
        for torn in [&b"{\"torn"[..], b"{\"x\":\"\xc3", b"\xe2\x82"] {
            fs::write(&path, [&whole[..], torn].concat()).unwrap();
            assert_eq!(read::<String, u32>(&path).unwrap(), ("run".to_owned(), vec![1, 2]));
            assert_eq!(open(&path).unwrap().records(), [1, 2]);
            assert_eq!(fs::read(&path).unwrap(), whole);
        }
        let refused = Journal::<u32>::open(&path, &"x".to_owned(), |_: &String| Err("of y".into()));
        assert!(matches!(refused, Err(Error::OtherRun { .. })));
    }

    #[test]
    fn a_second_writer_is_refused_by_the_number_of_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records.jsonl");
        let mut first = open(&path).unwrap();
        first.append(vec![1]).unwrap();
        fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"2").unwrap();
        let before = fs::read(&path).unwrap();
        let error = open(&path).err().unwrap().to_string();
        assert!(error.contains(&format!("process {}", std::process::id())), "{error}");
        assert_eq!(fs::read(&path).unwrap(), before);
    }

    #[test]
    fn a_record_twice_is_refused_by_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records.jsonl");
        fs::write(&path, "\"run\"\n1\n2\n1\n").unwrap();
        let error = open(&path).err().unwrap().to_string();
        assert!(error.contains("lines 2 and 4 are both of 1"), "{error}");
        assert!(read::<String, u32>(&path).is_err());
    }
}
