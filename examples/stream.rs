//! The steps of a decoding as an iterator, and an observer that may end it.

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::ops::ControlFlow;

use demask::{Canvas, Model, Observer, StepRecord, counted};

/// Counts the tokens of each step; would end a decoding after a hundred steps.
struct Counter;

impl Observer for Counter {
    fn on_step(&mut self, record: &StepRecord, canvas: &Canvas) -> ControlFlow<()> {
        let left = counted(canvas.masked(canvas.response()).len(), "mask");
        println!("step {}: {}, {left} left", record.step + 1, counted(record.commits.len(), "token"));
        if record.step < 100 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

fn main() -> demask::Result<()> {
    let model = Model::embedded()?;
    let prompt = "Ann has 3 cups. Ann finds 4 more. How many cups does Ann have now?";
    let mut steps = model.generate(prompt).observer(Counter).steps()?;
    while let Some(step) = steps.next() {
        let seconds = step?.seconds.total();
        println!("  {:.1} ms  {}", 1e3 * seconds, steps.text()?);
    }
    println!("{}", steps.finish()?.text);
    Ok(())
}
