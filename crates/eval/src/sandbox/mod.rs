//! Running programs that a model wrote, kept away from everything else.
//!
//! A program runs in a Python process of its own, behind a helper (this program again, called with one hidden
//! argument) that takes away rights before it becomes Python: see [`confine()`]. Around that stands `attend`: a wall
//! clock, a bound on what is read back, and the killing of everything the program started. Code of answers runs only
//! where the user has allowed it; [`Sandbox::statement`] says what a trial at the start has just proved on this machine.
//!
//! Invariants: only a reply that repeats the request's nonce counts, so a program that ends early has not passed; and a
//! program that never began (the helper or Python failed) is an error of the run, never a wrong answer.

mod attend;
mod confine;
mod probe;

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::error::{Error, Result};
use attend::{Clock, Ended, attend};
use probe::Proved;

pub use confine::{HELPER, confine};

/// The program inside.
const DRIVER: &str = include_str!("driver.py");
/// How long the helper and Python may take to begin, on a cold disk and a busy machine.
const START: Duration = Duration::from_secs(120);

/// What a program may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Wall-clock time in seconds, from the moment the program begins; processor time is bounded with it.
    pub seconds: u64,
    /// Address space in bytes.
    pub memory: u64,
    /// Size of a file in bytes; smaller where the total could not be kept otherwise.
    pub file: u64,
    /// Bytes of all files together.
    pub total: u64,
    /// Open files.
    pub files: u64,
    /// Processes and threads, where the system counts them.
    pub processes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { seconds: 10, memory: 1 << 30, file: 16 << 20, total: 64 << 20, files: 64, processes: 16 }
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
    proved: Proved,
    nonce: AtomicU64,
}

impl Sandbox {
    /// Prepares and tries the sandbox. `helper` is a program that calls [`confine()`] when its first argument is
    /// [`HELPER`]; `python` is an interpreter, a path or a name to be looked up.
    pub fn new(helper: &Path, python: &Path, limits: Limits) -> Result<Self> {
        let (python, readable) = interpreter(python)?;
        let seed = std::process::id() as u64;
        let nonce = AtomicU64::new(seed << 32);
        let (helper, layers, proved) = (helper.to_owned(), Vec::new(), Proved::default());
        let mut sandbox = Self { helper, python, readable, limits, layers, proved, nonce };
        let request = json!({ "job": "test", "code": "assert 1 + 1 == 2", "tests": "" });
        match sandbox.run(request, START)? {
            Ended::Replied(reply) if reply.passed => {
                sandbox.layers =
                    reply.layers.split(',').filter(|l| !l.is_empty()).map(str::to_owned).collect();
            }
            Ended::Replied(reply) => {
                let why = reply.error.unwrap_or_default();
                return Err(Error::Sandbox(format!("Python does not work inside it ({why})")));
            }
            Ended::Silent | Ended::Late => {
                return Err(Error::Sandbox("a first program, 1 + 1, did not finish in it".into()));
            }
        }
        sandbox.proved = probe::run(&sandbox)?;
        Ok(sandbox)
    }

    /// Runs a program and then its tests.
    pub fn test(&self, code: &str, tests: &str) -> Result<Outcome> {
        let request = json!({ "job": "test", "code": code, "tests": tests });
        Ok(match self.run(request, self.clock())? {
            Ended::Replied(reply) if reply.passed => Outcome::Passed,
            Ended::Replied(reply) => Outcome::Failed(reply.error.unwrap_or_default()),
            Ended::Silent => Outcome::Died,
            Ended::Late => Outcome::TimedOut,
        })
    }

    /// The imports and definitions of a text that an entry point needs, as Dream's evaluation picks them; nothing where
    /// the text cannot be read within the time of a program. Python itself parses it, inside the sandbox.
    pub fn sanitize(&self, text: &str, entry_point: &str) -> Result<String> {
        let request = json!({ "job": "sanitize", "code": text, "entry_point": entry_point });
        Ok(match self.run(request, self.clock())? {
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

    /// What is contained and what is not, in plain words: what was tried at the start and refused, and the rest.
    pub fn statement(&self) -> String {
        self.proved.statement()
    }

    fn clock(&self) -> Duration {
        Duration::from_secs(self.limits.seconds)
    }

    fn run(&self, mut request: serde_json::Value, allowed: Duration) -> Result<Ended> {
        let nonce = format!("{:016x}", self.nonce.fetch_add(0x9e37_79b9, Ordering::Relaxed));
        request["nonce"] = nonce.clone().into();
        let folder = tempfile::Builder::new().prefix("demask-sandbox-").tempdir();
        let folder = folder.map_err(Error::write(std::env::temp_dir()))?;
        let order = confine::Order {
            stage: confine::Stage::Outer,
            folder: folder.path().to_owned(),
            python: self.python.clone(),
            readable: self.readable.clone(),
            // The wall clock is to decide, so the processor's gets a second more.
            limits: Limits { seconds: allowed.as_secs() + 1, ..self.limits },
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
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|cause| Error::Sandbox(format!("{} does not start ({cause})", self.helper.display())))?;
        let clock = Clock { start: START, allowed, folder: folder.path(), total: self.limits.total };
        attend(child, request.to_string().as_bytes(), &nonce, &clock)
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
