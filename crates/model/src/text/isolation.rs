//! A process of its own for the templates of strangers' files.
//!
//! A template can ask for any amount of memory with one operator, and nothing inside its interpreter says no in time.
//! So templates that come with a checkpoint are rendered by a worker: this program again, which limits its own memory
//! and ends itself when a rendering takes too long. It answers one line of JSON with another and lives as long as the
//! template it was started for. Invariant: whatever a template does, its user gets a text or a sentence.
//!
//! A program that has not said where its worker is ([`isolate_templates`]) renders in its own process, with the bounds
//! of [`super::jinja`] alone.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::jinja::{LONGEST, Renderer};

/// Seconds a rendering may take.
const SECONDS: u64 = 5;
/// Bytes of memory the worker may have.
const MEMORY: u64 = 1 << 30;
/// Stack of the thread that renders.
const STACK: usize = 64 << 20;
/// How the worker ends when a rendering takes too long.
const LATE: u8 = 124;

static WORKER: OnceLock<(PathBuf, Vec<String>)> = OnceLock::new();

/// Says which program, called with which arguments, is the worker: one that then calls [`template_worker`].
pub fn isolate_templates(program: PathBuf, arguments: Vec<String>) {
    let _ = WORKER.set((program, arguments));
}

/// What the worker is told first.
#[derive(Serialize, Deserialize)]
struct Order {
    templates: Vec<(String, String)>,
}

/// What it is asked then.
#[derive(Serialize, Deserialize)]
struct Request<T> {
    name: String,
    variables: T,
}

/// What it answers.
#[derive(Serialize, Deserialize)]
enum Answer {
    Text(String),
    /// The end of a sentence.
    Problem(String),
}

/// The worker of a template, started when it is first needed.
pub(super) struct Worker {
    program: PathBuf,
    arguments: Vec<String>,
    order: String,
    running: Mutex<Option<Running>>,
}

struct Running {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Worker {
    /// A worker for these templates, if the program has one.
    pub(super) fn of(templates: &[(&str, &str)]) -> Option<Self> {
        let (program, arguments) = WORKER.get()?;
        let own = |&(name, source): &(&str, &str)| (name.to_owned(), source.to_owned());
        let order = Order { templates: templates.iter().map(own).collect() };
        let order = serde_json::to_string(&order).ok()?;
        let (program, arguments) = (program.clone(), arguments.clone());
        Some(Self { program, arguments, order, running: Mutex::new(None) })
    }

    /// The text of a template, or what it did as the end of a sentence.
    pub(super) fn render(&self, name: &str, variables: &Value) -> Result<String, String> {
        let broken = |cause: &dyn std::fmt::Display| format!("could not be run ({cause})");
        let request = Request { name: name.to_owned(), variables };
        let request = serde_json::to_string(&request).map_err(|cause| broken(&cause))?;
        let mut place = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = place.is_none();
        let mut running = match place.take() {
            Some(running) => running,
            None => self.start().map_err(|cause| broken(&cause))?,
        };
        let mut answer = running.ask(&request);
        if !fresh && matches!(answer, Ok(None)) && running.was_killed() {
            // Somebody else ended it; a rendering that ends it does so again.
            running = self.start().map_err(|cause| broken(&cause))?;
            answer = running.ask(&request);
        }
        match answer {
            Ok(Some(Answer::Text(text))) => {
                *place = Some(running);
                Ok(text)
            }
            Ok(Some(Answer::Problem(problem))) => {
                *place = Some(running);
                Err(problem)
            }
            Ok(None) => Err(running.ending()),
            Err(cause) => Err(broken(&cause)),
        }
    }

    fn start(&self) -> io::Result<Running> {
        let mut child = Command::new(&self.program)
            .args(&self.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("it has no pipes"));
        };
        // One that ends at once is noticed when it is asked.
        let _ = writeln!(input, "{}", self.order);
        Ok(Running { child, input, output: BufReader::new(output) })
    }
}

