//! Long work beside a Python thread that listens: progress goes to a callback, Ctrl-C stops the work.
//!
//! The work runs in a thread of its own, because Python tells only its main thread of signals and a batch's observers
//! are called from many. Invariant: the call returns when the work has ended, whatever the callback does.

use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use demask::decode::{Canvas, Observer, StepRecord};
use demask::model::Gate;
use demask_cli::host::Progress;
use pyo3::prelude::*;

use std::sync::Arc;

/// How often Python is asked.
const LISTEN: Duration = Duration::from_millis(50);
/// As much as the main thread usually has, and more.
const STACK: usize = 64 << 20;

/// What work tells, and whether it is to stop.
#[derive(Default)]
pub(crate) struct Watch {
    stop: AtomicBool,
    latest: Mutex<Option<Progress>>,
}

impl Watch {
    /// Tells how far the work is; `Break` if it is to stop.
    pub(crate) fn show(&self, progress: &Progress) -> ControlFlow<()> {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(progress.clone());
        self.flow()
    }

    /// `Break` if the work is to stop.
    pub(crate) fn flow(&self) -> ControlFlow<()> {
        if self.stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// A gate for a model's passes: they end when the work is to stop.
    pub(crate) fn gate(self: &Arc<Self>) -> Arc<Gate> {
        let watch = self.clone();
        Arc::new(move |_| watch.flow())
    }

    /// The same, which also tells how many of so many passes are done.
    pub(crate) fn counting(self: &Arc<Self>, total: u64) -> Arc<Gate> {
        let (watch, counted) = (self.clone(), AtomicU64::new(0));
        Arc::new(move |canvases| {
            let done = counted.fetch_add(canvases as u64, Ordering::Relaxed) + canvases as u64;
            watch.show(&Progress { unit: "passes", done, total, message: String::new() })
        })
    }

    /// Tells Python; an exception there stops the work.
    fn listen(&self, callback: Option<&PyObject>) -> PyResult<()> {
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner).take();
        Python::with_gil(|py| {
            py.check_signals()?;
            if let (Some(callback), Some(p)) = (callback, latest) {
                callback.call1(py, (p.done, p.total, p.unit, p.message))?;
            }
            Ok(())
        })
    }
}

/// Does the work while Python listens.
pub(crate) fn watched<T: Send>(
    py: Python<'_>,
    callback: Option<PyObject>,
    work: impl FnOnce(&Arc<Watch>) -> T + Send,
) -> PyResult<T> {
    watched_by(&Arc::default(), py, callback, work)
}

/// The same with a watch that was there before.
pub(crate) fn watched_by<T: Send>(
    watch: &Arc<Watch>,
    py: Python<'_>,
    callback: Option<PyObject>,
    work: impl FnOnce(&Arc<Watch>) -> T + Send,
) -> PyResult<T> {
    let outcome = py.allow_threads(|| {
        thread::scope(|scope| {
            let (sender, receiver) = channel();
            let inside = watch.clone();
            let builder = thread::Builder::new().stack_size(STACK);
            let worker = builder.spawn_scoped(scope, move || {
                let done = work(&inside);
                let _ = sender.send(done);
            });
            let worker = worker.map_err(PyErr::from)?;
            let mut interrupted = None;
            loop {
                match receiver.recv_timeout(LISTEN) {
                    Ok(done) => return interrupted.map_or(Ok(done), Err),
                    Err(RecvTimeoutError::Timeout) if interrupted.is_none() => {
                        if let Err(exception) = watch.listen(callback.as_ref()) {
                            watch.stop.store(true, Ordering::Relaxed);
                            interrupted = Some(exception);
                        }
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => match worker.join() {
                        Err(panic) => resume_unwind(panic),
                        Ok(()) => unreachable!("work that ends without a panic has sent its result"),
                    },
                }
            }
        })
    })?;
    watch.listen(callback.as_ref())?;
    Ok(outcome)
}

/// Counts steps of all canvases, and ends them on Ctrl-C.
pub(crate) struct Stopper {
    pub(crate) watch: Arc<Watch>,
    pub(crate) done: Arc<Mutex<u64>>,
    pub(crate) total: u64,
}

impl Observer for Stopper {
    fn on_step(&mut self, _: &StepRecord, canvas: &Canvas) -> ControlFlow<()> {
        if !canvas.is_done() {
            return self.watch.flow();
        }
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        *done += 1;
        self.watch.show(&Progress { unit: "prompts", done: *done, total: self.total, message: String::new() })
    }
}
