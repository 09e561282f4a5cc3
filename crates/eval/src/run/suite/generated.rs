//! Held-out problems of a generated task as a suite.

use demask_engine::Text;

use super::{Item, Suite};
use crate::error::Result;
use crate::task::{self, Problem, Score, Split, Task, held_out};

/// Problems of each held-out split that the length of the canvas is taken from.
const MEASURED: usize = 256;
/// What follows a task's name where its problems are told in fresh wording: `arith:fresh`.
const FRESH: &str = ":fresh";
/// The length is a multiple of this, as the lengths a model trains with are.
const ROUND: usize = 8;
/// What separates a problem's number from the number of a further draw in an item's name: `12#3`.
const DRAW: char = '#';

/// The first problems of a split of a task, each asked once or several times.
pub struct Generated {
    name: String,
    task: Box<dyn Task>,
    problems: Vec<Problem>,
    length: usize,
    draws: usize,
}

impl Generated {
    /// The task of a suite's name, `arith` or `arith:fresh`, and whether it is told in fresh wording.
    pub fn find(name: &str) -> Option<(Box<dyn Task>, bool)> {
        match name.strip_suffix(FRESH) {
            Some(task) => Some((task::by_name(task)?, true)),
            None => Some((task::by_name(name)?, false)),
        }
    }

    /// What the fresh wording of a suite is called; nothing where the suite is one already.
    pub fn fresh_name(name: &str) -> Option<String> {
        (!name.ends_with(FRESH)).then(|| format!("{name}{FRESH}"))
    }

    /// The first `n` problems of the split. The response canvas is as long as the longest of a fixed set of reference
    /// answers, whatever `n` and split are, unless `length` says otherwise.
    pub fn new(
        task: Box<dyn Task>,
        split: Split,
        n: usize,
        text: &Text,
        length: Option<usize>,
    ) -> Result<Self> {
        let problems = held_out(task.as_ref(), split, n);
        let length = length.map_or_else(|| longest(task.as_ref(), text), Ok)?;
        let fresh = if split == Split::Fresh { FRESH } else { "" };
        Ok(Self { name: format!("{}{fresh}", task.name()), task, problems, length, draws: 1 })
    }

    /// The same problems, each asked `draws` times with randomness of its own: item `i` is draw `i % draws` of problem
    /// `i / draws`. The first draw is the item that is asked once.
    pub fn drawn(self, draws: usize) -> Self {
        Self { draws: draws.max(1), ..self }
    }

    /// The problem that an item of this name asks, whichever draw it is.
    pub fn problem_of(id: &str) -> &str {
        id.split_once(DRAW).map_or(id, |(problem, _)| problem)
    }

    /// The problems.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Length of the response canvas.
    pub fn length(&self) -> usize {
        self.length
    }
}

/// Room for every answer of a fixed set and its end of sequence.
fn longest(task: &dyn Task, text: &Text) -> Result<usize> {
    let mut longest = 0;
    for split in [Split::Validation, Split::Test, Split::Fresh] {
        for problem in task::held_out(task, split, MEASURED) {
            longest = longest.max(text.tokenizer().encode(&problem.response)?.len() + 1);
        }
    }
    Ok(longest.next_multiple_of(ROUND))
}

impl Suite for Generated {
    fn name(&self) -> &str {
        &self.name
    }

    fn version(&self) -> u32 {
        self.task.version()
    }

    fn len(&self) -> usize {
        self.problems.len() * self.draws
    }

    fn item(&self, index: usize, text: &Text) -> Result<Item> {
        let (number, draw) = (index / self.draws, index % self.draws);
        let problem = &self.problems[number];
        let (prompt, tokens) = text.user(&problem.prompt)?;
        Ok(Item {
            id: if draw == 0 { number.to_string() } else { format!("{number}{DRAW}{draw}") },
            kind: Some(problem.kind.replacen(self.task.name(), &self.name, 1)),
            prompt,
            tokens,
            max_new_tokens: self.length,
            until: Vec::new(),
        })
    }

    fn score(&self, index: usize, response: &str) -> Result<Score> {
        Ok(self.task.score(&self.problems[index / self.draws], response))
    }
}
