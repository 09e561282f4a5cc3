//! Looking after one program: its request, its words, its clock, and the end of everything it started.
//!
//! Three pipes, one loop. On standard error the helper (never the program) says which process is the namespace's first,
//! when it is about to become Python, and why it failed. On standard output Python's driver says that it has begun, then
//! how the program ended. The program's clock runs from the first of these two; before it, silence is a failure of the
//! helper. Invariant: when [`attend`] returns, nothing the program started lives, and nobody waits for its pipes.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;

use super::confine::{FAILED, FIRST, READY};
use crate::error::{Error, Result};

/// Bytes of a reply, or of the helper's words, that are read.
const LONGEST: usize = 1 << 20;
/// How often what a program has written is measured, where the system does not bound it.
const MEASURE: Duration = Duration::from_millis(20);
/// Files a program may have; as many as its own file system would hold.
const FILES: usize = 4096;

/// What the driver says.
#[derive(Debug, Deserialize)]
pub(super) struct Reply {
    nonce: String,
    #[serde(default)]
    started: bool,
    #[serde(default)]
    pub(super) layers: String,
    #[serde(default)]
    pub(super) passed: bool,
    #[serde(default)]
    pub(super) error: Option<String>,
    #[serde(default)]
    pub(super) text: Option<String>,
}

/// How a program that began came to its end.
pub(super) enum Ended {
    Replied(Reply),
    Silent,
    Late,
}

/// How long the beginning and the program may take, and how much it may write where.
pub(super) struct Clock<'a> {
    pub(super) start: Duration,
    pub(super) allowed: Duration,
    pub(super) folder: &'a Path,
    pub(super) total: u64,
}

/// Hands a child its request and waits for its reply, its end or the clock, whichever comes first.
pub(super) fn attend(mut child: Child, request: &[u8], nonce: &str, clock: &Clock<'_>) -> Result<Ended> {
    let failed = |cause: std::io::Error| Error::Sandbox(format!("its pipes fail ({cause})"));
    let mut pipes = Pipes::of(&mut child).map_err(failed)?;
    let mut group = Group { child, first: None };
    let begin = Instant::now();
    let mut request = request;
    let started = loop {
        pipes.exchange(&mut request, left(begin, clock.start)).map_err(failed)?;
        group.learn(&pipes.errors);
        match pipes.line(nonce) {
            Some(reply) if reply.started => break reply,
            Some(_) => return Err(unusable("Python's driver spoke out of turn")),
            None if pipes.words.is_none() => return Err(unusable(&pipes.complaint())),
            None if begin.elapsed() >= clock.start => {
                return Err(unusable(&format!("a program did not begin within {} s", clock.start.as_secs())));
            }
            None => {}
        }
    };
    let watched = !started.layers.split(',').any(|layer| layer == "root");
    let begin = Instant::now();
    loop {
        let rest = left(begin, clock.allowed);
        pipes.exchange(&mut request, if watched { rest.min(MEASURE) } else { rest }).map_err(failed)?;
        group.learn(&pipes.errors);
        if let Some(reply) = pipes.line(nonce) {
            return Ok(Ended::Replied(reply));
        }
        if pipes.words.is_none() || watched && written(clock.folder) > clock.total {
            return Ok(Ended::Silent);
        }
        if begin.elapsed() >= clock.allowed {
            return Ok(Ended::Late);
        }
    }
}

fn unusable(why: &str) -> Error {
    Error::Sandbox(format!("a program could not be run ({why}); that is no answer's fault"))
}

fn left(begin: Instant, allowed: Duration) -> Duration {
    allowed.saturating_sub(begin.elapsed())
}

/// Bytes of all files below a folder; beyond any bound where there are too many to be counted.
fn written(folder: &Path) -> u64 {
    let (mut bytes, mut files, mut folders) = (0, 0, vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            files += 1;
            if files > FILES {
                return u64::MAX;
            }
            // Neither follows links.
            match entry.metadata() {
                Ok(about) if about.is_dir() => folders.push(entry.path()),
                Ok(about) => bytes += about.len(),
                Err(_) => {}
            }
        }
    }
    bytes
}

/// The ends of a child's pipes, none of which blocks; a pipe that is done is gone.
struct Pipes {
    input: Option<ChildStdin>,
    words: Option<ChildStdout>,
    complaints: Option<ChildStderr>,
    said: Vec<u8>,
    errors: Vec<u8>,
}

impl Pipes {
    fn of(child: &mut Child) -> std::io::Result<Self> {
        let (input, words, complaints) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        for pipe in [
            input.as_ref().map(AsFd::as_fd),
            words.as_ref().map(AsFd::as_fd),
            complaints.as_ref().map(AsFd::as_fd),
        ]
        .into_iter()
        .flatten()
        {
            fcntl_setfl(pipe, fcntl_getfl(pipe)? | OFlags::NONBLOCK)?;
        }
        Ok(Self { input, words, complaints, said: Vec::new(), errors: Vec::new() })
    }

