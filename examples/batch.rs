//! Many prompts decoded together; each answer is what it would be alone.

#![allow(clippy::print_stdout, reason = "an example prints")]

use demask::Model;

fn main() -> demask::Result<()> {
    let model = Model::embedded()?;
    let prompts: Vec<String> = (2..10)
        .map(|n| format!("Tom has {n} pens. Tom buys {} more. How many pens does Tom have now?", n + 3))
        .collect();
    let answers = model.generate_all(&prompts).strategy("demask").run()?;
    for (prompt, answer) in prompts.iter().zip(&answers) {
        println!("{prompt}\n  {}", answer.text.replace('\n', "\n  "));
    }
    let alone = model.generate(&prompts[3]).strategy("demask").run()?;
    assert_eq!(alone.tokens, answers[3].tokens, "a neighbour changed an answer");
    Ok(())
}
