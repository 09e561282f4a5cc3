//! What a person sees of a part's training: a bar, the loss beside its baseline, a clean end on Ctrl-C.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result};
use demask::counted;
use demask::train::part::{Objective, Outcome, PartProgress, Training};
use indicatif::{ProgressBar, ProgressStyle};

use crate::command::tv_cache::clock;

/// A bar on standard error.
pub(super) fn bar(steps: u64, unit: &str) -> ProgressBar {
    let bar = ProgressBar::new(steps);
    if let Ok(style) = ProgressStyle::with_template(&format!("{{wide_bar}} {{pos}}/{{len}} {unit} {{msg}}")) {
        bar.set_style(style);
    }
    bar
}

/// Set by the first Ctrl-C; a second ends the process at once.
pub(super) fn stop_on_signals() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, stop.clone())?;
        signal_hook::flag::register(signal, stop.clone())?;
    }
    Ok(stop)
}

/// Trains with a bar; `None` if it was stopped, which is said.
pub(super) fn train(training: &Training<'_>, objective: &mut dyn Objective) -> Result<Option<Outcome>> {
    let stop = stop_on_signals()?;
    let bar = bar(training.settings.steps, "updates");
    let outcome = training.run(objective, &mut |progress: &PartProgress| {
        bar.set_position(progress.step);
        let number = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{v:.5}"));
        let (loss, held) = (number(progress.loss), number(progress.validation));
        bar.set_message(format!("loss {loss}, held out {held}, {} left", clock(progress.left)));
        if stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    bar.finish_and_clear();
    let outcome = outcome?;
    match &outcome {
        None => println!("stopped; the same command continues"),
        Some(outcome) => println!(
            "{}; loss held out {:.5} after {} of {}; {}: {:.5}",
            counted(outcome.size, "parameter"),
            outcome.validation,
            outcome.best_step,
            counted(outcome.steps as usize, "update"),
            outcome.baseline_is,
            outcome.baseline
        ),
    }
    Ok(outcome)
}

/// Makes the folder that a file goes to.
pub(super) fn folder_of(out: &Path) -> Result<()> {
    if let Some(folder) = out.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    Ok(())
}
