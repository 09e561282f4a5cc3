//! `lines`, in the manner of ParallelBench's waiting line: orders over lists of names, words, numbers and letters.
//!
//! `shuffle` is the pure dependency case: every other order is right, so each place alone may hold any name, but a name
//! repeated or missing is wrong. The wordings of orders are data (`orders.txt`, `frames.txt`): an order and a frame are
//! drawn apart from each other, and the list in one of a dozen layouts.

mod drill;
mod items;
mod operation;
mod prompt;

use serde::{Deserialize, Serialize};

use super::book::fill;
use super::lexicon::Wording;
use super::{Facts, Problem, Rng, Score, Task};
use items::{Items, Sort};
use operation::Operation;

const KINDS: [&str; 12] = [
    "lines/copy",
    "lines/reverse",
    "lines/sort",
    "lines/shuffle",
    "lines/remove",
    "lines/replace",
    "lines/add",
    "lines/insert",
    "lines/swap",
    "lines/pick",
    "lines/count",
    "lines/double",
];

/// The `lines` task.
pub(super) struct Lines;

/// The content of a `lines` problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    /// The list as given.
    pub given: Vec<String>,
    /// What must come back; for a shuffle one of many right orders.
    pub expected: Vec<String>,
    /// How a response is compared with it.
    pub wanted: Wanted,
    /// Members the question itself names, which an answer may repeat.
    pub asked: Vec<String>,
    /// The wordings of an answer, with `{l}` for the list.
    pub wordings: Vec<String>,
}

/// What a `lines` problem wants back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wanted {
    /// The expected list in its order.
    Order,
    /// The given list in any order but its own.
    Shuffle,
    /// One member.
    One,
    /// A number.
    Count,
}

impl Task for Lines {
    fn name(&self) -> &'static str {
        "lines"
    }

    fn version(&self) -> u32 {
        11
    }

    fn kinds(&self) -> &'static [&'static str] {
        &KINDS
    }

    fn generate(&self, rng: &mut Rng, wording: Wording) -> Problem {
        let section = operation::section(rng);
        let items = Items::draw(rng, wording, operation::needs_order(section));
        let mut operation = operation::operate(rng, section, &items);
        let prompt = prompt::tell(rng, wording, &items, &operation);
        operation.queue.wordings = wordings(&items, &operation);
        problem(rng, prompt, operation.kind, operation.key, operation.queue)
    }

    fn drill(&self, rng: &mut Rng) -> Option<Problem> {
        Some(drill::draw(rng))
    }

    fn score(&self, problem: &Problem, response: &str) -> Score {
        let Facts::Lines(queue) = &problem.facts else { return Score::default() };
        let found = queue.read(response);
        let correct = queue.accepts(&found);
        let list = found.join(", ");
        let worded = |wording: &String| fill(wording, &[("l", &list)]) == response.trim();
        let in_lines = found.len() > 1 && found.join("\n") == response.trim();
        let strict = correct && (in_lines || queue.wordings.iter().any(worded));
        Score { correct, strict: Some(strict), extracted: Some(list) }
    }
}

/// A problem with one of its answers: five in six of them in the usual wording, which has a lead, so that most items follow a
/// space, as they do in most prompts (a word with a space before it and the same without one are different tokens). Wordings
/// as likely as each other leave the length of the answer open until its last word, and one token at a time, the most certain
/// first, settles the end before the beginning. A list that was typed in lines is answered in lines.
fn problem(rng: &mut Rng, prompt: String, kind: &str, key: String, queue: Queue) -> Problem {
    let usual = queue.wordings.get(1).filter(|_| rng.below(6) > 0);
    let wording = usual.unwrap_or_else(|| rng.pick(&queue.wordings));
    let in_lines = queue.given.len() > 1
        && matches!(queue.wanted, Wanted::Order | Wanted::Shuffle)
        && queue.given.iter().all(|item| prompt.contains(&format!("\n{item}")));
    let response = if in_lines {
        queue.expected.join("\n")
    } else {
        fill(wording, &[("l", &queue.expected.join(", "))])
    };
    Problem {
        task: Lines.name().into(),
        kind: kind.into(),
        prompt,
        response,
        key,
        facts: Facts::Lines(queue),
    }
}

