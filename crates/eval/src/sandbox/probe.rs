//! The trial at the start: the sandbox is asked for everything it is said to refuse, and only what it has just refused is
//! promised.
//!
//! Two programs of our own run inside. One attempts each forbidden thing, on marks laid out for it; afterwards the marks
//! are looked at from outside. The other tries to leave its group and outlive its clock.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use serde::Deserialize;
use serde_json::json;

use super::{Ended, START, Sandbox};
use crate::error::{Error, Result};

const PROBE: &str = include_str!("probe.py");
/// A program that does what it can to live on.
const STUBBORN: &str = "import os, time, ctypes\n\
    try: os.setsid()\n\
    except OSError: pass\n\
    ctypes.CDLL(None).prctl(1, 0)\n\
    time.sleep(600)";
/// Time that program is given, and how much longer its end may take.
const BRIEF: Duration = Duration::from_millis(300);
const SLACK: Duration = Duration::from_secs(5);

/// What was refused when it was tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub(super) struct Proved {
    network: bool,
    write: bool,
    read: bool,
    attributes: bool,
    see: bool,
    start: bool,
    others: bool,
    leave: bool,
    memory: bool,
    file: bool,
    time: bool,
}

impl Proved {
    /// What holds and what does not, in plain words.
    pub(super) fn statement(self) -> String {
        let claims = [
            (self.time && self.leave, "time"),
            (self.memory, "memory"),
            (self.file, "what it writes"),
            (self.network, "the network"),
            (self.write, "writing outside its own folder"),
            (self.attributes, "owners, rights and times of files"),
            (self.read, "reading files other than Python's and the system's"),
            (self.see, "seeing which other files there are"),
            (self.start, "starting processes"),
            (self.others, "signals to, limits and priorities of other processes"),
        ];
        let named =
            |wanted: bool| claims.iter().filter(move |(held, _)| *held == wanted).map(|(_, what)| *what);
        let held: Vec<&str> = named(true).collect();
        let open: Vec<&str> = named(false)
            .chain(["faults of the kernel", "a program that sets out to forge its own mark"])
            .collect();
        format!("contained: {}; not contained: {}", held.join(", "), open.join(", "))
    }
}

/// Tries everything.
pub(super) fn run(sandbox: &Sandbox) -> Result<Proved> {
    let outside = tempfile::Builder::new().prefix("demask-outside-").tempdir();
    let outside = outside.map_err(Error::write(std::env::temp_dir()))?;
    let mark = outside.path().join("mark");
    fs::write(&mark, "mark").map_err(Error::write(&mark))?;
    let before = look(outside.path(), &mark)?;
    let listener = TcpListener::bind("127.0.0.1:0").ok();
    let port = listener.as_ref().and_then(|l| l.local_addr().ok()).map_or(1, |address| address.port());
    let marks = json!({
        "folder": outside.path(), "mark": mark, "process": std::process::id(), "port": port,
        "memory": sandbox.limits.memory, "file": sandbox.limits.file,
    });
    // A JSON string of JSON: a literal of Python as well.
    let code = format!("MARKS = {}\n{PROBE}", serde_json::Value::String(marks.to_string()));
    let reply = sandbox.run(json!({ "job": "test", "code": code, "tests": "" }), START)?;
    let text = match reply {
        Ended::Replied(reply) => reply.error.unwrap_or_default(),
        Ended::Silent | Ended::Late => String::new(),
    };
    let told = text.strip_prefix("SystemExit: ").and_then(|told| serde_json::from_str(told).ok());
    let Some(told) = told else {
        return Err(Error::Sandbox(format!("its trial did not finish ({text:?})")));
    };
    let untouched = look(outside.path(), &mark)? == before;
    let proved: Proved = told;
    let time = ends(sandbox)?;
    Ok(Proved {
        write: proved.write && untouched,
        attributes: proved.attributes && untouched,
        time,
        ..proved
    })
}

/// Everything about the marks that an attempt could have changed.
fn look(folder: &Path, mark: &Path) -> Result<(Vec<u8>, Option<SystemTime>, bool, usize)> {
    let bytes = fs::read(mark).map_err(Error::read(mark))?;
    let about = fs::metadata(mark).map_err(Error::read(mark))?;
    let files = fs::read_dir(folder).map_err(Error::read(folder))?.count();
    Ok((bytes, about.modified().ok(), about.permissions().readonly(), files))
}

/// Whether the clock ends a program that resists.
fn ends(sandbox: &Sandbox) -> Result<bool> {
    let start = Instant::now();
    let ended = sandbox.run(json!({ "job": "test", "code": STUBBORN, "tests": "" }), BRIEF)?;
    Ok(matches!(ended, Ended::Late | Ended::Silent) && start.elapsed() < START + BRIEF + SLACK)
}
