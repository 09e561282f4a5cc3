//! A limit to silence: hf-hub's requests know none, so each runs on a thread of its own and is given up when nothing was
//! heard of it for a while. A thread that was given up ends with its connection; its result is dropped.
//!
//! Invariant: a download that keeps receiving bytes is never given up, however long it takes.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use super::failure::Failure;

/// What a request tells while it runs.
pub(super) enum Sign {
    /// A file of this many bytes.
    Begin(String, u64),
    /// This many more bytes.
    Advance(u64),
    /// The file is there.
    Finish,
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

/// Runs `request`; `heard` gets its signs of life on the caller's thread.
pub(super) fn within<T: Send + 'static>(
    patience: Duration,
    mut heard: impl FnMut(Sign),
    request: impl FnOnce(Reporter) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let signs: Sender<Message<T>> = sender.clone();
        // A receiver that has given up is told nothing.
        let reporter = Reporter(Box::new(move |sign| drop(signs.send(Message::Sign(sign)))));
        let _ = sender.send(Message::Done(request(reporter)));
    });
    loop {
        match receiver.recv_timeout(patience) {
            Ok(Message::Sign(sign)) => heard(sign),
            Ok(Message::Done(result)) => return result,
            Err(RecvTimeoutError::Timeout) => return Err(Failure::Silent(patience)),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Failure::Strange("a request ended without a result".to_owned()));
            }
        }
    }
}
