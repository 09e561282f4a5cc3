//! The one owner of the model: a thread that advances all active canvases together, step by step.
//!
//! Canvases join and leave between steps (continuous batching). Invariant: a canvas whose client is gone leaves within
//! a step, and a canvas that fails is answered alone while the others go on.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use demask_decode::{Canvas, Decoder, Job, Observer, Prefixes, StepRecord, Totals};
use demask_engine::Decoding;
use tokio::sync::mpsc;

use crate::error::Refusal;
use crate::metrics::Metrics;
use crate::{Served, ServerSettings};

/// Unread records before a watcher gets no more dependency matrices, which are quadratic in the canvas.
const UNREAD_MATRICES: usize = 32;
/// Events a canvas may leave unread; more than any canvas has steps, and room is only taken when used.
const UNREAD: usize = 1 << 20;

/// What a request hears of its canvases.
pub(crate) enum Event {
    /// A step was done.
    Step(Box<StepRecord>),
    /// No mask is left, or the request had enough.
    Done(Done),
    /// It cannot be decoded further.
    Failed(Refusal),
}

/// A canvas that left.
pub(crate) struct Done {
    /// All its tokens.
    pub(crate) tokens: Vec<u32>,
    /// What it cost.
    pub(crate) totals: Totals,
}

/// What is to be decoded and how; a request may have several.
#[derive(Clone)]
pub(crate) struct Order {
    pub(crate) canvas: Canvas,
    pub(crate) decoding: Decoding,
    pub(crate) dependency: bool,
}

/// The canvases of one request on their way; dropping it frees their slots.
pub(crate) struct Running {
    events: mpsc::Receiver<(usize, Event)>,
    enough: Vec<Arc<AtomicBool>>,
}

impl Running {
    /// The next event and which canvas it is of; `None` when the engine is gone.
    pub(crate) async fn next(&mut self) -> Option<(usize, Event)> {
        self.events.recv().await
    }

    /// Ends a canvas early: what is there suffices.
    pub(crate) fn enough(&self, index: usize) {
        self.enough[index].store(true, Ordering::Relaxed);
    }
}

/// The way to the model's thread.
pub(crate) struct Engine {
    queue: mpsc::Sender<Seat>,
}

impl Engine {
    /// Starts the thread, within the limits of `settings`.
    pub(crate) fn start(
        served: Arc<Served>,
        metrics: Arc<Metrics>,
        settings: &ServerSettings,
    ) -> std::io::Result<(Self, JoinHandle<()>)> {
        let (sender, receiver) = mpsc::channel(settings.queue.max(1));
        let (batch, prefixes) = (settings.batch.max(1), Prefixes::new(settings.prefix_memory));
        let thread = std::thread::Builder::new().name("model".into());
        let thread = thread.spawn(move || Loop { served, metrics, batch, receiver, prefixes }.run())?;
        Ok((Self { queue: sender }, thread))
    }

    /// Whether the thread takes work.
    pub(crate) fn is_alive(&self) -> bool {
        !self.queue.is_closed()
    }

    /// Whether this many canvases could be queued now.
    pub(crate) fn has_room(&self, canvases: usize) -> bool {
        self.queue.capacity() >= canvases
    }

    /// Canvases that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.queue.max_capacity() - self.queue.capacity()
    }

    /// Queues all canvases of a request, or none of them.
    pub(crate) fn submit(&self, served: &Served, orders: Vec<Order>) -> Result<Running, Refusal> {
        let (sender, events) = mpsc::channel(UNREAD);
        let (mut tasks, mut enough) = (Vec::new(), Vec::new());
        for (index, order) in orders.into_iter().enumerate() {
            let flag = Arc::new(AtomicBool::new(false));
            let watcher =
                Watcher { events: sender.clone(), index, enough: flag.clone(), dependency: order.dependency };
            let job = served.model.job(order.canvas, &order.decoding, Box::new(watcher))?;
            tasks.push(Seat { job, events: sender.clone(), index });
            enough.push(flag);
        }
        let permits = self.queue.try_reserve_many(tasks.len()).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(()) => Refusal::busy(),
            mpsc::error::TrySendError::Closed(()) => Refusal::stopping(),
        })?;
        permits.zip(tasks).for_each(|(permit, task)| permit.send(task));
        Ok(Running { events, enough })
    }
}

/// A canvas in the queue or in the batch.
struct Seat {
    job: Job,
    events: mpsc::Sender<(usize, Event)>,
    index: usize,
}

impl Seat {
    fn finish(self) {
        let done = Done { tokens: self.job.canvas().tokens().to_vec(), totals: self.job.totals() };
        self.tell(Event::Done(done));
    }

    fn fail(self, refusal: Refusal) {
        self.tell(Event::Failed(refusal));
    }

    fn tell(self, event: Event) {
        // Nobody listens any more: then nobody waits for the answer either.
        let _ = self.events.try_send((self.index, event));
    }
}

