//! Splits and streams: which problems train, which are held out, and in what order they come.
//!
//! Item `index` of a stream depends on (seed, index) alone, so a training run resumes anywhere at no cost.

use std::collections::HashSet;

use demask_model::hash::Hash;
use serde::{Deserialize, Serialize};

use super::rng::{Rng, mix};
use super::{Problem, Task, Wording, all};

/// Which part of the problems of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Split {
    /// 29 of 32 problems.
    Train,
    /// 1 of 32 problems: thresholds and checkpoints are chosen on these.
    Validation,
    /// 2 of 32 problems: reported numbers come from these.
    Test,
    /// The problems of `Test` in fresh wording: names, nouns and sentence patterns that training never shows.
    Fresh,
}

impl Split {
    /// The split of the problem `key` of a task in usual wording: a stable hash of both names.
    pub fn of(task: &str, key: &str) -> Self {
        let hash = Hash::new().bytes(task.as_bytes()).bytes(&[0]).bytes(key.as_bytes());
        match mix(hash.value()) % 32 {
            0 | 1 => Self::Test,
            2 => Self::Validation,
            _ => Self::Train,
        }
    }

    /// The split its keys are of, and the wording its problems are told in.
    fn parts(self) -> (Self, Wording) {
        match self {
            Self::Fresh => (Self::Test, Wording::Fresh),
            other => (other, Wording::Usual),
        }
    }
}

/// Item `index` of the endless stream of a task's problems.
pub fn problem_at(task: &dyn Task, split: Split, seed: u64, index: u64) -> Problem {
    draw(task, split, &mut Rng::stream(seed, index))
}

fn draw(task: &dyn Task, split: Split, rng: &mut Rng) -> Problem {
    let (keys, wording) = split.parts();
    loop {
        let problem = task.generate(rng, wording);
        if Split::of(task.name(), &problem.key) == keys {
            return problem;
        }
    }
}

/// A drill of a task that is of the split.
fn draw_drill(task: &dyn Task, split: Split, rng: &mut Rng) -> Option<Problem> {
    let (keys, _) = split.parts();
    loop {
        let problem = task.drill(rng)?;
        if Split::of(task.name(), &problem.key) == keys {
            return Some(problem);
        }
    }
}

/// The endless stream of a task's problems; problems may recur.
pub fn problems(task: &dyn Task, split: Split, seed: u64) -> Problems<'_> {
    Problems { task, split, seed, index: 0 }
}

/// See [`problems`].
pub struct Problems<'a> {
    task: &'a dyn Task,
    split: Split,
    seed: u64,
    index: u64,
}

impl Iterator for Problems<'_> {
    type Item = Problem;

    fn next(&mut self) -> Option<Problem> {
        self.nth(0)
    }

    fn nth(&mut self, n: usize) -> Option<Problem> {
        let index = self.index + n as u64;
        self.index = index + 1;
        Some(problem_at(self.task, self.split, self.seed, index))
    }
}

/// The endless stream of all tasks, each drawn with the weight given for its name (1 if none is given) and its drills
/// with the weight given for `NAME/drill` (0 if none is given).
pub fn mixture(weights: &[(&str, f64)], split: Split, seed: u64) -> Mixture {
    let weight = |name: &str, absent: f64| {
        weights.iter().find(|(known, _)| *known == name).map_or(absent, |(_, weight)| weight.max(0.0))
    };
    let mut parts = Vec::new();
    for (task, drill) in all().into_iter().zip(all()) {
        parts.push(Weighted { weight: weight(task.name(), 1.0), drill: false, task });
        parts.push(Weighted { weight: weight(&drill_name(drill.as_ref()), 0.0), drill: true, task: drill });
    }
    Mixture { parts, split, seed, index: 0 }
}

/// What a mixture calls the drills of a task.
pub fn drill_name(task: &dyn Task) -> String {
    format!("{}/drill", task.name())
}

/// See [`mixture`].
pub struct Mixture {
    parts: Vec<Weighted>,
    split: Split,
    seed: u64,
    index: u64,
}

struct Weighted {
    weight: f64,
    drill: bool,
    task: Box<dyn Task>,
}

impl Iterator for Mixture {
    type Item = Problem;

    fn next(&mut self) -> Option<Problem> {
        self.nth(0)
    }

    fn nth(&mut self, n: usize) -> Option<Problem> {
        let index = self.index + n as u64;
        self.index = index + 1;
        let mut rng = Rng::stream(self.seed, index);
        let total: f64 = self.parts.iter().map(|part| part.weight).sum();
        let mut left = total * ((rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64);
        let part = self.parts.iter().find(|part| {
            left -= part.weight;
            left < 0.0
        })?;
        let task = part.task.as_ref();
        if part.drill {
            draw_drill(task, self.split, &mut rng)
        } else {
            Some(draw(task, self.split, &mut rng))
        }
    }
}

/// The first `n` test problems of a task: the same in every run, no two alike.
pub fn test_set(task: &dyn Task, n: usize) -> Vec<Problem> {
    held_out(task, Split::Test, n)
}

/// The first `n` test problems of a task in fresh wording: the same in every run, no two alike.
pub fn fresh_set(task: &dyn Task, n: usize) -> Vec<Problem> {
    held_out(task, Split::Fresh, n)
}

/// The first `n` validation problems of a task: the same in every run, no two alike.
pub fn validation_set(task: &dyn Task, n: usize) -> Vec<Problem> {
    held_out(task, Split::Validation, n)
}

/// The first `n` different problems of a split; fewer where the split holds fewer.
pub fn held_out(task: &dyn Task, split: Split, n: usize) -> Vec<Problem> {
    // The seed is a constant of the project: another one would be another test set.
    const SEED: u64 = 0x4845_4c44_4f55_5421;
    let patience = 64 * n + 1024;
    let mut seen = HashSet::new();
    problems(task, split, SEED)
        .take(patience)
        .filter(|problem| seen.insert(problem.key.clone()))
        .take(n)
        .collect()
}
