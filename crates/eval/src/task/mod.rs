//! Synthetic tasks: seeded generators of problems whose answers a program checks.
//!
//! Each mirrors a benchmark of the paper (`arith` GSM8K, `choice` MMLU-Pro, `program` HumanEval and MBPP) or a
//! dependency stress test (`lines`, `grid`, `open`), in a language small enough for a model of a few million weights.
//! Where a response may be worded in several ways the wording is drawn at random and must be kept up through
//! the whole response: that free but binding choice is what makes tokens depend on one another.
//!
//! Invariant: the split of a problem is a function of its `key`, and a key names the content of a problem, not
//! its wording; so no held-out problem is ever seen in training, in whatever words.

mod accuracy;
mod arith;
mod book;
mod choice;
mod grid;
pub mod lexicon;
mod lines;
mod off_task;
mod open;
mod phrase;
mod program;
mod rng;
mod stream;
mod wordings;

use serde::{Deserialize, Serialize};

pub use accuracy::accuracy;
pub use arith::{Op, Step, Story};
pub use choice::Question;
pub use grid::{Puzzle, Rule};
pub use lexicon::Wording;
pub use lines::{Queue, Wanted};
pub use off_task::off_task;
pub use open::{Demand, Layout, Variety, Wish};
pub use program::{Assignment, Case, python};
pub use rng::Rng;
pub use stream::{
    Mixture, Problems, Split, drill_name, fresh_set, held_out, mixture, problem_at, problems, test_set,
    validation_set,
};

/// One problem: what is asked, one right answer, and what the checker needs to judge any other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Problem {
    /// Name of the task.
    pub task: String,
    /// Kind within the task, such as `lines/shuffle`.
    pub kind: String,
    /// What the user says.
    pub prompt: String,
    /// One right answer, in one of its wordings.
    pub response: String,
    /// Canonical identity of the problem, the same in every wording.
    pub key: String,
    /// The content of the problem, for the checker.
    pub facts: Facts,
}

/// The content of a problem, one variant per task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Facts {
    /// Of `arith`.
    Arith(Story),
    /// Of `choice`.
    Choice(Question),
    /// Of `program`.
    Program(Assignment),
    /// Of `lines`.
    Lines(Queue),
    /// Of `grid`.
    Grid(Puzzle),
    /// Of `open`.
    Open(Wish),
}

/// The checker's judgement of one response.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Score {
    /// The final answer is right.
    pub correct: bool,
    /// The whole text is right too: every stated fact holds and one wording is kept throughout.
    /// `None` where the answer is the whole text.
    pub strict: Option<bool>,
    /// The answer found in the response, if any.
    pub extracted: Option<String>,
}

/// A family of problems.
///
/// ```
/// use demask_eval::task::{self, Split};
/// let task = task::by_name("arith").expect("there is such a task");
/// let problem = task::problem_at(task.as_ref(), Split::Train, 7, 0);
/// assert!(task.score(&problem, &problem.response).correct);
/// assert!(!task.score(&problem, "no idea").correct);
/// ```
pub trait Task: Send + Sync {
    /// Short name, as on the command line.
    fn name(&self) -> &'static str;
    /// Raised whenever the generated text or the checker changes.
    fn version(&self) -> u32;
    /// Every kind this task generates.
    fn kinds(&self) -> &'static [&'static str];
    /// Draws one problem, told in usual or in fresh words.
    fn generate(&self, rng: &mut Rng, wording: Wording) -> Problem;
    /// Draws a problem that drills what this task's problems need most and show least often. Training may mix them in
    /// (as `NAME/drill`); they are never held out. Nothing where the task needs none.
    fn drill(&self, _rng: &mut Rng) -> Option<Problem> {
        None
    }
    /// Judges a response by program. A problem of another task scores wrong.
    fn score(&self, problem: &Problem, response: &str) -> Score;
}

/// Every task, in the order of reports.
pub fn all() -> Vec<Box<dyn Task>> {
    vec![
        Box::new(arith::Arith),
        Box::new(choice::Choice),
        Box::new(program::Program),
        Box::new(lines::Lines),
        Box::new(grid::Grid),
        Box::new(open::Open),
    ]
}

/// The task called `name`.
pub fn by_name(name: &str) -> Option<Box<dyn Task>> {
    all().into_iter().find(|task| task.name() == name)
}

#[cfg(test)]
mod tests;
