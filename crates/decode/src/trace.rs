//! The record of a step: one serde struct that the trace file, the server's stream, the page and
//! the plots all read. A trace file is JSON lines: a [`TraceHeader`], then one [`StepRecord`] per line.

use std::io::Write;
use std::ops::{AddAssign, ControlFlow};

use serde::{Deserialize, Serialize};

use crate::cache::CacheSpec;
use crate::canvas::Canvas;
use crate::dependency::Understanding;
use crate::observer::Observer;
use crate::replay::Replay;
use crate::strategy::{Budget, Stop};

/// First line of a trace file.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub struct TraceHeader {
    /// Format version.
    pub demask_trace: u32,
    /// The strategy's spelling.
    pub strategy: String,
    /// The cache's spelling.
    #[serde(default)]
    pub cache: CacheSpec,
    /// The canvas before the first step.
    pub tokens: Vec<u32>,
    /// First and one past the last position of the response.
    pub response: (usize, usize),
    /// The mask id.
    pub mask: u32,
    /// Seed of the request.
    pub seed: u64,
    /// What was made of the dependency predictor's file, where the model has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predictor: Option<String>,
}

impl TraceHeader {
    /// Of a canvas that no step has touched.
    pub fn new(canvas: &Canvas, strategy: impl ToString, cache: &CacheSpec, seed: u64) -> Self {
        let response = canvas.response();
        Self {
            demask_trace: 1,
            strategy: strategy.to_string(),
            cache: cache.clone(),
            tokens: canvas.tokens().to_vec(),
            response: (response.start, response.end),
            mask: canvas.ids().mask,
            seed,
            predictor: None,
        }
    }

    /// The same, knowing what was made of the predictor's file.
    pub fn with_predictor(self, understanding: Option<&Understanding>) -> Self {
        Self { predictor: understanding.map(Understanding::summary), ..self }
    }
}

/// A whole trace.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// What was decoded, and how.
    pub header: TraceHeader,
    /// What every step did; at least one.
    pub steps: Vec<StepRecord>,
}

impl Trace {
    /// Reads the text of a trace file and replays it once, so that what is returned fits together. The error is a sentence
    /// about the text, which does not name the file.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut lines = text.lines();
        let first = lines.next().ok_or("it is empty")?;
        let header: TraceHeader =
            serde_json::from_str(first).map_err(|e| format!("its first line is no header: {e}"))?;
        let (start, end) = header.response;
        if header.demask_trace != 1 || start > end || end > header.tokens.len() {
            return Err("this version does not understand its header".into());
        }
        let (mut steps, mut replay): (Vec<StepRecord>, _) = (Vec::new(), Replay::new(&header));
        for (number, line) in (2..).zip(lines) {
            let step: StepRecord =
                serde_json::from_str(line).map_err(|e| format!("line {number} is no step: {e}"))?;
            if step.dependency.as_ref().is_some_and(|d| d.values.len() != d.positions.len().pow(2)) {
                return Err(format!("line {number} holds a dependency matrix that is not square"));
            }
            replay.step(&step).map_err(|why| format!("line {number} does not fit its canvas: {why}"))?;
            steps.push(step);
        }
        if steps.is_empty() {
            return Err("it holds no step".into());
        }
        Ok(Self { header, steps })
    }
}

/// What one step did.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub struct StepRecord {
    /// Number of the step, from 0.
    pub step: usize,
    /// Number of the block.
    pub block: usize,
    /// Masks of the block before the step.
    pub masked: usize,
    /// Tokens written, in the order of choice.
    pub commits: Vec<Commit>,
    /// Positions set to EOS by the EOS policy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filled: Vec<usize>,
    /// Positions masked again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remasked: Vec<usize>,
    /// Decided tokens that were replaced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edits: Vec<Edit>,
    /// Why no more positions were taken.
    pub stop: Option<Stop>,
    /// Dependency budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// Masked positions and their dependency matrix, row-major, where an observer asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dependency: Option<DependencyRecord>,
    /// Forward passes spent, extra ones included.
    pub forwards: usize,
    /// Rows that a second model computed.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub assistant_rows: usize,
    /// Calls of a small trained part (layer, policy, prior), besides whole passes.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub inner_calls: usize,
    /// A position that its own row predicted, whatever the model's shift (APD with a window of 0).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_row: Option<usize>,
    /// How many rows of the canvas were computed afresh.
    pub computed_rows: usize,
    /// Which ones, as half-open ranges; all others kept their keys and values.
    #[serde(default)]
    pub rows: Vec<(usize, usize)>,
    /// Seconds by phase.
    pub seconds: Seconds,
}

/// A decided token replaced by a step.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, PartialEq)]
pub struct Edit {
    /// Where.
    pub position: usize,
    /// What stands there now.
    pub token: u32,
    /// What stood there before.
    pub was: u32,
    /// Probability of the new token.
    pub confidence: f32,
}

/// A token written by a step.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, PartialEq)]
pub struct Commit {
    /// Where.
    pub position: usize,
    /// What.
    pub token: u32,
    /// Top-1 probability of the model there.
    pub confidence: f32,
    /// Probability of the written token in the model's own distribution.
    pub probability: f32,
}

/// A dependency matrix with its positions.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub struct DependencyRecord {
    /// Masked positions.
    pub positions: Vec<usize>,
    /// Row-major `|M|×|M|`, rounded to four digits.
    pub values: Vec<f32>,
}

/// Seconds spent in each phase.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, PartialEq)]
pub struct Seconds {
    /// Backbone, up to the hidden rows. In a batch, the canvas's share.
    pub forward: f64,
    /// Head, softmax statistics and token proposals.
    pub marginals: f64,
    /// Dependency and selection.
    pub select: f64,
    /// A second model, or a small trained part; no part of `select`.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub extra: f64,
}

fn is_nothing<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Seconds {
    /// All phases together.
    pub fn total(&self) -> f64 {
        self.forward + self.marginals + self.select + self.extra
    }
}

impl AddAssign for Seconds {
    fn add_assign(&mut self, other: Self) {
        self.forward += other.forward;
        self.marginals += other.marginals;
        self.select += other.select;
        self.extra += other.extra;
    }
}

/// Writes a trace as JSON lines.
pub struct TraceWriter<W: Write + Send> {
    out: W,
    dependency: bool,
    failed: Option<std::io::Error>,
}

impl<W: Write + Send> TraceWriter<W> {
    /// Writes the header; `dependency` also records the matrices.
    pub fn new(mut out: W, header: &TraceHeader, dependency: bool) -> std::io::Result<Self> {
        writeln!(out, "{}", serde_json::to_string(header)?)?;
        Ok(Self { out, dependency, failed: None })
    }

    /// What it writes to.
    pub fn written(&self) -> &W {
        &self.out
    }

    /// Flushes; reports the first error that occurred while writing.
    pub fn finish(mut self) -> std::io::Result<W> {
        self.out.flush()?;
        match self.failed {
            Some(error) => Err(error),
            None => Ok(self.out),
        }
    }
}

impl<W: Write + Send> Observer for TraceWriter<W> {
    fn on_step(&mut self, record: &StepRecord, _: &Canvas) -> ControlFlow<()> {
        let line = serde_json::to_string(record).map_err(std::io::Error::from);
        if let Err(error) = line.and_then(|line| writeln!(self.out, "{line}")) {
            // A full disk ends the decoding instead of writing a trace with a hole.
            self.failed.get_or_insert(error);
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    fn wants_dependency(&self) -> bool {
        self.dependency
    }
}
