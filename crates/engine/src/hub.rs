//! How to reach the Hub, from the environment variables that its own tools use.
//!
//! Invariant: no other library module of this project reads the environment.

use std::path::PathBuf;
use std::time::Duration;

use demask_model::checkpoint::source::HubOptions;

/// `HF_HOME`, `HF_ENDPOINT`, `HF_TOKEN`, `HF_HUB_OFFLINE` and `HF_HUB_DOWNLOAD_TIMEOUT`.
pub fn hub_options() -> HubOptions {
    let var = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
    let home = var("HF_HOME").map(PathBuf::from).unwrap_or_else(|| {
        let cache = var("XDG_CACHE_HOME").map(PathBuf::from);
        let cache = cache.or_else(|| var("HOME").map(|home| PathBuf::from(home).join(".cache")));
        cache.unwrap_or_else(|| PathBuf::from(".cache")).join("huggingface")
    });
    let offline = var("HF_HUB_OFFLINE")
        .is_some_and(|v| !["0", "false", "no", "off"].contains(&v.to_lowercase().as_str()));
    let patience = var("HF_HUB_DOWNLOAD_TIMEOUT").and_then(|v| v.parse().ok()).filter(|&s: &u64| s > 0);
    let patience = patience.map_or(HubOptions::PATIENCE, Duration::from_secs);
    HubOptions { home, endpoint: var("HF_ENDPOINT"), token: var("HF_TOKEN"), offline, patience }
}
