//! `lines`, in the manner of ParallelBench's waiting line: operations on a list of names.
//!
//! `shuffle` is the pure dependency case: every order is right, so each place alone may hold any name, but a name
//! repeated or missing is wrong.

use serde::{Deserialize, Serialize};

use super::names::NAMES;
use super::{Facts, Problem, Rng, Score, Task, Wording};

const SHORTEST: i64 = 3;
const LONGEST: i64 = 5;
const KINDS: [&str; 7] = [
    "lines/copy",
    "lines/reverse",
    "lines/sort",
    "lines/insert",
    "lines/remove",
    "lines/replace",
    "lines/shuffle",
];
/// The kind of the drill.
const BESIDE: &str = "lines/beside";
/// How a response opens; it then lists the names.
const LEADS: [&str; 3] = ["The line is", "Now the line is", "Here it is:"];

/// The `lines` task.
pub(super) struct Lines;

/// The content of a `lines` problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    /// The names that must come back.
    pub expected: Vec<String>,
    /// Whether their order is free.
    pub any_order: bool,
}

impl Task for Lines {
    fn name(&self) -> &'static str {
        "lines"
    }

    fn version(&self) -> u32 {
        4
    }

    fn kinds(&self) -> &'static [&'static str] {
        &KINDS
    }

    fn generate(&self, rng: &mut Rng, _wording: Wording) -> Problem {
        let kind = *rng.pick(&KINDS);
        let length = rng.between(SHORTEST, LONGEST) as usize;
        self.compose(rng, kind, length)
    }

    /// Insertion beside someone, harder than what is asked: a name must be found and a gap opened there.
    fn drill(&self, rng: &mut Rng) -> Option<Problem> {
        let length = rng.between(2, LONGEST) as usize;
        Some(self.compose(rng, BESIDE, length))
    }

    fn score(&self, problem: &Problem, response: &str) -> Score {
        let Facts::Lines(queue) = &problem.facts else { return Score::default() };
        let found = listed(response);
        let correct = queue.accepts(&found);
        let text = response.trim();
        let strict = correct && LEADS.iter().any(|lead| text == format!("{lead} {}.", found.join(", ")));
        Score { correct, strict: Some(strict), extracted: Some(found.join(", ")) }
    }
}

impl Lines {
    fn compose(&self, rng: &mut Rng, kind: &str, length: usize) -> Problem {
        let mut names = rng.sample(&NAMES, length + 1);
        let spare = names.pop().unwrap_or(NAMES[0]);
        let at = rng.below(length);
        let drawn = operate(rng, kind, &names, at, spare);
        let list = names.join(", ");
        let prompt = if rng.coin() {
            format!("Line: {list}. {}", drawn.command)
        } else {
            format!("{} Line: {list}.", drawn.command)
        };
        Problem {
            task: self.name().into(),
            kind: kind.into(),
            prompt,
            response: format!("{} {}.", rng.pick(&LEADS), drawn.answer.join(", ")),
            key: drawn.key,
            facts: Facts::Lines(Queue {
                expected: drawn.answer.iter().map(ToString::to_string).collect(),
                any_order: kind == "lines/shuffle",
            }),
        }
    }
}

impl Queue {
    fn accepts(&self, found: &[&str]) -> bool {
        if !self.any_order {
            return self.expected == found;
        }
        let (mut expected, mut found): (Vec<&str>, _) =
            (self.expected.iter().map(String::as_str).collect(), found.to_vec());
        expected.sort_unstable();
        found.sort_unstable();
        expected == found
    }
}

/// One operation: what is said, what comes out, what identifies the problem.
struct Operation {
    command: String,
    answer: Vec<&'static str>,
    key: String,
}

