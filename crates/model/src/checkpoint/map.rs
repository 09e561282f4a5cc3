//! The mapped-file door: the one place of this crate that contains `unsafe`.
//!
//! Invariant: the mapping is private and read-only, and lives as long as any [`super::Bytes`] that points into it.

#![allow(unsafe_code, reason = "mapping a file is the one thing the standard library has no safe form of")]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;

use memmap2::Mmap;

/// Maps a regular file; an empty file gives an empty mapping.
pub(super) fn map(path: &Path) -> io::Result<Mmap> {
    let file = File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    // SAFETY: the bytes are only read as plain old data (any bit pattern is a valid u8, f32, bf16 or f16), through a
    // private read-only mapping. What the type system cannot rule out is another process truncating the file while it is
    // mapped; checkpoints are written to a temporary name and renamed (`super::write`, and the Hub's cache), so a file that
    // is replaced keeps its old contents here.
    unsafe { Mmap::map(&file) }
}

/// Drops the pages of a range from memory; the file still has them.
pub(super) fn release(map: &Mmap, range: Range<usize>) {
    #[cfg(unix)]
    {
        // SAFETY: the mapping is read-only, so dropped pages come back from the file with the same contents.
        let advised = unsafe {
            map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, range.start, range.len())
        };
        // Advice that is not taken only costs memory.
        drop(advised);
    }
    #[cfg(not(unix))]
    let _ = (map, range);
}
