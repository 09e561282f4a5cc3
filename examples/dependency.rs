//! The predicted dependency matrix D̂ of a canvas, and the positions that DEMASK unmasks in its first step.

#![allow(clippy::print_stdout, reason = "an example prints")]

use demask::{Decoding, Model, Prompt};

fn main() -> demask::Result<()> {
    let model = Model::embedded()?;
    let prompt = Prompt::from("Ann has 3 cups. Ann finds 4 more. How many cups does Ann have now?");
    let decoding = Decoding { length: Some(12), ..Decoding::default() };
    let canvas = model.canvas(&model.encode(&prompt)?, &decoding)?;
    let map = model.dependency(&canvas)?;
    println!("D̂: how much revealing a column's position is expected to change a row's");
    println!("      {}", map.positions.iter().map(|p| format!("{p:>6}")).collect::<String>());
    for (row, position) in map.positions.iter().enumerate() {
        let values = (0..map.positions.len()).map(|column| format!("{:>6.3}", map.matrix.on(row, column)));
        println!("{position:>6}{}", values.collect::<String>());
    }
    let mut steps = model.generate(prompt).strategy("demask").length(12).steps()?;
    if let Some(step) = steps.next() {
        let step = step?;
        let chosen: Vec<usize> = step.commits.iter().map(|commit| commit.position).collect();
        println!("chosen: {chosen:?}");
        if let Some(budget) = step.budget {
            println!("dependency used: {:.4} of {}", budget.used, budget.limit);
        }
    }
    Ok(())
}
