//! Counters of the server, written in Prometheus' text form.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use demask_decode::Totals;

/// Everything that is counted.
#[derive(Default)]
pub(crate) struct Metrics(Mutex<Numbers>);

#[derive(Default)]
struct Numbers {
    requests: BTreeMap<(&'static str, u16), u64>,
    rejections: BTreeMap<&'static str, u64>,
    request_seconds: f64,
    active: usize,
    abandoned: usize,
    batches: u64,
    shared_rows: usize,
    prefix_bytes: usize,
    work: Totals,
    tokens: usize,
    tokens_forwards: usize,
}

impl Metrics {
    /// A request was answered.
    pub(crate) fn answered(&self, route: &'static str, status: u16, seconds: f64) {
        let mut numbers = self.lock();
        *numbers.requests.entry((route, status)).or_default() += 1;
        numbers.request_seconds += seconds;
        let reason = match status {
            401 => "unauthorized",
            413 => "too_large",
            429 => "queue_full",
            503 => "stopping",
            400..=499 => "invalid",
            _ => return,
        };
        *numbers.rejections.entry(reason).or_default() += 1;
    }

    /// Canvases in the batch now.
    pub(crate) fn set_active(&self, canvases: usize) {
        self.lock().active = canvases;
    }

    /// Canvases whose client went away.
    pub(crate) fn abandoned(&self, canvases: usize) {
        self.lock().abandoned += canvases;
    }

    /// Rows of a canvas that were there before it.
    pub(crate) fn shared(&self, rows: usize) {
        self.lock().shared_rows += rows;
    }

    /// Bytes of finished blocks that are kept.
    pub(crate) fn set_prefixes(&self, bytes: usize) {
        self.lock().prefix_bytes = bytes;
    }

    /// A step of the batch: each canvas's totals after and before.
    pub(crate) fn stepped(&self, canvases: impl Iterator<Item = (Totals, Totals)>) {
        let mut numbers = self.lock();
        numbers.batches += 1;
        for (after, before) in canvases {
            let work = &mut numbers.work;
            // A step that masks more than it writes has less committed after it; what was counted stays counted.
            work.steps += after.steps.saturating_sub(before.steps);
            work.forwards += after.forwards.saturating_sub(before.forwards);
            work.assistant_rows += after.assistant_rows.saturating_sub(before.assistant_rows);
            work.inner_calls += after.inner_calls.saturating_sub(before.inner_calls);
            work.committed += after.committed.saturating_sub(before.committed);
            work.seconds.forward += (after.seconds.forward - before.seconds.forward).max(0.0);
            work.seconds.marginals += (after.seconds.marginals - before.seconds.marginals).max(0.0);
            work.seconds.select += (after.seconds.select - before.seconds.select).max(0.0);
            work.seconds.extra += (after.seconds.extra - before.seconds.extra).max(0.0);
        }
    }

    /// A canvas is done: tokens before the end of its text, and the passes they took.
    pub(crate) fn finished(&self, tokens: usize, forwards: usize) {
        let mut numbers = self.lock();
        numbers.tokens += tokens;
        numbers.tokens_forwards += forwards;
    }

    /// A number that changes whenever something was done.
    pub(crate) fn work(&self) -> u64 {
        let numbers = self.lock();
        numbers.batches + numbers.requests.values().sum::<u64>()
    }

    /// Whether canvases are decoded now.
    pub(crate) fn is_active(&self) -> bool {
        self.lock().active > 0
    }

    /// The text of `/metrics`.
    pub(crate) fn render(&self, waiting: usize) -> String {
        let numbers = self.lock();
        let mut page = Page::default();
        page.head("demask_requests_total", "counter", "Requests answered.");
        for ((route, status), count) in &numbers.requests {
            page.line(&format!("demask_requests_total{{route=\"{route}\",status=\"{status}\"}}"), count);
        }
        page.head("demask_rejections_total", "counter", "Requests refused.");
        for (reason, count) in &numbers.rejections {
            page.line(&format!("demask_rejections_total{{reason=\"{reason}\"}}"), count);
        }
        let work = &numbers.work;
        page.one(
            "demask_request_seconds_total",
            "counter",
            "Seconds until the head of the answer.",
            numbers.request_seconds,
        );
        page.one("demask_queue_length", "gauge", "Canvases that wait.", waiting);
        page.one("demask_active_canvases", "gauge", "Canvases in the batch.", numbers.active);
        page.one("demask_abandoned_total", "counter", "Canvases whose client went away.", numbers.abandoned);
        page.one("demask_batches_total", "counter", "Steps of the whole batch.", numbers.batches);
        page.one(
            "demask_shared_rows_total",
            "counter",
            "Rows of prompts whose keys and values were there from an earlier request.",
            numbers.shared_rows,
        );
        page.one(
            "demask_prefix_bytes",
            "gauge",
            "Memory of finished blocks kept for later requests.",
            numbers.prefix_bytes,
        );
        page.one("demask_steps_total", "counter", "Steps, summed over canvases.", work.steps);
        page.one("demask_forwards_total", "counter", "Forward passes, summed over canvases.", work.forwards);
        page.one(
            "demask_assistant_rows_total",
            "counter",
            "Rows computed by an assistant.",
            work.assistant_rows,
        );
        page.one(
            "demask_inner_calls_total",
            "counter",
            "Calls of a small trained part (layer, policy, prior), besides whole passes.",
            work.inner_calls,
        );
        page.one("demask_commits_total", "counter", "Places that steps have written.", work.committed);
        page.one(
            "demask_tokens_total",
            "counter",
            "Tokens before the end of the text, of canvases that are done.",
            numbers.tokens,
        );
        page.one(
            "demask_tokens_per_forward",
            "gauge",
            "Tokens before the end of the text per forward pass, of canvases that are done.",
            numbers.tokens as f64 / numbers.tokens_forwards.max(1) as f64,
        );
        page.head("demask_seconds_total", "counter", "Seconds of decoding by phase.");
        let seconds = work.seconds;
        for (phase, value) in
            [("forward", seconds.forward), ("marginals", seconds.marginals), ("select", seconds.select)]
        {
            page.line(&format!("demask_seconds_total{{phase=\"{phase}\"}}"), value);
        }
        page.0
    }

    fn lock(&self) -> MutexGuard<'_, Numbers> {
        // Counters stay usable whatever happened to the thread that held them.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Default)]
struct Page(String);

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn line(&mut self, series: &str, value: impl std::fmt::Display) {
        let _ = writeln!(self.0, "{series} {value}");
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: impl std::fmt::Display) {
        self.head(name, kind, help);
        self.line(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_never_fall() {
        let metrics = Metrics::default();
        let totals = |steps, committed| Totals { steps, committed, ..Totals::default() };
        metrics.stepped([(totals(1, 5), totals(0, 0))].into_iter());
        // Three tokens were masked again.
        metrics.stepped([(totals(2, 2), totals(1, 5))].into_iter());
        let page = metrics.render(0);
        assert!(
            page.contains("\ndemask_commits_total 5\n") && page.contains("\ndemask_steps_total 2\n"),
            "{page}"
        );
    }
}