impl Running {
    /// The answer; none if the worker is gone.
    fn ask(&mut self, request: &str) -> io::Result<Option<Answer>> {
        if writeln!(self.input, "{request}").and_then(|()| self.input.flush()).is_err() {
            return Ok(None);
        }
        let mut line = Vec::new();
        // Escapes can make a text six times as long.
        (&mut self.output).take(7 * LONGEST as u64).read_until(b'\n', &mut line)?;
        Ok(serde_json::from_slice(&line).ok())
    }

    fn was_killed(&mut self) -> bool {
        use std::os::unix::process::ExitStatusExt;
        matches!(self.child.wait(), Ok(status) if matches!(status.signal(), Some(9 | 15)))
    }

    /// Why the worker ended, as the end of a sentence.
    fn ending(mut self) -> String {
        match self.child.wait() {
            Ok(status) if status.code() == Some(i32::from(LATE)) => {
                format!("does not end: it was stopped after {SECONDS} seconds")
            }
            Ok(_) => format!(
                "needs too much: it was stopped at {} MiB of memory, or nested too deeply",
                MEMORY >> 20
            ),
            Err(cause) => format!("could not be run ({cause})"),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the worker does: limits itself, and answers until nobody asks.
pub fn template_worker() -> ExitCode {
    if limit().is_err() {
        return ExitCode::FAILURE;
    }
    let (mut input, mut output) = (io::stdin().lock(), io::stdout());
    let mut line = String::new();
    if !matches!(input.read_line(&mut line), Ok(1..)) {
        return ExitCode::FAILURE;
    }
    let Ok(order) = serde_json::from_str::<Order>(&line) else { return ExitCode::FAILURE };
    watch();
    let work = move || {
        let templates: Vec<(&str, &str)> =
            order.templates.iter().map(|(name, source)| (name.as_str(), source.as_str())).collect();
        let renderer = during(|| Renderer::compile(&templates));
        loop {
            let mut line = String::new();
            if !matches!(input_line(&mut line), Ok(1..)) {
                return ExitCode::SUCCESS;
            }
            let answer = during(|| answer(&renderer, &line));
            if writeln!(output, "{answer}").and_then(|()| output.flush()).is_err() {
                return ExitCode::SUCCESS;
            }
        }
    };
    drop(input);
    match thread::Builder::new().stack_size(STACK).spawn(work).map(thread::JoinHandle::join) {
        Ok(Ok(code)) => code,
        _ => ExitCode::FAILURE,
    }
}

fn input_line(line: &mut String) -> io::Result<usize> {
    io::stdin().lock().read_line(line)
}

fn answer(renderer: &Result<Renderer, String>, line: &str) -> String {
    let rendered = match (serde_json::from_str::<Request<Value>>(line), renderer) {
        (Err(cause), _) => Err(format!("could not be run ({cause})")),
        (_, Err(problem)) => Err(problem.clone()),
        (Ok(request), Ok(renderer)) => renderer.render(&request.name, &request.variables),
    };
    let answer = rendered.map_or_else(Answer::Problem, Answer::Text);
    serde_json::to_string(&answer).unwrap_or_default()
}

#[cfg(unix)]
fn limit() -> io::Result<()> {
    use rustix::process::{Resource, Rlimit, setrlimit};
    for (resource, value) in [(Resource::As, MEMORY), (Resource::Core, 0)] {
        setrlimit(resource, Rlimit { current: Some(value), maximum: Some(value) })?;
    }
    Ok(())
}

/// When the work at hand began, in milliseconds since [`EPOCH`], plus one; 0 while there is none.
static BEGAN: AtomicU64 = AtomicU64::new(0);
static EPOCH: OnceLock<Instant> = OnceLock::new();

fn now() -> u64 {
    EPOCH.get_or_init(Instant::now).elapsed().as_millis() as u64 + 1
}

fn during<T>(work: impl FnOnce() -> T) -> T {
    BEGAN.store(now(), Ordering::Relaxed);
    let outcome = work();
    BEGAN.store(0, Ordering::Relaxed);
    outcome
}

/// Ends the process when work takes too long.
fn watch() {
    thread::spawn(|| {
        loop {
            thread::sleep(Duration::from_millis(50));
            let began = BEGAN.load(Ordering::Relaxed);
            if began > 0 && now().saturating_sub(began) > SECONDS * 1000 {
                std::process::exit(LATE.into());
            }
        }
    });
}
