//! The one way files are written: under a temporary name beside their own, and renamed when they are complete.
//!
//! Invariant: a reader sees the old file or the whole new one, and a writer that gives up leaves nothing behind.

use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::error::{Error, Result};
use crate::files;

/// A file that appears under its name only when [`Pending::finish`] is called.
///
/// ```
/// use std::io::Write;
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("answer.txt");
/// let mut file = demask_model::file::Pending::create(&path)?;
/// file.write_all(b"42")?;
/// assert!(!path.exists());
/// file.finish()?;
/// assert_eq!(std::fs::read_to_string(&path)?, "42");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Pending {
    path: PathBuf,
    out: BufWriter<NamedTempFile>,
}

impl Pending {
    /// Starts writing beside `path`.
    pub fn create(path: &Path) -> Result<Self> {
        let folder = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let mut builder = tempfile::Builder::new();
        let prefix = files::partial_prefix(path);
        builder.prefix(&prefix).suffix(files::PARTIAL);
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let file = builder.tempfile_in(folder).map_err(Error::write(path))?;
        Ok(Self { path: path.to_path_buf(), out: BufWriter::with_capacity(1 << 20, file) })
    }

    /// Brings everything to the disk and gives the file its name.
    pub fn finish(self) -> Result<()> {
        self.commit(|file, path| file.persist(path).map(drop).map_err(io::Error::from)).map(drop)
    }

    /// The same where another may have been first: then its file stays, this one goes, and the answer is `false`.
    pub fn finish_if_first(self) -> Result<bool> {
        let link = |file: NamedTempFile, path: &Path| match file.persist_noclobber(path) {
            Err(taken) if taken.error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            kept => kept.map(|_| true).map_err(io::Error::from),
        };
        self.commit(link)
    }

    fn commit<T>(self, name: impl FnOnce(NamedTempFile, &Path) -> io::Result<T>) -> Result<T> {
        let Self { path, out } = self;
        let complete = || {
            let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
            file.as_file().sync_all()?;
            let named = name(file, &path)?;
            files::sync_folder_of(&path)?;
            Ok(named)
        };
        complete().map_err(Error::write(&path))
    }
}

impl Write for Pending {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.out.write(data)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Seek for Pending {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.out.seek(to)
    }
}

/// Writes `path` in one go; see [`Pending`].
pub fn replace(path: &Path, contents: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let mut file = Pending::create(path)?;
    contents(&mut file).map_err(Error::write(path))?;
    file.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_writers_of_one_file_the_first_wins_and_neither_is_harmed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("piece");
        let [mut a, mut b] = [0, 1].map(|_| Pending::create(&path).unwrap());
        a.write_all(b"a").unwrap();
        b.write_all(b"b").unwrap();
        assert!(b.finish_if_first().unwrap());
        assert!(!a.finish_if_first().unwrap());
        assert_eq!(std::fs::read(&path).unwrap(), b"b");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
    }
}
