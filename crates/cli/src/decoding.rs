//! One decoding from the command line: observers attached, the loop run, the trace finished.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
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
    /// Wall-clock seconds.
    pub seconds: f64,
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
    let trace = watching.trace.as_ref().map(|path| Trace::create(path, &canvas, strategy, &options, watching)).transpose()?;
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
        trace.finish()?;
    }
    outcome?;
    let [job] = jobs;
    if job.was_stopped() {
        bail!("decoding was stopped with {} masks left", job.canvas().masked(job.canvas().response()).len());
    }
    Ok(Finished { job, seconds })
}

/// The trace writer shared between the job (which owns its observers) and this function.
#[derive(Clone)]
struct Trace(Arc<Mutex<Option<TraceWriter<Pending>>>>, bool);

impl Trace {
    fn create(
        path: &std::path::Path,
        canvas: &Canvas,
        strategy: &StrategySpec,
        options: &Options,
        watching: &Watching,
    ) -> Result<Self> {
        let response = canvas.response();
        let header = Header {
            demask_trace: 1,
            strategy: strategy.to_string(),
            tokens: canvas.tokens().to_vec(),
            response: (response.start, response.end),
            mask: canvas.ids().mask,
            seed: options.seed,
        };
        let writer = TraceWriter::new(Pending::create(path)?, &header, watching.trace_dependency)?;
        Ok(Self(Arc::new(Mutex::new(Some(writer))), watching.trace_dependency))
    }

    fn finish(self) -> Result<()> {
        let writer = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        match writer {
            Some(writer) => writer.finish().map_err(demask_decode::Error::Trace)?.finish(),
            None => Ok(()),
        }
    }
}

impl Observer for Trace {
    fn on_step(&mut self, record: &StepRecord, canvas: &Canvas) -> std::ops::ControlFlow<()> {
        let mut writer = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match writer.as_mut() {
            Some(writer) => writer.on_step(record, canvas),
            None => std::ops::ControlFlow::Continue(()),
        }
    }

    fn wants_dependency(&self) -> bool {
        self.1
    }
}
