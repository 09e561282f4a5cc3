//! Running programs that a model wrote, kept away from everything else.
//!
//! A program runs in a Python process of its own, behind a helper (this program again, called with one hidden
//! argument) that takes away rights before it becomes Python: see [`confine()`]. Around that stand a wall clock, a
//! bound on what is read back, and the killing of the whole process group. Code of answers runs only where the user
//! has allowed it; [`Sandbox::statement`] says what holds on this machine and what does not.
//!
//! Invariant: only a reply that repeats the request's nonce counts, so a program that ends early has not passed.

mod confine;

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::error::{Error, Result};

pub use confine::{HELPER, confine};

/// The program inside.
const DRIVER: &str = include_str!("driver.py");
/// Bytes of a reply that are read.
const LONGEST_REPLY: u64 = 1 << 20;
/// Seconds the first program may take, which finds Python on a cold disk.
const FIRST: u64 = 120;
/// How often a running program is looked after.
const POLL: Duration = Duration::from_millis(3);

/// What a program may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Wall-clock time in seconds, starting Python included; the processor time is bounded by the same number.
    pub seconds: u64,
    /// Address space in bytes.
    pub memory: u64,
    /// Size of a file in bytes.
    pub file: u64,
    /// Open files.
    pub files: u64,
    /// Processes and threads, where the system counts them.
    pub processes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { seconds: 10, memory: 1 << 30, file: 16 << 20, files: 64, processes: 16 }
    }
}

/// What became of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It ran to its end and every test held.
    Passed,
    /// It raised this.
    Failed(String),
    /// The wall clock ended it.
    TimedOut,
    /// It ended without a word: a limit, a signal, or an early exit.
    Died,
}

impl Outcome {
    /// Whether the tests held.
    pub fn passed(&self) -> bool {
        *self == Self::Passed
    }
}

/// A place to run programs in.
#[derive(Debug)]
pub struct Sandbox {
    helper: PathBuf,
    python: PathBuf,
    readable: Vec<PathBuf>,
    limits: Limits,
    layers: Vec<String>,
    nonce: AtomicU64,
}

#[derive(Debug, Deserialize)]
struct Reply {
    nonce: String,
    #[serde(default)]
    layers: String,
    #[serde(default)]
    passed: bool,
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    text: Option<String>,
}

enum Ended {
    Replied(Reply),
    Silent,
    Late,
}

impl Sandbox {
    /// Prepares and tries the sandbox. `helper` is a program that calls [`confine()`] when its first argument is
    /// [`HELPER`]; `python` is an interpreter, a path or a name to be looked up.
    pub fn new(helper: &Path, python: &Path, limits: Limits) -> Result<Self> {
        let (python, readable) = interpreter(python)?;
        let seed = std::process::id() as u64;
        let nonce = AtomicU64::new(seed << 32);
        let helper = helper.to_owned();
        let mut sandbox = Self { helper, python, readable, limits, layers: Vec::new(), nonce };
        let request = json!({ "job": "test", "code": "assert 1 + 1 == 2", "tests": "" });
        match sandbox.run(request, limits.seconds.max(FIRST))? {
            Ended::Replied(reply) if reply.passed => {
                sandbox.layers =
                    reply.layers.split(',').filter(|l| !l.is_empty()).map(str::to_owned).collect();
                Ok(sandbox)
            }
            Ended::Replied(reply) => Err(Error::Sandbox(format!(
                "Python does not work inside it ({})",
                reply.error.unwrap_or_default()
            ))),
            Ended::Silent | Ended::Late => {
                Err(Error::Sandbox("a first program, 1 + 1, did not come to its end in it".into()))
            }
        }
    }

    /// Runs a program and then its tests.
    pub fn test(&self, code: &str, tests: &str) -> Result<Outcome> {
        let request = json!({ "job": "test", "code": code, "tests": tests });
        Ok(match self.run(request, self.limits.seconds)? {
            Ended::Replied(reply) if reply.passed => Outcome::Passed,
            Ended::Replied(reply) => Outcome::Failed(reply.error.unwrap_or_default()),
            Ended::Silent => Outcome::Died,
            Ended::Late => Outcome::TimedOut,
        })
    }

    /// The imports and definitions of a text that an entry point needs, as Dream's evaluation picks them; nothing where
    /// the text cannot be read. Python itself parses it, inside the sandbox.
    pub fn sanitize(&self, text: &str, entry_point: &str) -> Result<String> {
        let request = json!({ "job": "sanitize", "code": text, "entry_point": entry_point });
        Ok(match self.run(request, self.limits.seconds.max(60))? {
            Ended::Replied(reply) => reply.text.unwrap_or_default(),
            Ended::Silent | Ended::Late => String::new(),
        })
    }

    /// What takes rights away on this machine.
    pub fn layers(&self) -> &[String] {
        &self.layers
    }

    /// Whether one of the layers is in force.
    pub fn has(&self, layer: &str) -> bool {
        self.layers.iter().any(|l| l == layer)
    }

