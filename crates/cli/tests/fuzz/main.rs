//! Mutated files, settings and requests against every reader of the engine: an error is fine, anything else is not.
//!
//! A run is a function of its seed. `cargo test` tries a few hundred inputs of each kind; `scripts/fuzz.sh` tries them
//! for as long as one likes, with `FUZZ_EXECUTIONS` (inputs of each kind) or `FUZZ_SECONDS` (time for each kind) and
//! `FUZZ_SEED`. An input is written to the folder `FUZZ_FOLDER` before it is tried, so one that ends the process is
//! found there.

#[path = "../support/mod.rs"]
mod support;

mod mutate;
mod seeds;
mod targets;

use std::fs;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mutate::{Rng, mutate};

/// Inputs of each kind in an ordinary test run.
const EXECUTIONS: u64 = 300;
/// What one input may take, and the process.
const LONGEST: Duration = Duration::from_secs(10);
const MEMORY: u64 = 1 << 30;

/// Panics so far.
static PANICS: AtomicU64 = AtomicU64::new(0);

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Where inputs go before they are tried.
fn folder() -> PathBuf {
    let folder = std::env::var_os("FUZZ_FOLDER").map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = folder.join(format!("demask-fuzz-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or("VmHWM: 0 kB");
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

/// Tries mutations of the seeds on a reader, which says whether it took the input.
fn fuzz(name: &str, seeds: &[Vec<u8>], mut read: impl FnMut(&[u8]) -> bool) {
    static WATCH: Once = Once::new();
    // Also panics of other threads, and those that somebody catches outside the doors meant for them.
    WATCH.call_once(|| {
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |about| {
            PANICS.fetch_add(1, Ordering::SeqCst);
            others(about);
        }));
    });
    assert!(seeds.iter().all(|seed| read(seed)), "{name}: a seed is refused");
    let (time, most) = match number("FUZZ_SECONDS") {
        Some(seconds) => (Duration::from_secs(seconds), u64::MAX),
        None => (Duration::MAX, number("FUZZ_EXECUTIONS").unwrap_or(EXECUTIONS)),
    };
    let (seed, last) = (number("FUZZ_SEED").unwrap_or(1), folder().join(name));
    let (start, mut taken, mut slowest, mut done) = (Instant::now(), 0_u64, Duration::ZERO, 0);
    while done < most && start.elapsed() < time {
        let mut rng = Rng::new(seed, name, done);
        let input = mutate(&mut rng, seeds);
        fs::write(&last, &input).unwrap();
        let begin = Instant::now();
        let before = PANICS.load(Ordering::SeqCst);
        let outcome = catch_unwind(AssertUnwindSafe(|| read(&input)));
        let outcome = outcome.ok().filter(|_| PANICS.load(Ordering::SeqCst) == before);
        let took = begin.elapsed();
        slowest = slowest.max(took);
        match outcome {
            Some(ok) => taken += u64::from(ok),
            None => panic!("{name}: input {done} of seed {seed} makes it panic; it is in {}", last.display()),
        }
        assert!(
            took < LONGEST,
            "{name}: input {done} of seed {seed} took {took:?}; it is in {}",
            last.display()
        );
        done += 1;
    }
    let _ = fs::remove_file(&last);
    let peak = peak();
    eprintln!(
        "{name}: {done} executions in {:.1} s, {taken} accepted, slowest {:.3} s, peak {} MiB",
        start.elapsed().as_secs_f64(),
        slowest.as_secs_f64(),
        peak >> 20
    );
    assert!(peak < MEMORY, "{name}: the process took {peak} bytes");
}
