//! What a run tells while it goes on.

use std::ops::ControlFlow;
use std::time::Duration;

/// Watches a run.
pub trait Observer {
    /// After every batch of examples, and once before the first. To break is to stop; finished files stay.
    fn on_progress(&mut self, progress: &TvCacheProgress) -> ControlFlow<()>;
}

/// Watches nothing.
impl Observer for () {
    fn on_progress(&mut self, _: &TvCacheProgress) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// How far a run is. Counts are of this shard and include what earlier runs finished.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct TvCacheProgress {
    /// Parquet files finished.
    pub files: usize,
    /// Parquet files in all.
    pub all_files: usize,
    /// Responses done.
    pub responses: usize,
    /// Responses in all.
    pub all_responses: usize,
    /// Responses that this process did.
    pub fresh: usize,
    /// Examples measured by this process.
    pub examples: usize,
    /// Tokens that went through the backbone in this process.
    pub tokens: u64,
    /// Rows that could not be used, in the files this process made.
    pub refused: usize,
    /// Seconds since this process began.
    pub seconds: f64,
}

impl TvCacheProgress {
    /// Examples per second of this process.
    pub fn examples_per_second(&self) -> f64 {
        self.examples as f64 / self.seconds.max(1e-9)
    }

    /// Backbone tokens per second of this process.
    pub fn tokens_per_second(&self) -> f64 {
        self.tokens as f64 / self.seconds.max(1e-9)
    }

    /// Time left at the speed of this process, once there is one.
    pub fn left(&self) -> Option<Duration> {
        if self.fresh == 0 {
            return None;
        }
        let left = (self.all_responses - self.responses) as f64 * self.seconds / self.fresh as f64;
        Some(Duration::from_secs_f64(left.min(1e9)))
    }
}
