//! The door through which files come in and go out: what may be read, who may write, and what a crash leaves behind.
//!
//! Invariants: nothing but a regular file of a bounded size is read whole, so a FIFO cannot hang a command and a device
//! cannot fill the memory; a folder that is written to has one writer; and what a rename commits is on the disk.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process;

use crate::error::{Error, Result};
use crate::hash::Hash;

/// Name of the file that is locked in a folder.
const LOCK: &str = ".demask.lock";
/// How the name of an unfinished file ends.
pub const PARTIAL: &str = ".partial";

/// Bytes that a settings file (JSON, a chat template, a table of contents) may have.
pub const SETTINGS: u64 = 256 << 20;

/// Opens a regular file; anything else (a FIFO, a device, a folder) is refused before it can block.
pub fn open(path: &Path) -> io::Result<File> {
    let about = fs::metadata(path)?;
    if !about.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    File::open(path)
}

/// Reads a whole file of at most `most` bytes.
pub fn read_at_most(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    let length = file.metadata()?.len();
    let too_long = || io::Error::other(format!("it has more than {most} bytes, too many for such a file"));
    if length > most {
        return Err(too_long());
    }
    let mut bytes = Vec::with_capacity(length as usize);
    // It may grow while it is read.
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(too_long()) } else { Ok(bytes) }
}

/// Reads a settings file.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    read_at_most(path, SETTINGS)
}

/// Reads a settings file as text.
pub fn read_to_string(path: &Path) -> io::Result<String> {
    String::from_utf8(read(path)?).map_err(|_| io::Error::other("it is not UTF-8"))
}

/// The only writer of a folder, until it is dropped or its process ends.
#[derive(Debug)]
pub struct Lock {
    file: File,
    path: PathBuf,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // While it is still held, so that nobody else's file is removed.
        let _ = fs::remove_file(&self.path);
        let _ = self.file.unlock();
    }
}

impl Lock {
    /// Takes a folder, making it where needed, and removes what earlier writers left unfinished.
    pub fn take(folder: &Path) -> Result<Self> {
        let lock = Self::take_named(folder, LOCK)?;
        for partial in partials(folder) {
            // It is nobody's: whoever wrote it would hold the lock.
            let _ = fs::remove_file(partial);
        }
        Ok(lock)
    }

    /// Takes one part of the work in a folder, under a name that all who do this part agree on.
    pub fn take_named(folder: &Path, name: &str) -> Result<Self> {
        fs::create_dir_all(folder).map_err(Error::write(folder))?;
        let path = folder.join(name);
        loop {
            let file = Self::lock(folder, &path)?;
            // A holder removes its file at its end: what was locked may be a file that is gone.
            if is_there(&file, &path) {
                return Ok(Self { file, path });
            }
        }
    }

    fn lock(folder: &Path, path: &Path) -> Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(path).map_err(Error::write(path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                let _ = (&file).take(32).read_to_string(&mut holder);
                return Err(Error::Locked { folder: folder.to_path_buf(), holder: holder.trim().to_owned() });
            }
            Err(TryLockError::Error(cause)) => {
                return Err(Error::Write { path: path.to_path_buf(), cause });
            }
        }
        let write = |file: &mut File| {
            file.set_len(0)?;
            writeln!(file, "{}", process::id())
        };
        write(&mut file).map_err(Error::write(path))?;
        Ok(file)
    }
}

/// Whether an open file is the one that has this name.
#[cfg(unix)]
fn is_there(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let number = |about: fs::Metadata| (about.dev(), about.ino());
    let (open, named) = (file.metadata().map(number), fs::metadata(path).map(number));
    matches!((open, named), (Ok(open), Ok(named)) if open == named)
}

#[cfg(not(unix))]
fn is_there(_: &File, _: &Path) -> bool {
    true
}

/// Removes unfinished files of processes that are gone; for folders that several may write to.
pub fn clean(folder: &Path) {
    // Numbers of processes mean something among those that see each other; elsewhere somebody may be at work.
    let Some(home) = home() else { return };
    for partial in partials(folder) {
        if writer_of(&partial).is_some_and(|(process, of)| of == home && is_gone(process)) {
            let _ = fs::remove_file(partial);
        }
    }
}

