//! Files of the command line: written under a temporary name and renamed when complete.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// A file that appears under its name only when [`Pending::finish`] is called.
pub struct Pending {
    path: PathBuf,
    temporary: PathBuf,
    out: BufWriter<File>,
}

impl Pending {
    /// Starts writing beside `path`.
    pub fn create(path: &Path) -> Result<Self> {
        let mut name = path.file_name().context("the output needs a file name")?.to_owned();
        name.push(format!(".{}.part", std::process::id()));
        let temporary = path.with_file_name(name);
        let file = File::create(&temporary).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { path: path.to_owned(), temporary, out: BufWriter::new(file) })
    }

    /// Flushes and gives the file its name.
    pub fn finish(mut self) -> Result<()> {
        self.out.flush().with_context(|| format!("cannot write {}", self.path.display()))?;
        std::fs::rename(&self.temporary, &self.path)
            .with_context(|| format!("cannot write {}", self.path.display()))
    }
}

impl Write for Pending {
    fn write(&mut self, data: &[u8]) -> std::io::Result<usize> {
        self.out.write(data)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        // After a rename there is nothing left to remove.
        let _ = std::fs::remove_file(&self.temporary);
    }
}
