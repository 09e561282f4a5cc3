//! One line on standard error while a large model decodes: how far it is and how long it will take. Gone at the end.

use std::io::{self, Write};
use std::ops::ControlFlow;

use crossterm::terminal::{Clear, ClearType};
use crossterm::{QueueableCommand, cursor};
use demask::decode::{Canvas, Observer, StepRecord};

/// Rewrites its line at every step.
#[derive(Debug, Default)]
pub struct ProgressLine {
    told: bool,
    forwards: usize,
    seconds: f64,
}

impl ProgressLine {
    /// `written`: tokens before the end of the text so far.
    fn text(&self, record: &StepRecord, left: usize, length: usize, written: usize) -> String {
        let settled = (length - left) as f64;
        let seconds_left = if settled > 0.0 { self.seconds / settled * left as f64 } else { 0.0 };
        format!(
            "step {} · {left} of {length} masked · {:.1} tokens per pass · {} left",
            record.step + 1,
            written as f64 / self.forwards.max(1) as f64,
            clock(seconds_left)
        )
    }

    fn write(&mut self, line: &str) -> io::Result<()> {
        let mut out = io::stderr().lock();
        out.queue(cursor::MoveToColumn(0))?.queue(Clear(ClearType::CurrentLine))?;
        write!(out, "{line}")?;
        self.told = !line.is_empty();
        out.flush()
    }
}

/// Minutes and seconds.
fn clock(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    format!("{}:{:02}", whole / 60, whole % 60)
}

impl Observer for ProgressLine {
    fn on_step(&mut self, record: &StepRecord, canvas: &Canvas) -> ControlFlow<()> {
        self.forwards += record.forwards;
        self.seconds += record.seconds.total();
        let length = canvas.response().len();
        let left = canvas.masked(canvas.response()).len();
        let line = self.text(record, left, length, canvas.written());
        // A terminal that went away is no reason to lose the answer.
        let _ = self.write(&line);
        ControlFlow::Continue(())
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if self.told {
            let _ = self.write("");
        }
    }
}
