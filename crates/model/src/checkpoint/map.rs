//! The mapped-file door: the one place of this crate that contains `unsafe`.
//!
//! Invariant: the mapping is private and read-only, and lives as long as any [`super::Bytes`] that points into it. A file
//! that is changed while it is mapped is noticed as far as the system lets it be: its size and time of change are
//! compared before every pass ([`Mapping::check`]), and reading beyond a new end is a sentence ([`guard_mappings`]).

#![allow(unsafe_code, reason = "mapping a file is the one thing the standard library has no safe form of")]

use std::fs::{File, Metadata};
use std::io;
use std::ops::{Deref, Range};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use memmap2::Mmap;

use crate::error::{Error, Result};
use crate::files;

/// A mapped file, held open so that what happens to it can be seen.
pub(super) struct Mapping {
    map: Mmap,
    file: File,
    path: PathBuf,
    before: (u64, Option<SystemTime>),
}

impl Deref for Mapping {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.map
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        fault::forget(&self.map);
    }
}

/// Maps a regular file; an empty file gives an empty mapping.
pub(super) fn map(path: &Path) -> io::Result<Mapping> {
    let file = files::open(path)?;
    let before = seen(&file.metadata()?);
    // SAFETY: the bytes are only read as plain old data (any bit pattern is a valid u8, f32, bf16 or f16), through a
    // private read-only mapping. What the type system cannot rule out is another process changing the file while it is
    // mapped. Checkpoints are written to a temporary name and renamed (`super::write`, and the Hub's cache), so a file
    // that is replaced keeps its old contents here. One that is overwritten or cut in place does not: the bytes behind
    // a `&[u8]` then change, which no check can make sound. `check` and `guard_mappings` turn nearly all such cases
    // into an error before or while the bytes are used; what is left is a pass that reads new numbers between a write
    // and the next check, as if the checkpoint had always held them (no value is invalid, no index comes from them),
    // and a writer that restores size and time. Those who cannot exclude such writers read the file instead (`LoadOptions::mapped`).
    let map = unsafe { Mmap::map(&file)? };
    fault::remember(&map, path);
    Ok(Mapping { map, file, path: path.to_path_buf(), before })
}

impl Mapping {
    /// Refuses a file that is no longer what was mapped, as far as its size and time tell.
    pub(super) fn check(&self) -> Result<()> {
        let now = self.file.metadata().map_err(Error::read(&self.path))?;
        if seen(&now) == self.before {
            return Ok(());
        }
        let change = match (self.before.0, now.len()) {
            (before, now) if before == now => "it was written to".to_owned(),
            (before, now) => format!("it had {before} bytes and has {now}"),
        };
        Err(Error::Changed { path: self.path.clone(), change })
    }

    /// Says whether a range will be read here and there, so that the system reads no more of it than that.
    pub(super) fn expect_leaps(&self, range: Range<usize>, leaps: bool) {
        #[cfg(unix)]
        {
            let advice = if leaps { memmap2::Advice::Random } else { memmap2::Advice::Normal };
            // Advice that is not taken only costs time.
            drop(self.map.advise_range(advice, range.start, range.len()));
        }
        #[cfg(not(unix))]
        let _ = (range, leaps);
    }

    /// Drops the pages of a range from memory; the file still has them.
    pub(super) fn release(&self, range: Range<usize>) {
        #[cfg(unix)]
        {
            // SAFETY: the mapping is read-only, so dropped pages come back from the file with the same contents.
            let advised = unsafe {
                self.map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, range.start, range.len())
            };
            // Advice that is not taken only costs memory.
            drop(advised);
        }
        #[cfg(not(unix))]
        let _ = range;
    }
}

fn seen(about: &Metadata) -> (u64, Option<SystemTime>) {
    (about.len(), about.modified().ok())
}

/// From now on, a mapped file that is cut short under its reader ends the program with a sentence that names it, and
/// exit code 1. For programs; a library leaves the signals of its host alone.
pub fn guard_mappings() {
    fault::install();
}

#[cfg(unix)]
mod fault {
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;
    use std::ptr;
    use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

    /// Mapped files that can be named; more go unnamed.
    const SLOTS: usize = 1024;

    /// A mapping and the sentence about it; `start` is 0 where there is none.
    struct Slot {
        start: AtomicUsize,
        end: AtomicUsize,
        sentence: AtomicPtr<Vec<u8>>,
    }

    static SLOTS_TAKEN: [Slot; SLOTS] = [const {
        Slot {
            start: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            sentence: AtomicPtr::new(ptr::null_mut()),
        }
    }; SLOTS];

    pub(super) fn remember(map: &[u8], path: &Path) {
        if map.is_empty() {
            return;
        }
        let start = map.as_ptr().addr();
        let free =
            |slot: &&Slot| slot.start.compare_exchange(0, start, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        let Some(slot) = SLOTS_TAKEN.iter().find(free) else { return };
        let mut sentence = b"error: ".to_vec();
        sentence.extend(path.as_os_str().as_bytes());
        sentence.extend(b" was cut short while it is in use; restore it and start again\n");
        // Never freed: the handler may be reading it. A few hundred bytes per mapped file.
        slot.sentence.store(Box::into_raw(Box::new(sentence)), Ordering::Release);
        slot.end.store(start + map.len(), Ordering::Release);
    }

    pub(super) fn forget(map: &[u8]) {
        let start = map.as_ptr().addr();
        if let Some(slot) = SLOTS_TAKEN.iter().find(|slot| slot.start.load(Ordering::Acquire) == start) {
            slot.end.store(0, Ordering::Release);
            slot.start.store(0, Ordering::Release);
        }
    }

    pub(super) fn install() {
        // SAFETY: the handler is async-signal-safe (atomic loads, write, _exit, sigaction) and has the signature that
        // SA_SIGINFO asks for; SA_ONSTACK uses the stack the runtime set up for its own handlers.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) = on_fault;
            action.sa_sigaction = handler as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigemptyset(&mut action.sa_mask);
            libc::sigaction(libc::SIGBUS, &action, ptr::null_mut());
        }
    }

    extern "C" fn on_fault(_: i32, about: *mut libc::siginfo_t, _: *mut libc::c_void) {
        // SAFETY: the kernel passes a valid siginfo for SIGBUS, whose address field is set; a sentence that is published
        // is never freed; write, _exit and sigaction may be called from a handler.
        unsafe {
            let address = (*about).si_addr().addr();
            for slot in &SLOTS_TAKEN {
                let (start, end) = (slot.start.load(Ordering::Acquire), slot.end.load(Ordering::Acquire));
                let sentence = slot.sentence.load(Ordering::Acquire);
                if start != 0
                    && (start..end.next_multiple_of(1 << 16)).contains(&address)
                    && !sentence.is_null()
                {
                    let sentence = &*sentence;
                    libc::write(libc::STDERR_FILENO, sentence.as_ptr().cast(), sentence.len());
                    libc::_exit(1);
                }
            }
            // Not ours: the instruction runs again and meets the system's own handling.
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = libc::SIG_DFL;
            libc::sigaction(libc::SIGBUS, &action, ptr::null_mut());
        }
    }
}

#[cfg(not(unix))]
mod fault {
    pub(super) fn remember(_: &[u8], _: &std::path::Path) {}
    pub(super) fn forget(_: &[u8]) {}
    pub(super) fn install() {}
}
