//! `open`: problems with many right answers, where only dependency decides.
//!
//! "Write four different sums that make 20.": the parts of an answer are free and independent of one another, the tokens
//! within a part are not — the paper's "1 + □ = □" many times over. Numbers of reference answers are drawn uniformly among the
//! valid ones, so that no single token is likely by itself and only tokens that agree make an answer; words are more often than
//! not those that everybody names first ([`obvious`]). Most parts are written in order, as people do: that a part is none of the
//! others is then plain to see, and a small model learns it.
//!
//! Invariant: an answer is judged by what it says, not by whether it is the reference.

mod demand;
mod letters;
mod list;
mod numbers;
mod obvious;
mod read;
mod records;
mod sequence;
mod square;
mod sums;
mod variety;

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

pub use demand::Demand;
pub use variety::Variety;

use super::lexicon::{capital, in_words, untidy};
use super::phrase::{Phrases, chatter, fill};
use super::{Facts, Problem, Rng, Score, Task, Wording};

static PATTERNS: LazyLock<Phrases> =
    LazyLock::new(|| Phrases::parse(crate::task::wordings::text("open/patterns.txt")));

const KINDS: [&str; 12] = [
    "open/sums",
    "open/results",
    "open/pairs",
    "open/rule",
    "open/count",
    "open/order",
    "open/compare",
    "open/share",
    "open/letters",
    "open/list",
    "open/records",
    "open/square",
];

/// The kinds in which one number follows from others, which take the longest to learn.
const DRILLED: [&str; 7] =
    ["open/sums", "open/results", "open/results", "open/pairs", "open/share", "open/count", "open/letters"];

/// How the parts of an answer are set apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// Each on a line of its own.
    Lines,
    /// On one line, with commas.
    Commas,
}

/// The content of an `open` problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wish {
    /// What is asked for.
    pub demand: Demand,
    /// How it is to be set out; as the answer likes where nothing is said.
    pub layout: Option<Layout>,
}

/// The `open` task.
pub(super) struct Open;

impl Task for Open {
    fn name(&self) -> &'static str {
        "open"
    }

    fn version(&self) -> u32 {
        9
    }

    fn kinds(&self) -> &'static [&'static str] {
        &KINDS
    }

    fn generate(&self, rng: &mut Rng, wording: Wording) -> Problem {
        let kind = *rng.pick(&KINDS);
        self.compose(rng, wording, kind)
    }

    fn drill(&self, rng: &mut Rng) -> Option<Problem> {
        let kind = *rng.pick(&DRILLED);
        Some(self.compose(rng, Wording::Usual, kind))
    }

    fn score(&self, problem: &Problem, response: &str) -> Score {
        let Facts::Open(wish) = &problem.facts else { return Score::default() };
        let parts = read::parts(response);
        let several = response.trim().contains('\n');
        let placed = match wish.layout {
            Some(Layout::Lines) => several || parts.len() == 1,
            Some(Layout::Commas) => !several,
            None => true,
        };
        let extracted = wish.demand.read(response, &parts);
        Score { correct: placed && extracted.is_some(), strict: None, extracted }
    }
}

impl Open {
    fn compose(&self, rng: &mut Rng, wording: Wording, kind: &str) -> Problem {
        let (demand, mut prompt) = Demand::draw(rng, wording, kind);
        let layout =
            (demand.has_parts() && rng.below(8) == 0).then(|| *rng.pick(&[Layout::Lines, Layout::Commas]));
        if let Some(layout) = layout {
            let section = if layout == Layout::Lines { "layout.lines" } else { "layout.commas" };
            let request = PATTERNS.draw(rng, wording, section);
            let stop = if prompt.ends_with(['.', '?', '!', ':']) { "" } else { "." };
            prompt = format!("{prompt}{stop} {request}");
        }
        let answer = demand.answer(rng, wording);
        let shown = layout.unwrap_or(if rng.below(8) > 0 { Layout::Commas } else { Layout::Lines });
        Problem {
            task: self.name().into(),
            kind: kind.into(),
            prompt: if prompt.contains('\n') {
                prompt
            } else {
                let prompt = chatter(rng, wording, "open", prompt);
                untidy(rng, prompt)
            },
            response: if demand.has_parts() { shown.set(&answer) } else { answer.join("\n") },
            key: format!("{kind}:{}", demand.key()),
            facts: Facts::Open(Wish { demand, layout }),
        }
    }
}

impl Layout {
    fn set(self, parts: &[String]) -> String {
        parts.join(if self == Self::Lines { "\n" } else { ", " })
    }
}

/// Whether an answer whose parts may stand in any order is written in order.
fn in_order(rng: &mut Rng) -> bool {
    rng.below(10) < 9
}

/// Draws a pattern of a section and fills in the count.
fn told(rng: &mut Rng, wording: Wording, section: &str, count: usize, slots: &[(&str, &str)]) -> String {
    let number = count as i64;
    let count = if rng.below(5) < 3 { in_words(number) } else { number.to_string() };
    let pattern = PATTERNS.draw(rng, wording, section);
    let text = fill(&pattern, slots);
    let text = fill(&text, &[("n", &count), ("N", &capital(&count))]);
    // A pattern may begin with a slot; the words of a list stay as they are.
    if pattern.starts_with('{') && section != "shuffle" { capital(&text) } else { text }
}

#[cfg(test)]
mod tests;
