//! One decoding from the command line: observers attached, the loop run, the trace finished.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use demask_decode::observer::Metrics;
use demask_decode::trace::{Header, TraceWriter};
use demask_decode::{Canvas, Decoder, Job, Observer, Observers, Options, StepRecord, StrategySpec};

use crate::loaded::Loaded;
use crate::output::Pending;
use crate::view::TerminalView;

/// Who watches.
#[derive(Debug, Clone, Default)]
pub struct Watching {
    /// Trace file.
    pub trace: Option<PathBuf>,
    /// With dependency matrices.
    pub trace_dependency: bool,
    /// Live terminal view with this pause between frames.
    pub view: Option<Duration>,
}

/// A finished decoding.
pub struct Finished {
    /// The job with its canvas and totals.
    pub job: Job,
    /// What happened on the way.
    pub metrics: Metrics,
    /// Wall-clock seconds.
    pub seconds: f64,
}

impl Finished {
    /// One line about the cost, on standard error.
    pub fn tell(&self) {
        let (m, s) = (&self.metrics, &self.metrics.seconds);
        eprintln!(
            "{}: {} steps, {} forward passes, {:.2} tokens per pass, {:.3} s (backbone {:.3}, marginals {:.3}, selection {:.3})",
            self.job.spelling(),
            m.steps,
            m.forwards,
            m.tokens_per_forward(),
            self.seconds,
            s.forward,
            s.marginals,
            s.select
        );
    }
}

/// Decodes one canvas.
pub fn decode(
    loaded: &Loaded,
    canvas: Canvas,
    strategy: &StrategySpec,
    options: Options,
    watching: &Watching,
) -> Result<Finished> {
    let mut observers = Observers::default();
    let metrics = Arc::new(Mutex::new(Metrics::default()));
    observers.0.push(Box::new(metrics.clone()));
    let trace = watching
        .trace
        .as_ref()
        .map(|path| Trace::create(path, &canvas, strategy, &options, watching))
        .transpose()?;
    let trace = trace.map(|trace| Arc::new(Mutex::new(trace)));
    if let Some(trace) = &trace {
        observers.0.push(Box::new(trace.clone()));
    }
    if let Some(pause) = watching.view {
        observers.0.push(Box::new(TerminalView::new(loaded.tokenizer.clone(), pause)));
    }
    let job = Job::new(canvas, strategy, &loaded.context, options, Box::new(observers))?;
    let mut jobs = [job];
    let start = Instant::now();
    let outcome = Decoder::new(&loaded.backbone).run(&mut jobs);
    let seconds = start.elapsed().as_secs_f64();
    if let Some(trace) = trace {
        trace.lock().unwrap_or_else(PoisonError::into_inner).finish()?;
    }
    outcome?;
    let [job] = jobs;
    if job.was_stopped() {
        bail!("decoding was stopped with {} masks left", job.canvas().masked(job.canvas().response()).len());
    }
    let metrics = metrics.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Ok(Finished { job, metrics, seconds })
}

/// A trace file that is taken back from the job's observers when the decoding is over.
struct Trace(Option<TraceWriter<Pending>>);

impl Trace {
    fn create(
        path: &std::path::Path,
        canvas: &Canvas,
        strategy: &StrategySpec,
        options: &Options,
        watching: &Watching,
    ) -> Result<Self> {
        let header = Header::new(canvas, strategy, &options.cache, options.seed);
        let writer = TraceWriter::new(Pending::create(path)?, &header, watching.trace_dependency)?;
        Ok(Self(Some(writer)))
    }

    fn finish(&mut self) -> Result<()> {
        match self.0.take() {
            Some(writer) => writer.finish().map_err(demask_decode::Error::Trace)?.finish(),
            None => Ok(()),
        }
    }
}

impl Observer for Trace {
    fn on_step(&mut self, record: &StepRecord, canvas: &Canvas) -> ControlFlow<()> {
        match &mut self.0 {
            Some(writer) => writer.on_step(record, canvas),
            None => ControlFlow::Continue(()),
        }
    }

    fn wants_dependency(&self) -> bool {
        self.0.as_ref().is_some_and(|writer| writer.wants_dependency())
    }
}
