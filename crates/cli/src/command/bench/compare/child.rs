//! A program run to its end: what it said, how long it took and how much memory it had at most.

use std::io::Read;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

/// How often a program's memory is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// What came of a program.
#[derive(Debug)]
pub(super) struct Finished {
    /// Seconds from start to end.
    pub(super) seconds: f64,
    /// The most memory it had resident in bytes, mapped files included; nothing where the system does not tell.
    pub(super) peak: Option<f64>,
    pub(super) out: String,
    pub(super) err: String,
}

/// Runs a program; one that fails is an error with its last words.
pub(super) fn run(command: &mut Command) -> Result<Finished> {
    let name = command.get_program().to_string_lossy().into_owned();
    let start = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {name}"))?;
    let (out, err) = (reader(child.stdout.take()), reader(child.stderr.take()));
    let status = format!("/proc/{}/status", child.id());
    let mut peak = None;
    let ended = loop {
        // The high-water mark only rises, so the last look has the largest.
        peak = std::fs::read_to_string(&status).ok().and_then(|text| high_water(&text)).or(peak);
        match child.try_wait().with_context(|| format!("cannot wait for {name}"))? {
            Some(ended) => break ended,
            None => thread::sleep(LOOK),
        }
    };
    let seconds = start.elapsed().as_secs_f64();
    let text = |reader: thread::JoinHandle<String>| reader.join().unwrap_or_default();
    let (out, err) = (text(out), text(err));
    if !ended.success() {
        let said = err.lines().chain(out.lines()).rfind(|line| !line.trim().is_empty());
        bail!("{name} failed ({ended}): {}", said.unwrap_or("it said nothing"));
    }
    Ok(Finished { seconds, peak, out, err })
}

fn reader(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // What could be read is what it said.
        let _ = pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Bytes of the line `VmHWM:   1234 kB`.
fn high_water(status: &str) -> Option<f64> {
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<f64>().ok()? * 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_says_and_takes() {
        let mut shell = Command::new("sh");
        let done = run(shell.args(["-c", "echo word; echo other >&2; sleep 0.1"])).unwrap();
        assert_eq!((done.out.trim(), done.err.trim()), ("word", "other"));
        assert!(done.seconds >= 0.1);
        let failed = run(Command::new("sh").args(["-c", "echo why >&2; exit 3"])).unwrap_err();
        assert!(failed.to_string().contains("why"), "{failed}");
        assert!(run(&mut Command::new("no-such-program-here")).is_err());
    }

    #[test]
    fn memory_is_read_in_bytes() {
        assert_eq!(high_water("Name:\tx\nVmHWM:\t  12 kB\nVmRSS:\t 3 kB\n"), Some(12288.0));
        assert_eq!(high_water("Name:\tx\n"), None);
    }
}
