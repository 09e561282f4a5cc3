//! Giving memory back after a peak: the allocator keeps what was freed for the next pass, which is right while requests
//! come and wrong when they are over.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use crate::Server;

/// How long the server must have been idle.
const IDLE: Duration = Duration::from_secs(2);

/// Looks after the memory until it is dropped.
pub(crate) async fn keep(server: Arc<Server>) {
    let mut ticks = interval(IDLE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut before, mut given_back) = (server.metrics.work(), true);
    loop {
        ticks.tick().await;
        let now = server.metrics.work();
        if now != before {
            (before, given_back) = (now, false);
        } else if !given_back && !server.metrics.is_active() {
            given_back = true;
            let _ = tokio::task::spawn_blocking(demask_model::memory::give_back).await;
        }
    }
}