fn operate(rng: &mut Rng, kind: &str, names: &[&'static str], at: usize, spare: &'static str) -> Operation {
    let mut answer = names.to_vec();
    let chosen = names[at];
    // The order of the given list is part of the content, except where the answer does not depend on it.
    let mut order = names.to_vec();
    let (command, argument) = match kind {
        "lines/copy" => (rng.pick(&["Copy it.", "Say it again."]).to_string(), String::new()),
        "lines/reverse" => {
            answer.reverse();
            (rng.pick(&["Reverse it.", "Turn it around."]).to_string(), String::new())
        }
        "lines/sort" => {
            answer.sort_unstable();
            order.sort_unstable();
            (rng.pick(&["Sort it.", "Put it in order."]).to_string(), String::new())
        }
        "lines/insert" => {
            let (place, end) = *rng.pick(&[(0, "first"), (names.len(), "last")]);
            answer.insert(place, spare);
            let command = rng.pick(&["Insert {a} {s}.", "Put {a} {s}."]);
            (command.replace("{a}", spare).replace("{s}", end), format!("{spare}@{place}"))
        }
        BESIDE => {
            let (place, side) = *rng.pick(&[(at, "before"), (at + 1, "after")]);
            answer.insert(place, spare);
            let command = rng.pick(&["Insert {a} {s} {b}.", "Put {a} {s} {b}."]);
            // "After the third" and "before the fourth" are one problem.
            (
                command.replace("{a}", spare).replace("{s}", side).replace("{b}", chosen),
                format!("{spare}@{place}"),
            )
        }
        "lines/remove" => {
            answer.remove(at);
            (rng.pick(&["Remove {b}.", "Take {b} out."]).replace("{b}", chosen), chosen.to_string())
        }
        "lines/replace" => {
            answer[at] = spare;
            let command = rng.pick(&["Replace {b} with {a}.", "Put {a} in place of {b}."]);
            (command.replace("{a}", spare).replace("{b}", chosen), format!("{spare}/{chosen}"))
        }
        _ => {
            rng.shuffle(&mut answer);
            order.sort_unstable();
            (rng.pick(&["Shuffle it.", "Mix it up."]).to_string(), String::new())
        }
    };
    Operation { command, answer, key: format!("{kind}:{}:{argument}", order.join(",")) }
}

/// The names a response lists: after its last lead, up to the end, separated by commas.
fn listed(response: &str) -> Vec<&str> {
    let text = response.trim();
    let text = text.strip_suffix('.').unwrap_or(text);
    let start = [" is ", ": "]
        .iter()
        .filter_map(|lead| text.rfind(lead).map(|at| at + lead.len()))
        .max()
        .unwrap_or(0);
    text[start..].split(',').map(str::trim).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(expected: &[&str], any_order: bool) -> Problem {
        Problem {
            task: "lines".into(),
            kind: String::new(),
            prompt: String::new(),
            response: String::new(),
            key: String::new(),
            facts: Facts::Lines(Queue {
                expected: expected.iter().map(ToString::to_string).collect(),
                any_order,
            }),
        }
    }

    #[test]
    fn order_is_judged_only_where_it_matters() {
        let kept = problem(&["Amy", "Bob", "Cal"], false);
        let free = problem(&["Amy", "Bob", "Cal"], true);
        for (text, in_order, shuffled) in [
            ("The line is Amy, Bob, Cal.", true, true),
            ("Here it is: Cal, Bob, Amy.", false, true),
            ("Amy, Bob, Cal", true, true),
            ("The line is Amy, Bob, Bob.", false, false),
            ("The line is Amy, Bob.", false, false),
            ("The line is Amy, Bob, Cal, Dan.", false, false),
            ("The line is Amy, Bob, Cal, Cal.", false, false),
            ("", false, false),
        ] {
            assert_eq!(Lines.score(&kept, text).correct, in_order, "{text}");
            assert_eq!(Lines.score(&free, text).correct, shuffled, "{text}");
        }
        assert_eq!(Lines.score(&kept, "Amy, Bob, Cal").strict, Some(false));
    }

    #[test]
    fn names_are_sorted_and_differ_in_their_initial() {
        assert!(NAMES.windows(2).all(|pair| pair[0].as_bytes()[0] < pair[1].as_bytes()[0]));
    }
}