    /// Waits until something can be read or written, for `rest` at most, and does it.
    fn exchange(&mut self, request: &mut &[u8], rest: Duration) -> std::io::Result<()> {
        let mut polled = Vec::with_capacity(3);
        polled.extend(self.input.as_ref().map(|pipe| PollFd::new(pipe, PollFlags::OUT)));
        polled.extend(self.words.as_ref().map(|pipe| PollFd::new(pipe, PollFlags::IN)));
        polled.extend(self.complaints.as_ref().map(|pipe| PollFd::new(pipe, PollFlags::IN)));
        // Rounded up, or the last millisecond would be spent spinning.
        let milliseconds = i32::try_from(rest.as_millis() + 1).unwrap_or(i32::MAX);
        match poll(&mut polled, milliseconds) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(cause) => return Err(cause.into()),
        }
        if let Some(pipe) = &mut self.input {
            // A child that is gone reads nothing; its silence tells.
            let gone = match pipe.write(request) {
                Ok(count) => {
                    *request = &request[count..];
                    request.is_empty()
                }
                Err(cause) => !matches!(cause.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
            };
            if gone {
                self.input = None;
            }
        }
        drain(&mut self.words, &mut self.said);
        drain(&mut self.complaints, &mut self.errors);
        Ok(())
    }

    /// The next whole line of the driver, if it repeats the nonce; anything else on the pipe does not count.
    fn line(&mut self, nonce: &str) -> Option<Reply> {
        while let Some(end) = self.said.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.said.drain(..=end).collect();
            match serde_json::from_slice::<Reply>(&line) {
                Ok(reply) if reply.nonce == nonce => return Some(reply),
                _ => {}
            }
        }
        None
    }

    /// Why the helper failed, in its own words.
    fn complaint(&self) -> String {
        let text = String::from_utf8_lossy(&self.errors);
        if let Some(why) = text.lines().find_map(|line| line.strip_prefix(FAILED)) {
            return why.trim().chars().take(500).collect();
        }
        let how =
            if text.lines().any(|line| line == READY) { "Python did not begin" } else { "the helper died" };
        how.to_owned()
    }
}

/// Reads what is there; a pipe at its end, in error or with too much to say is let go.
fn drain<P: Read>(pipe: &mut Option<P>, into: &mut Vec<u8>) {
    let Some(open) = pipe else { return };
    let mut buffer = [0; 1 << 14];
    let done = loop {
        match open.read(&mut buffer) {
            Ok(0) => break true,
            Ok(count) if into.len() + count > LONGEST => break true,
            Ok(count) => into.extend_from_slice(&buffer[..count]),
            Err(cause) if cause.kind() == ErrorKind::WouldBlock => break false,
            Err(cause) if cause.kind() == ErrorKind::Interrupted => {}
            Err(_) => break true,
        }
    };
    if done {
        *pipe = None;
    }
}

/// A child, its process group and its namespace, all killed and reaped when dropped.
struct Group {
    child: Child,
    /// The namespace's first process; with it the kernel ends everything inside.
    first: Option<OwnedFd>,
}

impl Group {
    /// Takes hold of the namespace's first process as soon as the helper has named it.
    fn learn(&mut self, errors: &[u8]) {
        if self.first.is_some() {
            return;
        }
        let text = String::from_utf8_lossy(errors);
        let named = text.lines().find_map(|line| line.strip_prefix(FIRST)?.trim().parse().ok());
        self.first = named.and_then(|number| hold(number, self.child.id()));
    }
}

/// A handle of a process that is still the child of `parent`, so that no other process that was given its number is killed.
#[cfg(target_os = "linux")]
fn hold(number: i32, parent: u32) -> Option<OwnedFd> {
    use rustix::process::{PidfdFlags, pidfd_open};
    let handle = pidfd_open(Pid::from_raw(number)?, PidfdFlags::empty()).ok()?;
    let stat = fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
    let found: u32 = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
    (found == parent).then_some(handle)
}

#[cfg(not(target_os = "linux"))]
fn hold(_: i32, _: u32) -> Option<OwnedFd> {
    None
}

impl Drop for Group {
    fn drop(&mut self) {
        #[cfg(target_os = "linux")]
        if let Some(first) = &self.first {
            let _ = rustix::process::pidfd_send_signal(first, Signal::Kill);
            // Readable once it is gone; the kernel may take a moment over a large one.
            let _ = poll(&mut [PollFd::new(first, PollFlags::IN)], 1000);
        }
        if let Some(group) = Pid::from_raw(self.child.id() as i32) {
            let _ = kill_process_group(group, Signal::Kill);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