/// Sends every step to the request and ends the canvas when nobody listens.
struct Watcher {
    events: mpsc::Sender<(usize, Event)>,
    index: usize,
    enough: Arc<AtomicBool>,
    dependency: bool,
}

impl Observer for Watcher {
    fn on_step(&mut self, record: &StepRecord, _: &Canvas) -> ControlFlow<()> {
        let mut record = Box::new(record.clone());
        if self.events.max_capacity() - self.events.capacity() > UNREAD_MATRICES {
            record.dependency = None;
        }
        let sent = self.events.try_send((self.index, Event::Step(record)));
        if sent.is_err() || self.enough.load(Ordering::Relaxed) {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    fn wants_dependency(&self) -> bool {
        self.dependency
    }
}

/// The thread's own state.
struct Loop {
    served: Arc<Served>,
    metrics: Arc<Metrics>,
    batch: usize,
    receiver: mpsc::Receiver<Seat>,
    /// Finished blocks of earlier canvases.
    prefixes: Prefixes,
}

impl Loop {
    /// Works until every sender is gone and everything that was accepted is answered.
    fn run(mut self) {
        let served = self.served.clone();
        let decoder = Decoder::new(served.model.backbone());
        let mut active: Vec<Seat> = Vec::new();
        loop {
            if active.is_empty() {
                self.metrics.set_active(0);
                match self.receiver.blocking_recv() {
                    Some(task) => active.push(self.seated(task)),
                    None => return,
                }
            }
            while active.len() < self.batch
                && let Ok(task) = self.receiver.try_recv()
            {
                active.push(self.seated(task));
            }
            active = self.advance(&decoder, active);
        }
    }

    /// A canvas with what is known of its prefix.
    fn seated(&mut self, mut task: Seat) -> Seat {
        let rows = self.prefixes.lend(&mut task.job, self.served.model.backbone().spec());
        self.metrics.shared(rows);
        task
    }

    /// Keeps the blocks of canvases that are done, and the prompts of those that have just begun.
    fn keep(&mut self, tasks: &[Seat]) {
        let spec = self.served.model.backbone().spec();
        for task in tasks.iter().filter(|t| t.job.is_done() || t.job.totals().steps == 1) {
            self.prefixes.keep(&task.job, spec);
        }
        self.metrics.set_prefixes(self.prefixes.size_in_bytes());
    }

    /// One step of every canvas; returns those that go on.
    fn advance(&mut self, decoder: &Decoder<'_>, tasks: Vec<Seat>) -> Vec<Seat> {
        let (gone, mut active): (Vec<_>, Vec<_>) = tasks.into_iter().partition(|t| t.events.is_closed());
        self.metrics.abandoned(gone.len());
        self.metrics.set_active(active.len());
        if active.is_empty() {
            return active;
        }
        let before: Vec<Totals> = active.iter().map(|t| t.job.totals()).collect();
        let stepped = catch_unwind(AssertUnwindSafe(|| {
            decoder.step(&mut active.iter_mut().map(|t| &mut t.job).collect::<Vec<_>>())
        }));
        let failures = match stepped {
            Ok(Ok(())) => Vec::new(),
            Ok(Err(_)) => blame(decoder, &mut active, &before),
            Err(_) => (0..active.len()).map(|i| (i, Refusal::internal("the decoder panicked"))).collect(),
        };
        self.metrics.stepped(active.iter().map(|t| t.job.totals()).zip(before));
        if failures.is_empty() {
            self.keep(&active);
        }
        let mut failures = failures.into_iter().peekable();
        let (mut rest, mut gone) = (Vec::with_capacity(active.len()), 0);
        for (index, task) in active.into_iter().enumerate() {
            match failures.next_if(|(i, _)| *i == index) {
                _ if task.events.is_closed() => gone += 1,
                Some((_, refusal)) => task.fail(refusal),
                None if task.job.is_done() => {
                    self.metrics.finished(task.job.canvas().written(), task.job.totals().forwards);
                    task.finish();
                }
                None => rest.push(task),
            }
        }
        self.metrics.abandoned(gone);
        rest
    }
}

/// Finds whose fault a failed step is, by index, ascending.
///
/// A canvas that did not advance, its own fault or not, is tried again alone; so what the model refuses only together
/// (a batch too large for memory, say) goes on one canvas at a time.
fn blame(decoder: &Decoder<'_>, tasks: &mut [Seat], before: &[Totals]) -> Vec<(usize, Refusal)> {
    let alone = |(index, (task, before)): (usize, (&mut Seat, &Totals))| {
        let refusal = if task.job.totals().steps > before.steps {
            task.job.stalled().map(Refusal::from)
        } else {
            match catch_unwind(AssertUnwindSafe(|| decoder.step(&mut [&mut task.job]))) {
                Ok(outcome) => outcome.err().map(Refusal::from),
                Err(_) => Some(Refusal::internal("the decoder panicked")),
            }
        };
        refusal.map(|refusal| (index, refusal))
    };
    tasks.iter_mut().zip(before).enumerate().filter_map(alone).collect()
}
