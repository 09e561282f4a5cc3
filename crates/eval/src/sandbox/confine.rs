//! Taking rights away from oneself, then becoming the program: the inside of the hidden helper command.
//!
//! Two stages, because a process enters its new process numbering only through a child. The outer stage makes
//! namespaces (users, processes, network, mounts, names, shared memory) and a file tree that holds the system's and
//! Python's files read-only and one small writable folder. The inner stage sets the resource limits, a Landlock rule set
//! and a system-call filter, and becomes Python. Each layer is tried and, where the system refuses it, left out; the
//! layers that hold are named in `DEMASK_SANDBOX`. Limits always hold, else nothing runs.
//!
//! Root is not bound by a limit on processes; the filter forbids new processes to everybody instead.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use rustix::process::{Resource, Rlimit, setrlimit};
use serde::{Deserialize, Serialize};

use super::Limits;

#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod system;
#[cfg(not(target_os = "linux"))]
#[path = "other.rs"]
mod system;

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
            // Standard error is closed to the program, but a user who tries the helper by hand sees this.
            let _ = io::Write::write_all(&mut io::stderr(), format!("sandbox: {cause}\n").as_bytes());
            ExitCode::from(125)
        }
    }
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
    if let Err(cause) = limit(&order.limits) {
        return cause;
    }
    let readable: Vec<PathBuf> = order.readable().collect();
    order.layers.extend(system::restrict(&readable, &order.folder));
    // Nothing of the caller's environment comes this far; white space in paths is nobody's business but Python's.
    Command::new(&order.python)
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
        .exec()
}

fn limit(limits: &Limits) -> io::Result<()> {
    let set = |resource, value: u64| {
        let limit = Rlimit { current: Some(value), maximum: Some(value) };
        setrlimit(resource, limit).map_err(io::Error::from)
    };
    set(Resource::Core, 0)?;
    set(Resource::Cpu, limits.seconds.max(1))?;
    set(Resource::Fsize, limits.file)?;
    set(Resource::Nofile, limits.files)?;
    set(Resource::As, limits.memory)?;
    // A user who already runs more than this could not even start Python's threads; it is refused nothing else.
    let _ = set(Resource::Nproc, limits.processes);
    Ok(())
}

/// The order for the inner stage.
#[allow(dead_code, reason = "only systems with an outer stage hand one on")]
fn handed_on(order: &Order) -> io::Result<String> {
    serde_json::to_string(order).map_err(io::Error::other)
}