    /// What is contained and what is not, in plain words.
    pub fn statement(&self) -> String {
        let (mut held, mut open) = (Vec::new(), Vec::new());
        let mut judge =
            |holds: bool, what: &'static str| if holds { held.push(what) } else { open.push(what) };
        let (root, landlock, seccomp) = (self.has("root"), self.has("landlock"), self.has("seccomp"));
        judge(true, "time, memory, file sizes and the environment");
        judge(self.has("network") || seccomp, "the network");
        judge(root || landlock, "writing outside its own folder");
        judge(root || landlock, "reading files other than Python's and the system's");
        judge(seccomp, "starting processes");
        judge(self.has("processes") || seccomp, "signals to and memory of other processes");
        open.push("faults of the kernel");
        open.push("a program that sets out to forge its own mark");
        format!("contained: {}; not contained: {}", held.join(", "), open.join(", "))
    }

    fn run(&self, mut request: serde_json::Value, seconds: u64) -> Result<Ended> {
        let nonce = format!("{:016x}", self.nonce.fetch_add(0x9e37_79b9, Ordering::Relaxed));
        request["nonce"] = nonce.clone().into();
        let folder = tempfile::Builder::new().prefix("demask-sandbox-").tempdir();
        let folder = folder.map_err(Error::write(std::env::temp_dir()))?;
        let order = confine::Order {
            stage: confine::Stage::Outer,
            folder: folder.path().to_owned(),
            python: self.python.clone(),
            readable: self.readable.clone(),
            limits: Limits { seconds, ..self.limits },
            layers: Vec::new(),
            arguments: ["-s", "-B", "-c", DRIVER].map(str::to_owned).to_vec(),
        };
        let order = serde_json::to_string(&order).map_err(|cause| Error::Sandbox(cause.to_string()))?;
        let child = Command::new(&self.helper)
            .args([HELPER, &order])
            .env_clear()
            .current_dir(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(|cause| Error::Sandbox(format!("{} does not start ({cause})", self.helper.display())))?;
        let reply = attend(child, request.to_string(), Duration::from_secs(seconds))?;
        Ok(match reply {
            None => Ended::Late,
            Some(bytes) => match serde_json::from_slice::<Reply>(&bytes) {
                Ok(reply) if reply.nonce == nonce => Ended::Replied(reply),
                _ => Ended::Silent,
            },
        })
    }
}

/// Hands a child its request and waits for its end or for the clock, whichever comes first; afterwards nothing of its
/// group lives. `None` is the clock.
fn attend(child: Child, request: String, allowed: Duration) -> Result<Option<Vec<u8>>> {
    let mut group = Group(child);
    let (input, output) = (group.0.stdin.take(), group.0.stdout.take());
    let writer = thread::spawn(move || {
        // A child that is gone reads nothing; its silence tells.
        input.map(|mut pipe| pipe.write_all(request.as_bytes()))
    });
    let reader = thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = output.map(|pipe| pipe.take(LONGEST_REPLY).read_to_end(&mut bytes));
        bytes
    });
    let start = Instant::now();
    let in_time = loop {
        let ended = group.0.try_wait().map_err(|cause| Error::Sandbox(cause.to_string()))?.is_some();
        // A reader that has enough has let go of the pipe, and the child may wait on it for ever.
        if ended || start.elapsed() >= allowed {
            break ended;
        }
        thread::sleep(POLL);
    };
    drop(group);
    let _ = writer.join();
    let bytes = reader.join().unwrap_or_default();
    Ok(in_time.then_some(bytes))
}

/// A child and its process group, killed and reaped when dropped.
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = Pid::from_raw(self.0.id() as i32) {
            let _ = kill_process_group(group, Signal::Kill);
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The interpreter's own file and the folders it reads from.
fn interpreter(python: &Path) -> Result<(PathBuf, Vec<PathBuf>)> {
    const WHERE: &str = "import sys, sysconfig\n\
        print(sys.executable)\n\
        paths = {sys.prefix, sys.base_prefix, sys.exec_prefix, sysconfig.get_path('stdlib'), *sys.path}\n\
        print('\\n'.join(sorted(p for p in paths if p)))";
    let output = Command::new(python).args(["-I", "-c", WHERE]).stdin(Stdio::null()).output();
    let output =
        output.map_err(|cause| Error::Sandbox(format!("{} does not start ({cause})", python.display())))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut lines = text.lines().map(PathBuf::from);
    match lines.next() {
        Some(executable) if output.status.success() => {
            let mut readable: Vec<PathBuf> =
                lines.filter(|path| path.is_absolute() && path.exists()).collect();
            // In a virtual environment the interpreter is a link.
            readable.extend([executable.clone(), executable.canonicalize().unwrap_or(executable.clone())]);
            Ok((executable, readable))
        }
        _ => Err(Error::Sandbox(format!("{} is not a Python 3 interpreter", python.display()))),
    }
}
