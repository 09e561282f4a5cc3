//! What this machine has, as far as its system tells; and whether a model fits into it.

use std::path::Path;

use anyhow::Result;
use demask::engine::Description;
use demask::hub_options;
use demask::model::Precision;
use demask::model::checkpoint::source;

use crate::downloads::Downloads;

/// Bytes to believe in instead of the system's word, where a limit is set that it does not tell.
const FREE: &str = "DEMASK_FREE_MEMORY";
/// Canvas whose memory is counted; longer ones take little more beside the weights.
const LENGTH: usize = 512;

/// Memory in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Memory {
    /// What there is.
    pub total: u64,
    /// What a new program may take without others being swapped out.
    pub free: u64,
}

/// The memory of this machine or of the container around this process; `None` where the system does not tell.
pub fn memory() -> Option<Memory> {
    let told = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = |name: &str| -> Option<u64> {
        let rest = told.lines().find_map(|line| line.strip_prefix(name))?;
        Some(rest.trim_start_matches(':').trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
    };
    let mut memory = Memory { total: line("MemTotal")?, free: line("MemAvailable")? };
    let number = |file: &str| std::fs::read_to_string(file).ok()?.trim().parse::<u64>().ok();
    if let Some(limit) = number("/sys/fs/cgroup/memory.max") {
        let used = number("/sys/fs/cgroup/memory.current").unwrap_or(0);
        memory.total = memory.total.min(limit);
        memory.free = memory.free.min(limit.saturating_sub(used));
    }
    if let Some(free) = std::env::var(FREE).ok().and_then(|bytes| bytes.parse().ok()) {
        memory.free = free;
    }
    Some(memory)
}

/// Gibibytes, or mebibytes of what is small.
pub fn size(bytes: u64) -> String {
    match bytes {
        0..0x4000_0000 => format!("{:.0} MiB", bytes as f64 / f64::from(1 << 20)),
        _ => format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30)),
    }
}

/// What to say before a model is loaded that is larger than the free memory, and what to do instead. Of a Hub name only
/// the description is downloaded for it.
pub fn too_large(model: &str, precision: Option<Precision>) -> Result<Option<String>> {
    let Some(memory) = memory() else { return Ok(None) };
    let folder = source::resolve_description(model, &hub_options(), &mut Downloads::default())?;
    let needs = |precision| needed(&folder, precision);
    let Some(wanted) = needs(precision).filter(|&bytes| bytes > memory.free) else { return Ok(None) };
    let fits = |flag: &'static str, precision| {
        let bytes = needs(Some(precision))?;
        (bytes < wanted && bytes <= memory.free).then(|| format!("{flag} would take {}", size(bytes)))
    };
    let remedies: Vec<String> =
        [fits("--int8", Precision::INT8), fits("--q4", Precision::Q4)].into_iter().flatten().collect();
    let remedy = match remedies.is_empty() {
        true => "no precision of it fits; take a smaller model or a machine with more memory".to_owned(),
        false => format!("`demask pull {model}` with {}", remedies.join(", with ")),
    };
    Ok(Some(format!(
        "{model} takes about {} and {} are free, so weights will be read from the disk again and again; {remedy}",
        size(wanted),
        size(memory.free)
    )))
}

/// Bytes at the peak; nothing where the description cannot be read, which loading will say better.
fn needed(folder: &Path, precision: Option<Precision>) -> Option<u64> {
    Some(Description::of(folder, precision, LENGTH).ok()?.memory_bytes() as u64)
}
