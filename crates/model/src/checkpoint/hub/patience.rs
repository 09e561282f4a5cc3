//! A limit to silence: hf-hub's requests know none, so each runs on a thread of its own and is given up when nothing was
//! heard of it for a while, or when nobody wants it any more. A thread that was given up ends with the next bytes that it
//! receives, or with its connection; its result is dropped.
//!
//! Invariant: a download that keeps receiving bytes is never given up, however long it takes.

use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use super::failure::Failure;

/// How often is asked whether a request is still wanted.
const ASK: Duration = Duration::from_millis(100);

/// What a request tells while it runs.
pub(super) enum Sign {
    /// A file of this many bytes.
    Begin(String, u64),
    /// This many more bytes.
    Advance(u64),
    /// The file is there.
    Finish,
    /// Nothing was heard for a moment.
    Nothing,
}

enum Message<T> {
    Sign(Sign),
    Done(Result<T, Failure>),
}

/// Sends the signs of life of a request.
pub(super) struct Reporter(Box<dyn Fn(Sign) + Send>);

impl hf_hub::api::Progress for Reporter {
    fn init(&mut self, size: usize, filename: &str) {
        (self.0)(Sign::Begin(filename.to_owned(), size as u64));
    }

    fn update(&mut self, size: usize) {
        (self.0)(Sign::Advance(size as u64));
    }

    fn finish(&mut self) {
        (self.0)(Sign::Finish);
    }
}

/// Runs `request`; `heard` gets its signs of life on the caller's thread, and may end it.
pub(super) fn within<T: Send + 'static>(
    patience: Duration,
    mut heard: impl FnMut(Sign) -> ControlFlow<()>,
    request: impl FnOnce(Reporter) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let signs: Sender<Message<T>> = sender.clone();
        let reporter = Reporter(Box::new(move |sign| {
            if signs.send(Message::Sign(sign)).is_err() {
                // Nobody waits any more. hf-hub asks for no answer here: only unwinding ends its copying, without a word.
                resume_unwind(Box::new(()));
            }
        }));
        let _ = sender.send(Message::Done(request(reporter)));
    });
    let mut last = Instant::now();
    loop {
        let flow = match receiver.recv_timeout(patience.min(ASK)) {
            Ok(Message::Sign(sign)) => {
                last = Instant::now();
                heard(sign)
            }
            Ok(Message::Done(result)) => return result,
            Err(RecvTimeoutError::Timeout) if last.elapsed() >= patience => {
                return Err(Failure::Silent(patience));
            }
            Err(RecvTimeoutError::Timeout) => heard(Sign::Nothing),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Failure::Strange("a request ended without a result".to_owned()));
            }
        };
        if flow.is_break() {
            return Err(Failure::Stopped);
        }
    }
}
