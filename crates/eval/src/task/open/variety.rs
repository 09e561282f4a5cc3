//! How broad the answers to one open problem are, over seeds.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

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

impl Variety {
    /// Counts the different valid ones among the judged answers to one problem. Answers that differ in layout alone
    /// are one.
    pub fn of<'a>(scores: impl IntoIterator<Item = (bool, Option<&'a str>)>) -> Self {
        let (mut found, mut said) = (Self::default(), HashSet::new());
        for (correct, extracted) in scores {
            found.answers += 1;
            if correct {
                found.valid += 1;
                said.insert(extracted.unwrap_or_default());
            }
        }
        Self { distinct: said.len(), ..found }
    }
}