/// The wordings of the answer to an operation.
fn wordings(items: &Items, operation: &Operation) -> Vec<String> {
    let (p, b, things) = (&operation.p, &operation.b, &items.things);
    let line = if items.sort == Sort::People { "line" } else { "list" };
    let title = if items.sort == Sort::People { "Line" } else { "List" };
    let mut found = vec!["{l}".to_owned()];
    match operation.queue.wanted {
        Wanted::One if operation.section == "beside" => {
            found.extend(["It is {l}.".into(), format!("{{l}} is {p} {b}."), "The answer is {l}.".into()]);
        }
        Wanted::One => {
            found.extend(["It is {l}.".into(), format!("{{l}} is {p}."), "The answer is {l}.".into()]);
        }
        Wanted::Count => {
            found.extend([format!("There are {{l}} {things}."), format!("The {line} has {{l}} {things}.")]);
        }
        Wanted::Order | Wanted::Shuffle => {
            found.extend([format!("{title}: {{l}}."), "Here it is: {l}.".into()]);
            found.push(match operation.kind {
                "lines/reverse" | "lines/sort" | "lines/shuffle" | "lines/swap" => {
                    "The new order is {l}.".into()
                }
                "lines/copy" => format!("The {line} is {{l}}."),
                _ => format!("The {line} is now {{l}}."),
            });
        }
    }
    found
}

impl Queue {
    /// What a response gives as its answer.
    fn read(&self, response: &str) -> Vec<String> {
        match self.wanted {
            Wanted::Order | Wanted::Shuffle => listed(response),
            Wanted::Count => numbers(response).map(|number| number.to_string()).collect(),
            Wanted::One => self.mentioned(response),
        }
    }

    fn accepts(&self, found: &[String]) -> bool {
        let small = |list: &[String]| list.iter().map(|item| item.to_lowercase()).collect::<Vec<_>>();
        let (found, expected) = (small(found), small(&self.expected));
        if self.wanted != Wanted::Shuffle {
            return found == expected;
        }
        let sorted = |mut list: Vec<String>| {
            list.sort_unstable();
            list
        };
        found != small(&self.given) && sorted(found) == sorted(expected)
    }

    /// The members a response names, each once, without those the question named; and every number that is no member, so that
    /// naming one more than is right cannot pass.
    fn mentioned(&self, response: &str) -> Vec<String> {
        // An item may be of several words; what stands first in the response comes first.
        let plain = |text: &str| format!(" {} ", words(text).collect::<Vec<_>>().join(" ").to_lowercase());
        let said = plain(response);
        let known = self.given.iter().chain(&self.expected).chain(&self.asked);
        let mut found: Vec<(usize, String)> =
            known.filter_map(|item| Some((said.find(&plain(item))?, item.clone()))).collect();
        for word in words(response).filter(|word| word.parse::<i64>().is_ok()) {
            found.extend(said.find(&plain(word)).map(|at| (at, word.to_owned())));
        }
        found.sort_unstable();
        found.dedup();
        let told = |item: &String| self.asked.contains(item) && !self.expected.contains(item);
        found.into_iter().map(|(_, item)| item).filter(|item| !told(item)).collect()
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty())
}

fn numbers(text: &str) -> impl Iterator<Item = i64> {
    words(text).filter_map(|word| word.parse().ok())
}

/// The items a response lists: after its last lead, up to the end, with commas, semicolons, "and" or line breaks between them.
fn listed(response: &str) -> Vec<String> {
    let text = response.trim().trim_end_matches('.');
    let start = [" is now ", " is ", " are ", ": ", ":\n"]
        .iter()
        .filter_map(|lead| text.rfind(lead).map(|at| at + lead.len()))
        .max()
        .unwrap_or(0);
    let list = text[start..].replace(" and ", ", ").replace(['\n', ';'], ",");
    list.split(',').map(|item| bare(item).to_owned()).filter(|item| !item.is_empty()).collect()
}

/// An item without its bullet, number, quotes or brackets.
fn bare(item: &str) -> &str {
    let item = item.trim();
    let item = item.strip_prefix("and ").unwrap_or(item);
    let item = item.trim_start_matches(['-', '*', ' ']);
    let unnumbered = item.trim_start_matches(|c: char| c.is_ascii_digit());
    let item = match unnumbered.strip_prefix(['.', ')']) {
        Some(rest) if unnumbered.len() < item.len() => rest,
        _ => item,
    };
    item.trim_matches(['"', '\'', '[', ']', ' ', '.'])
}

#[cfg(test)]
mod tests;
