//! One prompt, one answer: `cargo run --release -p demask --example generate -- "PROMPT"`.

#![allow(clippy::print_stdout, reason = "an example prints")]

use demask::{Model, counted};

fn main() -> demask::Result<()> {
    let usual = "Tom has 12 pens. Tom buys 7 more. Tom loses 5. How many pens does Tom have now?";
    let prompt = std::env::args().nth(1).unwrap_or_else(|| usual.to_owned());
    let model = Model::embedded()?;
    let answer = model.generate(prompt).strategy("demask").seed(0).run()?;
    println!("{}", answer.text);
    println!(
        "({}: {} in {})",
        answer.strategy,
        counted(answer.tokens.len(), "token"),
        counted(answer.metrics.forwards, "forward pass")
    );
    Ok(())
}
