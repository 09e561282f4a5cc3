//! A decoding step by step: an iterator of step records.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use demask_decode::observer::Metrics;
use demask_decode::trace::TraceHeader;
use demask_decode::{Canvas, Decoder, Job, Observer, Observers, StepRecord, Strategy};

use crate::answer::{Answer, shown_text};
use crate::decoding::Decoding;
use crate::error::Result;
use crate::model::Model;
use crate::prompt::Shown;
use crate::trace::{Recording, TraceFile, header};

/// A decoding on its way: each item is one step of Algorithm 1. It holds on to its model.
///
/// ```
/// use demask_engine::Model;
///
/// let model = Model::embedded()?;
/// let mut steps = model.generate("Say hello.").length(8).steps()?;
/// while let Some(step) = steps.next() {
///     println!("{} tokens: {}", step?.commits.len(), steps.text()?);
/// }
/// let answer = steps.finish()?;
/// assert!(answer.metrics.steps <= 8);
/// # Ok::<(), demask_engine::Error>(())
/// ```
pub struct Steps {
    model: Model,
    job: Job,
    shown: Shown,
    seen: Arc<Mutex<Seen>>,
    trace: Option<Arc<Mutex<TraceFile>>>,
    recording: Option<(TraceHeader, Recording)>,
    seconds: f64,
    failed: bool,
}

/// A strategy made elsewhere, and what stands for it in traces and messages.
pub(crate) type Own = (String, Box<dyn Strategy>);

/// What this iterator itself hears of its job.
#[derive(Default)]
struct Seen {
    metrics: Metrics,
    latest: Option<StepRecord>,
}

impl Observer for Seen {
    fn on_step(&mut self, record: &StepRecord, canvas: &Canvas) -> ControlFlow<()> {
        self.latest = Some(record.clone());
        self.metrics.on_step(record, canvas)
    }
}

impl Steps {
    pub(crate) fn begin(
        model: &Model,
        (canvas, shown): (Canvas, Shown),
        (decoding, own): (&Decoding, Option<Own>),
        mut observers: Observers,
        trace: Option<(PathBuf, bool)>,
    ) -> Result<Self> {
        let seen = Arc::new(Mutex::new(Seen::default()));
        observers.0.insert(0, Box::new(seen.clone()));
        let late = Arc::new(Mutex::new(TraceFile::default()));
        if trace.is_some() {
            observers.0.push(Box::new(late.clone()));
        }
        let job = match own {
            None => model.job(canvas, decoding, Box::new(observers))?,
            Some((name, strategy)) => {
                let options = model.options(decoding, canvas.response().start)?;
                Job::with_strategy(canvas, &name, strategy, options, Box::new(observers))?
            }
        };
        let trace = match trace {
            None => None,
            Some((path, dependency)) => {
                *late.lock().unwrap_or_else(PoisonError::into_inner) =
                    TraceFile::create(&path, &header(model, &job), dependency)?;
                Some(late)
            }
        };
        Ok(Self {
            model: model.clone(),
            job,
            shown,
            seen,
            trace,
            recording: None,
            seconds: 0.0,
            failed: false,
        })
    }

    /// The same with records that are kept for the answer; before the first step.
    pub(crate) fn recorded(mut self, recording: Option<Recording>) -> Self {
        self.recording = recording.map(|recording| (header(&self.model, &self.job), recording));
        self
    }

    /// The canvas as it stands.
    pub fn canvas(&self) -> &Canvas {
        self.job.canvas()
    }

    /// The first line of a trace of this decoding; to be asked for before the first step.
    pub fn header(&self) -> TraceHeader {
        header(&self.model, &self.job)
    }

    /// The text as it stands, masks left out.
    pub fn text(&self) -> Result<String> {
        Ok(shown_text(&self.model, self.job.canvas(), self.shown)?.0)
    }

    /// The answer; decodes what is left.
    pub fn finish(mut self) -> Result<Answer> {
        let rest = self.by_ref().try_for_each(|step| step.map(drop));
        if let Some(trace) = &self.trace {
            trace.lock().unwrap_or_else(PoisonError::into_inner).finish()?;
        }
        rest?;
        let metrics = self.seen.lock().unwrap_or_else(PoisonError::into_inner).metrics.clone();
        let trace = self.recording.take().map(|(header, recording)| recording.trace(header));
        Ok(Answer { trace, ..Answer::new(&self.model, &self.job, self.shown, metrics, self.seconds)? })
    }
}

impl Iterator for Steps {
    type Item = Result<StepRecord>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed || self.job.is_done() {
            return None;
        }
        let start = Instant::now();
        let outcome = Decoder::new(self.model.backbone()).step(&mut [&mut self.job]);
        self.seconds += start.elapsed().as_secs_f64();
        if let Err(cause) = outcome {
            self.failed = true;
            return Some(Err(cause.into()));
        }
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).latest.take().map(Ok)
    }
}
