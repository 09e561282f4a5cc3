//! Timing on a machine that may be busy: wall clock, CPU time and alternating runs.
//!
//! CPU time (of all threads, divided by their number) is what the work would take with the machine to itself, as far as
//! caches and memory are not fought over; it is counted in hundredths of a second, so short work is repeated.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::{Value, json};

/// Work shorter than this is repeated within one timing.
const SHORTEST: Duration = Duration::from_millis(200);

/// Seconds of one run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Time {
    /// By the clock.
    pub(crate) wall: f64,
    /// Of CPU, per thread of the pool; the wall time where the system does not tell.
    pub(crate) cpu: f64,
}

/// Times `body`, several times over if it is short.
pub(crate) fn time(mut body: impl FnMut() -> Result<()>) -> Result<Time> {
    let (start, before) = (Instant::now(), cpu_seconds());
    let mut count = 0.0;
    while count == 0.0 || start.elapsed() < SHORTEST {
        body()?;
        count += 1.0;
    }
    let wall = start.elapsed().as_secs_f64();
    let threads = rayon::current_num_threads() as f64;
    let cpu = before.zip(cpu_seconds()).map(|(before, after)| (after - before) / threads);
    // Below some ticks of the clock the wall says more.
    let cpu = cpu.filter(|&cpu| cpu > 0.05).map_or(wall, |cpu| cpu.min(wall));
    Ok(Time { wall: wall / count, cpu: cpu / count })
}

/// CPU seconds of this process, user and system, all threads.
fn cpu_seconds() -> Option<f64> {
    const TICKS: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is the program's name in parentheses and may hold spaces.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |index: usize| fields.get(index)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / TICKS)
}

/// Timings of one candidate.
#[derive(Debug, Clone, Default)]
pub(crate) struct Samples(pub(crate) Vec<Time>);

impl Samples {
    /// Wall-clock seconds.
    pub(crate) fn wall(&self) -> Spread {
        Spread::of(self.0.iter().map(|t| t.wall))
    }

    /// CPU seconds per thread.
    pub(crate) fn cpu(&self) -> Spread {
        Spread::of(self.0.iter().map(|t| t.cpu))
    }
}

/// Median and quartiles.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Spread {
    /// Of some values; NaN of none.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let place = share * values.len().saturating_sub(1) as f64;
            let (low, high) = (place.floor() as usize, place.ceil() as usize);
            match (values.get(low), values.get(high)) {
                (Some(a), Some(b)) => a + (b - a) * place.fract(),
                _ => f64::NAN,
            }
        };
        Self { median: at(0.5), low: at(0.25), high: at(0.75) }
    }

    /// Each of the three divided into `amount`: seconds become a rate.
    pub(crate) fn rate(self, amount: f64) -> Self {
        Self { median: amount / self.median, low: amount / self.high, high: amount / self.low }
    }

    /// Each of the three times `factor`.
    pub(crate) fn times(self, factor: f64) -> Self {
        Self { median: self.median * factor, low: self.low * factor, high: self.high * factor }
    }

    /// As JSON.
    pub(crate) fn json(self) -> Value {
        json!({ "median": self.median, "low": self.low, "high": self.high })
    }
}

/// Runs every candidate once per round, every other round backwards, after a round that is not counted.
pub(crate) fn alternate(
    rounds: u16,
    candidates: usize,
    mut run: impl FnMut(usize) -> Result<()>,
) -> Result<Vec<Samples>> {
    let mut samples = vec![Samples::default(); candidates];
    (0..candidates).try_for_each(&mut run)?;
    for round in 0..rounds {
        for place in 0..candidates {
            let index = if round % 2 == 0 { place } else { candidates - 1 - place };
            samples[index].0.push(time(|| run(index))?);
        }
    }
    Ok(samples)
}

/// The median and quartiles of the round-by-round ratio of two candidates' wall times.
pub(crate) fn ratio(a: &Samples, b: &Samples) -> Spread {
    Spread::of(a.0.iter().zip(&b.0).map(|(a, b)| a.wall / b.wall))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_and_rates() {
        let spread = Spread::of([4.0, 1.0, 2.0, 3.0, 5.0]);
        assert_eq!(spread, Spread { median: 3.0, low: 2.0, high: 4.0 });
        assert_eq!(spread.rate(12.0), Spread { median: 4.0, low: 3.0, high: 6.0 });
        assert_eq!(Spread::of([1.0, 2.0]).median, 1.5);
    }

    #[test]
    fn every_candidate_runs_in_every_round() {
        let mut order = Vec::new();
        let samples = alternate(2, 2, |index| {
            order.push(index);
            std::thread::sleep(SHORTEST);
            Ok(())
        })
        .unwrap();
        assert_eq!(order, [0, 1, 0, 1, 1, 0]);
        assert!(samples.iter().all(|s| s.0.len() == 2 && s.wall().median >= SHORTEST.as_secs_f64()));
    }
}
