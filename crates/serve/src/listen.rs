//! Connections: how many, how long each may take over what, and how they end.
//!
//! A client has a limit for everything it can be slow at: the head of a request (the wait for one included), its body
//! ([`crate::intake`]) and the reading of the answer. When the server stops, connections without a request end at once,
//! the others when they are answered or when the grace period is over. Invariant: no client holds a connection, or the
//! end of the server, longer than its limits.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep, sleep, timeout};
use tower::ServiceExt;

use crate::error::Error;
use crate::run::race;
use crate::{Server, app, housekeeping};

/// Wait after the system could not give a connection, as when all descriptors are in use.
const BREATH: Duration = Duration::from_millis(100);

/// How long clients may take.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// For the head of a request, and between requests.
    pub head: Duration,
    /// For the body.
    pub body: Duration,
    /// Without taking any of the answer.
    pub read: Duration,
    /// For what runs when the server stops.
    pub grace: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { head: seconds(20), body: seconds(30), read: seconds(30), grace: seconds(30) }
    }
}

/// Serves on a listener until `stop` is ready, then finishes what runs.
pub async fn serve_until(
    listener: TcpListener,
    server: Arc<Server>,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), Error> {
    let (patience, places) =
        (server.settings.patience, Arc::new(Semaphore::new(server.settings.connections.max(1))));
    let keeper = tokio::spawn(housekeeping::keep(server.clone()));
    let app = app(server);
    let (stopping, stopped) = watch::channel(false);
    let mut connections = JoinSet::new();
    let mut stop = pin!(stop);
    loop {
        let accepted = async {
            let place = places.clone().acquire_owned().await;
            (listener.accept().await, place)
        };
        let Some((accepted, place)) = race(accepted, &mut stop).await else { break };
        match accepted {
            Ok((stream, _)) => {
                let connection = connection(stream, app.clone(), patience, stopped.clone());
                connections.spawn(async move {
                    connection.await;
                    drop(place);
                });
            }
            Err(cause) => {
                tracing::warn!(%cause, "a connection could not be accepted");
                sleep(BREATH).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
    drop(listener);
    keeper.abort();
    let _ = stopping.send(true);
    let all = async { while connections.join_next().await.is_some() {} };
    if timeout(patience.grace, all).await.is_err() {
        tracing::warn!("the grace period is over; the rest is cut off");
    }
    connections.abort_all();
    Ok(())
}

async fn connection(stream: TcpStream, app: Router, patience: Patience, mut stopped: watch::Receiver<bool>) {
    // Small events are to arrive when they happen.
    let _ = stream.set_nodelay(true);
    let busy = Arc::new(AtomicUsize::new(0));
    let seen = busy.clone();
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let (app, busy) = (app.clone(), Busy::new(&seen));
        async move {
            let response = app.oneshot(request.map(Body::new)).await;
            response.map(|response| response.map(|body| Body::new(Answering { body, _busy: busy })))
        }
    });
    let io = TokioIo::new(Impatient { stream, patience: patience.read, waiting: None });
    let mut http = hyper::server::conn::http1::Builder::new();
    let served =
        http.timer(TokioTimer::new()).header_read_timeout(patience.head).serve_connection(io, service);
    let mut served = pin!(served);
    let word = async {
        // A sender that is gone means the same as a word from it.
        let _ = stopped.wait_for(|stopped| *stopped).await;
    };
    if race(&mut served, word).await.is_some() || busy.load(Ordering::Relaxed) == 0 {
        return;
    }
    served.as_mut().graceful_shutdown();
    let _ = served.await;
}

/// A request on its way, until the last byte of its answer.
struct Busy(Arc<AtomicUsize>);

impl Busy {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count.clone())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The body of an answer.
struct Answering {
    body: Body,
    _busy: Busy,
}

impl HttpBody for Answering {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A stream whose reader must take something now and then.
struct Impatient {
    stream: TcpStream,
    patience: Duration,
    waiting: Option<Pin<Box<Sleep>>>,
}

impl Impatient {
    /// An outcome as it is, or an error once nothing has been taken for too long.
    fn bounded<T>(&mut self, outcome: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.waiting = None;
            return outcome;
        }
        let until = Instant::now() + self.patience;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
        ready!(waiting.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read its answer")))
    }
}

impl AsyncRead for Impatient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Impatient {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.bounded(outcome, context)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.bounded(outcome, context)
    }
}
