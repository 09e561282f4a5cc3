//! Gaps anywhere in a text: `[MASK]` is one token, `[MASK:3]` is three; everything else stays as it is.

#![allow(clippy::print_stdout, reason = "an example prints")]

use demask::{Model, Prompt, counted};

fn main() -> demask::Result<()> {
    let model = Model::embedded()?;
    let question = "Tom has 12 pens. Tom buys 7 more. How many pens does Tom have now?";
    let text = "12 + 7 = [MASK] . So Tom has [MASK] pens.";
    let answer = model.generate(Prompt::infill(text).behind(question)).run()?;
    println!("{text}\n{}", answer.text);
    let gaps = answer
        .canvas
        .cells()
        .iter()
        .filter(|cell| matches!(cell, demask::decode::canvas::Cell::Committed { .. }));
    println!("{} found in {}", counted(gaps.count(), "token"), counted(answer.metrics.steps, "step"));
    Ok(())
}
