//! Listening, and ending well: on the first signal nothing new is taken and what runs is finished; a second ends at once.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::error::Error;
use crate::listen::serve_until;
use crate::{Served, Server, ServerSettings};

/// How long a thread that parses waits for more.
const PARSER_IDLE: Duration = Duration::from_secs(2);

/// Serves until a signal; `ready` is told the address once it is open.
pub fn run(
    served: Served,
    settings: ServerSettings,
    address: SocketAddr,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), Error> {
    // Two threads: the model's own threads do the computing. Few more for parsing, which go when they are idle: each
    // keeps a stack and an arena of the allocator.
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).max_blocking_threads(8).thread_keep_alive(PARSER_IDLE);
    let runtime = runtime.enable_all().build().map_err(Error::Start)?;
    let (server, model) = Server::start(served, settings)?;
    let outcome = runtime.block_on(listen(server, address, ready));
    // Requests that are still there after a second signal lose their canvases, which ends the model's thread.
    runtime.shutdown_background();
    if model.join().is_err() {
        tracing::error!("the model's thread panicked");
    }
    outcome
}

async fn listen(
    server: Arc<Server>,
    address: SocketAddr,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), Error> {
    let mut signals = Signals::new().map_err(Error::Start)?;
    let listener = TcpListener::bind(address).await.map_err(|cause| Error::Listen { address, cause })?;
    ready(listener.local_addr().map_err(|cause| Error::Listen { address, cause })?);
    let (stop, stopped) = oneshot::channel::<()>();
    let twice = async {
        signals.next().await;
        tracing::info!("stopping; what runs is finished");
        let _ = stop.send(());
        signals.next().await;
        tracing::warn!("stopping at once");
    };
    let stopped = async {
        // A sender that is gone means the same as a word from it.
        let _ = stopped.await;
    };
    race(serve_until(listener, server, stopped), twice).await.unwrap_or(Ok(()))
}

/// The outcome of `work`, or nothing if `other` is ready first.
pub(crate) async fn race<T>(work: impl Future<Output = T>, other: impl Future) -> Option<T> {
    let (mut work, mut other) = (pin!(work), pin!(other));
    poll_fn(|context| match work.as_mut().poll(context) {
        Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
        Poll::Pending => other.as_mut().poll(context).map(|_| None),
    })
    .await
}

/// Ctrl-C, and the signal by which services are stopped.
struct Signals {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            #[cfg(unix)]
            terminate: tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?,
        })
    }

    #[cfg(unix)]
    async fn next(&mut self) {
        race(tokio::signal::ctrl_c(), self.terminate.recv()).await;
    }

    #[cfg(not(unix))]
    async fn next(&mut self) {
        let _ = tokio::signal::ctrl_c().await;
    }
}
