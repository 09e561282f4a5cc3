//! Taking rights away from oneself, then becoming the program: the inside of the hidden helper command.
//!
//! Two stages, because a process enters its new process numbering only through a child. The outer stage makes
//! namespaces (users, processes, network, mounts, names, shared memory) and a file tree that holds the system's and
//! Python's files read-only and one small writable folder. The inner stage sets the resource limits, a Landlock rule set
//! and a system-call filter, and becomes Python. Each layer is tried and, where the system refuses it, left out; the
//! layers that hold are named in `DEMASK_SANDBOX`. Limits always hold, else nothing runs.
//!
//! Root is not bound by a limit on processes; the filter forbids new processes to everybody instead. On standard error
//! the helper tells its caller what it does ([`FIRST`], [`READY`], [`FAILED`]); the program gets another one.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use rustix::process::{Resource, Rlimit, setrlimit};
use serde::{Deserialize, Serialize};

use super::Limits;

#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod system;
#[cfg(not(target_os = "linux"))]
#[path = "other.rs"]
mod system;

/// Said of the namespace's first process, with its number.
pub(super) const FIRST: &str = "first ";
/// Said by the inner stage before it becomes Python.
pub(super) const READY: &str = "ready";
/// Said of a failure, with its cause.
pub(super) const FAILED: &str = "failed ";

/// First argument that makes this program the helper.
pub const HELPER: &str = "sandbox-exec";

/// Files of the system that Python and its libraries read, where they exist.
const SYSTEM: [&str; 12] = [
    "/usr",
    "/lib",
    "/lib32",
    "/lib64",
    "/bin",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/mime.types",
    "/dev/null",
    "/dev/zero",
    "/dev/random",
    "/dev/urandom",
];

/// What the helper is told.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) stage: Stage,
    /// Its own folder; empty.
    pub(super) folder: PathBuf,
    pub(super) python: PathBuf,
    /// What else may be read.
    pub(super) readable: Vec<PathBuf>,
    pub(super) limits: Limits,
    /// Layers already in force.
    pub(super) layers: Vec<String>,
    pub(super) arguments: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Stage {
    Outer,
    Inner,
}

impl Order {
    fn readable(&self) -> impl Iterator<Item = PathBuf> {
        SYSTEM.iter().map(PathBuf::from).chain(self.readable.iter().cloned()).filter(|path| path.exists())
    }
}

/// What a program does whose first argument is [`HELPER`] and whose second is the order. Comes back only with a failure
/// or, from the outer stage, with the inner stage's end.
pub fn confine(order: &str) -> ExitCode {
    match serde_json::from_str::<Order>(order).map_err(io::Error::other).and_then(obey) {
        Ok(code) => code,
        Err(cause) => {
            say(io::stderr(), &format!("{FAILED}{cause}"));
            ExitCode::from(125)
        }
    }
}

/// A line for the caller, who may be gone.
fn say(mut to: impl io::Write, line: &str) {
    let _ = to.write_all(format!("{line}\n").as_bytes());
}

fn obey(order: Order) -> io::Result<ExitCode> {
    system::die_with_parent();
    match order.stage {
        Stage::Outer => system::outer(order),
        Stage::Inner => Err(inner(order)),
    }
}

/// Limits, rules, filter, and then Python in this process.
fn inner(mut order: Order) -> io::Error {
    // Closed when this process becomes Python; until then a failure is still heard.
    let caller = match io::stderr().as_fd().try_clone_to_owned() {
        Ok(copy) => std::fs::File::from(copy),
        Err(cause) => return cause,
    };
    let in_a_tree = order.layers.iter().any(|layer| layer == "root");
    if let Err(cause) = limit(&order.limits, in_a_tree) {
        return cause;
    }
    let readable: Vec<PathBuf> = order.readable().collect();
    order.layers.extend(system::restrict(&readable, &order.folder));
    say(&caller, READY);
    // Nothing of the caller's environment comes this far.
    let cause = Command::new(&order.python)
        .args(&order.arguments)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", &order.folder)
        .env("TMPDIR", &order.folder)
        .env("LANG", "C.UTF-8")
        .env("PYTHONHASHSEED", "0")
        .env("PYTHONSAFEPATH", "1")
        .env("DEMASK_SANDBOX", order.layers.join(","))
        .current_dir(&order.folder)
        .stderr(Stdio::null())
        .exec();
    say(&caller, &format!("{FAILED}{} does not start: {cause}", order.python.display()));
    cause
}

fn limit(limits: &Limits, in_a_tree: bool) -> io::Result<()> {
    let set = |resource, value: u64| {
        let limit = Rlimit { current: Some(value), maximum: Some(value) };
        setrlimit(resource, limit).map_err(io::Error::from)
    };
    set(Resource::Core, 0)?;
    set(Resource::Cpu, limits.seconds.max(1))?;
    // A tree's file system bounds the total. Elsewhere the caller measures the folder, and files that are deleted while
    // open, which it cannot see, are bounded by their number and size.
    let file = if in_a_tree { limits.file } else { limits.file.min(limits.total / limits.files.max(1)) };
    set(Resource::Fsize, file)?;
    set(Resource::Nofile, limits.files)?;
    set(Resource::As, limits.memory)?;
    // It counts all processes of the user: one who already runs more could not start threads in Python, no more.
    let _ = set(Resource::Nproc, limits.processes);
    Ok(())
}

/// The order for the inner stage.
#[allow(dead_code, reason = "only systems with an outer stage hand one on")]
fn handed_on(order: &Order) -> io::Result<String> {
    serde_json::to_string(order).map_err(io::Error::other)
}
