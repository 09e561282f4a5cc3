//! What a step costs and who bears it: a batch's forward pass is shared out by rows, its common logits by predictions,
//! and what canvases do side by side counts for as much as it delayed the whole.
//!
//! Invariant: the seconds of all canvases of a batch add up to about the time that passed.

use std::time::Instant;

use crate::trace::Seconds;

/// Time since a moment.
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}

/// What a step of one canvas has cost so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StepCost {
    /// Seconds by phase.
    pub(crate) seconds: Seconds,
    /// Forward passes.
    pub(crate) forwards: usize,
    /// Rows of a second model.
    pub(crate) assistant_rows: usize,
    /// Canvases that are read and selected at the same time.
    beside: f64,
}

impl StepCost {
    /// After the forward pass: the canvas's share of its time and of that of common logits.
    pub(crate) fn new(forward: f64, logits: f64, forwards: usize, beside: f64) -> Self {
        let seconds = Seconds { forward, marginals: logits, ..Seconds::default() };
        Self { seconds, forwards, beside, assistant_rows: 0 }
    }

    /// Adds the reading of marginals.
    pub(crate) fn marginals(&mut self, watch: Stopwatch) {
        self.seconds.marginals += watch.seconds() / self.beside;
    }

    /// Adds the selection and the passes it asked for.
    pub(crate) fn select(&mut self, watch: Stopwatch, forwards: usize) {
        self.seconds.select += watch.seconds() / self.beside;
        self.forwards += forwards;
    }
}

impl StepCost {
    /// The part of the selection's time that a trained part took.
    pub(crate) fn inner(&mut self, seconds: f64) {
        let seconds = (seconds / self.beside).min(self.seconds.select);
        self.seconds.select -= seconds;
        self.seconds.extra += seconds;
    }

    /// Adds a share of an assistant's pass.
    pub(crate) fn assistant(&mut self, seconds: f64, rows: usize) {
        self.seconds.extra += seconds;
        self.assistant_rows += rows;
    }
}

/// Seconds of one group, when `beside` groups are computed at the same time, for each part of a whole.
pub(crate) fn shared(watch: Stopwatch, beside: usize, whole: usize) -> impl Fn(usize) -> f64 {
    let seconds = watch.seconds() / beside as f64;
    move |part| seconds * part as f64 / whole.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up_to_the_whole() {
        // One watch runs within the other, however long this thread has to wait between them.
        let (outer, inner) = (Stopwatch::start(), Stopwatch::start());
        std::thread::sleep(std::time::Duration::from_millis(4));
        let (before, share, after) = (inner.seconds(), shared(inner, 2, 10), outer.seconds());
        let sum: f64 = [1, 2, 7].into_iter().map(&share).sum();
        let close = |a: f64, b: f64| a <= b * (1.0 + 1e-9);
        assert!(close(before / 2.0, sum) && close(sum, after / 2.0), "{sum} of {before} to {after}");
        assert_eq!(shared(Stopwatch::start(), 1, 0)(0), 0.0);
    }
}
