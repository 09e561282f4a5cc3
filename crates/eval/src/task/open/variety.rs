//! How broad the answers to one open problem are, over seeds.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use crate::task::{Problem, Task};

/// The answers to one prompt, drawn with different seeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variety {
    /// How many answers there are.
    pub answers: usize,
    /// How many of them are valid.
    pub valid: usize,
    /// How many valid ones differ in what they say.
    pub distinct: usize,
}

impl Variety {
    /// The share of the answers that are valid and say something new; nothing for no answers.
    pub fn share(&self) -> Option<f64> {
        (self.answers > 0).then(|| self.distinct as f64 / self.answers as f64)
    }
}

/// Counts the different valid answers among `responses` to one problem. Answers that differ in layout alone are one.
pub fn variety<S: AsRef<str>>(task: &dyn Task, problem: &Problem, responses: &[S]) -> Variety {
    let scores = responses.iter().map(|response| task.score(problem, response.as_ref()));
    let valid: Vec<String> =
        scores.filter(|score| score.correct).map(|score| score.extracted.unwrap_or_default()).collect();
    let distinct = valid.iter().collect::<HashSet<_>>().len();
    Variety { answers: responses.len(), valid: valid.len(), distinct }
}