/// Removes unfinished files that were to become `path`; for the only writer of it.
pub fn clean_of(path: &Path) {
    let Some(folder) = path.parent() else { return };
    let middle = format!("-{}.", short_name(path));
    for partial in partials(folder) {
        if partial.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.contains(&middle)) {
            let _ = fs::remove_file(partial);
        }
    }
}

/// How the name of the unfinished `path` of this process begins; see [`clean`] and [`clean_of`].
pub(crate) fn partial_prefix(path: &Path) -> String {
    format!(".{}-{:x}-{}.", process::id(), home().unwrap_or(0), short_name(path))
}

/// The name of a file, or so much of it that more can be added.
fn short_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().chars().take(60).collect()
}

/// Tells machines, and containers on one machine, apart: the boot and the namespace of process numbers.
fn home() -> Option<u64> {
    let boot = fs::read("/proc/sys/kernel/random/boot_id").ok()?;
    let space = fs::read_link("/proc/self/ns/pid").ok()?;
    Some(Hash::new().bytes(&boot).bytes(space.as_os_str().as_encoded_bytes()).value())
}

fn partials(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_partial = |name: &str| name.starts_with('.') && name.ends_with(PARTIAL);
    entries.filter(|entry| entry.file_name().to_str().is_some_and(is_partial)).map(|e| e.path()).collect()
}

/// The process and the home of whoever writes a file.
fn writer_of(partial: &Path) -> Option<(u32, u64)> {
    let mut parts = partial.file_name()?.to_str()?.strip_prefix('.')?.split('-');
    Some((parts.next()?.parse().ok()?, u64::from_str_radix(parts.next()?, 16).ok()?))
}

/// Whether a process is known to have ended; where the system does not tell, it is not.
fn is_gone(process: u32) -> bool {
    Path::new("/proc/self").exists() && !Path::new(&format!("/proc/{process}")).exists()
}

/// Makes a rename or a new name last through a power cut. A file system that cannot is none that could have kept it.
pub fn sync_folder_of(path: &Path) -> io::Result<()> {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    match File::open(folder)?.sync_all() {
        Err(cause) if matches!(cause.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => {
            Ok(())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_one_writer_and_its_leftovers_go() {
        let folder = tempfile::tempdir().unwrap();
        let (stale, kept) = (folder.path().join(".abc.partial"), folder.path().join("records.jsonl"));
        fs::write(&stale, "half").unwrap();
        fs::write(&kept, "whole").unwrap();
        let lock = Lock::take(folder.path()).unwrap();
        assert!(!stale.exists() && kept.exists());
        let error = Lock::take(folder.path()).unwrap_err().to_string();
        assert!(error.contains(&format!("process {}", process::id())), "{error}");
        drop(lock);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "the lock stays");
        Lock::take(folder.path()).unwrap();
    }

    #[test]
    fn only_leftovers_of_the_dead_are_cleaned() {
        let folder = tempfile::tempdir().unwrap();
        let mut child = process::Command::new("true").spawn().unwrap();
        let home = home().unwrap();
        let dead = folder.path().join(format!(".{}-{home:x}-x.partial", child.id()));
        let elsewhere = folder.path().join(format!(".{}-{:x}-x.partial", child.id(), home ^ 1));
        child.wait().unwrap();
        let own = folder.path().join(format!("{}x.partial", partial_prefix(Path::new("a.bin"))));
        let nobodys = folder.path().join(".x.partial");
        for path in [&dead, &own, &nobodys, &elsewhere] {
            fs::write(path, "half").unwrap();
        }
        clean(folder.path());
        assert!(!dead.exists() && own.exists() && nobodys.exists() && elsewhere.exists());
        clean_of(&folder.path().join("b.bin"));
        assert!(own.exists() && nobodys.exists());
        clean_of(&folder.path().join("a.bin"));
        assert!(!own.exists() && nobodys.exists());
    }

    #[cfg(unix)]
    #[test]
    fn fifos_devices_folders_and_giants_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        assert!(process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        for path in [fifo.as_path(), Path::new("/dev/zero"), folder.path()] {
            assert!(read(path).unwrap_err().to_string().contains("not a regular file"), "{}", path.display());
        }
        let file = folder.path().join("file");
        fs::write(&file, [0; 11]).unwrap();
        assert_eq!(read_at_most(&file, 11).unwrap().len(), 11);
        assert!(read_at_most(&file, 10).unwrap_err().to_string().contains("more than 10 bytes"));
    }
}
