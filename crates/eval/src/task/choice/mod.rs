//! `choice`, in the manner of MMLU-Pro: two to ten options, a fact, "the answer is X".
//!
//! The fact states the right option as it stands among the options, and its label follows at once: a look-up is two copies
//! beside each other. Options without labels are answered by their text. The wordings of questions are data (`asks.txt`,
//! `stories.txt`, `frames.txt`); categories come from the lexicon.

mod draw;
mod kinds;
mod layout;
mod lookup;
mod number;
mod verdict;

use serde::{Deserialize, Serialize};

use super::book::{closed, fill};
use super::lexicon::{Wording, capital};
use super::{Facts, Problem, Rng, Score, Task};
use draw::Draw;

const KINDS: [&str; 11] = [
    "choice/category",
    "choice/odd",
    "choice/kind",
    "choice/initial",
    "choice/bound",
    "choice/extreme",
    "choice/multiple",
    "choice/sum",
    "choice/story",
    "choice/lookup",
    "choice/yes",
];

/// The `choice` task.
pub(super) struct Choice;

/// The content of a `choice` problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// The options in their order.
    pub options: Vec<String>,
    /// Their labels; none where the options have none.
    pub labels: Vec<String>,
    /// Which option is right.
    pub answer: usize,
    /// Every wording of the answer.
    pub wordings: Vec<String>,
}

impl Task for Choice {
    fn name(&self) -> &'static str {
        "choice"
    }

    fn version(&self) -> u32 {
        10
    }

    fn kinds(&self) -> &'static [&'static str] {
        &KINDS
    }

    fn generate(&self, rng: &mut Rng, wording: Wording) -> Problem {
        let count = layout::count(rng);
        let drawn = match rng.below(100) {
            0..14 => draw::category(rng, wording, count),
            14..17 => draw::useful(rng, wording, count),
            17..25 => draw::odd(rng, wording, count),
            25..30 => draw::kind(rng, wording, count.min(6)),
            30..38 => draw::initial(rng, wording, count),
            38..40 => draw::alphabet(rng, wording, count.min(5)),
            40..47 => number::bound(rng, wording, count),
            47..55 => number::extreme(rng, wording, count),
            55..61 => number::multiple(rng, wording, count),
            61..76 => number::sum(rng, wording, count),
            76..86 => number::story(rng, wording, count),
            86..89 => number::sums(rng, wording),
            89..93 => return lookup::draw(rng, wording, count),
            _ => return verdict::draw(rng, wording),
        };
        self.compose(rng, wording, drawn)
    }

    /// Look-ups by label and by text, all labels at once, computed numbers among few options; what each of several words is;
    /// what is true of two numbers.
    fn drill(&self, rng: &mut Rng) -> Option<Problem> {
        let wording = Wording::Usual;
        Some(match rng.below(16) {
            10..14 => kinds::draw(rng),
            14..16 => verdict::draw(rng, wording),
            0..5 => {
                let count = layout::count(rng).min(6);
                lookup::every(rng, wording, count)
            }
            5..8 => {
                let count = layout::count(rng);
                lookup::draw(rng, wording, count)
            }
            _ => {
                let count = 2 + rng.below(3);
                let mut drawn = number::sum(rng, wording, count);
                drawn.labelled = Some(true);
                self.compose(rng, wording, drawn)
            }
        })
    }

    fn score(&self, problem: &Problem, response: &str) -> Score {
        let Facts::Choice(question) = &problem.facts else { return Score::default() };
        let found = question.read(response);
        let right = question.labels.get(question.answer).or(question.options.get(question.answer));
        let correct = found.is_some() && found.as_ref() == right;
        let strict = question.wordings.iter().any(|wording| wording == response.trim());
        Score { correct, strict: Some(correct && strict), extracted: found }
    }
}

impl Choice {
    /// Places the options and words prompt and answer.
    fn compose(&self, rng: &mut Rng, wording: Wording, drawn: Draw) -> Problem {
        let mut options = drawn.others.clone();
        let answer = rng.below(options.len() + 1);
        rng.shuffle(&mut options);
        options.insert(answer, drawn.answer.clone());
        let in_order = drawn.numeric && rng.below(4) == 0;
        let answer = if in_order { ascending(&mut options, &drawn.answer) } else { answer };
        let labelled = drawn.labelled.unwrap_or_else(|| rng.below(9) < 7);
        let labels = if labelled { layout::labels(rng, options.len(), drawn.numeric) } else { Vec::new() };
        let prompt = if drawn.stem.text.contains("{or}") {
            let inline = layout::inline(rng, wording, &labels, &options);
            closed(&fill(&drawn.stem.text, &[("or", &inline)]))
        } else {
            layout::prompt(rng, wording, &drawn.stem, &labels, &options)
        };
        let mut content = options.clone();
        content.sort_unstable();
        let key = format!("{}:{}:{}", drawn.kind, drawn.content, content.join(","));
        let wordings = wordings(&drawn, labels.get(answer).map(String::as_str));
        problem(rng, prompt, drawn.kind, key, Question { options, labels, answer, wordings })
    }
}

/// Sorts options that are numbers; where the right one then stands.
fn ascending(options: &mut [String], right: &str) -> usize {
    options.sort_by_key(|option| option.parse::<i64>().unwrap_or(i64::MAX));
    options.iter().position(|option| option == right).unwrap_or(0)
}

fn problem(rng: &mut Rng, prompt: String, kind: &str, key: String, question: Question) -> Problem {
    Problem {
        task: Choice.name().into(),
        kind: kind.into(),
        prompt,
        response: rng.pick(&question.wordings).clone(),
        key,
        facts: Facts::Choice(question),
    }
}

/// Every wording of the answer: a fact, then the label or, where there is none, the option itself.
fn wordings(drawn: &Draw, label: Option<&str>) -> Vec<String> {
    let mut found = Vec::new();
    let facts = drawn.facts.iter().map(|fact| (fact, false));
    for (fact, closing) in facts.chain(drawn.closing.iter().map(|fact| (fact, true))) {
        let endings: &[&str] = match (label, closing) {
            (Some(_), true) => &[
                ", which is {x}.",
                ", which is {x}.",
                ". The answer is {x}.",
                ". {V} is option {x}.",
                ". Answer: {x}) {v}",
            ],
            (Some(_), false) if drawn.kind == "choice/kind" => {
                &[", so the answer is {x}.", ". The answer is {x}."]
            }
            (Some(_), false) => &[", so the answer is {x}.", ". The answer is {x}.", ". {V} is option {x}."],
            (None, true) => &["."],
            (None, false) => &[".", ", so the answer is {v}."],
        };
        found.extend(endings.iter().map(|ending| format!("{fact}{ending}")));
    }
    // A number that has to be computed is not answered before its sum.
    if label.is_none() && !drawn.closing.iter().any(|fact| fact.contains(" = ")) {
        found.push("{v}".into());
    }
    let (v, large) = (drawn.answer.as_str(), capital(&drawn.answer));
    let slots = [("v", v), ("V", large.as_str()), ("x", label.unwrap_or_default())];
    found.iter().map(|text| fill(text, &slots)).collect()
}

impl Question {
    /// The label a response gives or, where the options have none, the option.
    fn read(&self, response: &str) -> Option<String> {
        if self.labels.is_empty() { self.option(response) } else { self.label(response) }
    }

    /// The label after the last word that announces one, or at the very beginning.
    fn label(&self, response: &str) -> Option<String> {
        const MARKS: [&str; 6] = ["answer is", "answer:", "option", "which is", "so it is", "letter"];
        let lower = response.to_ascii_lowercase();
        let mut places: Vec<usize> = MARKS
            .iter()
            .flat_map(|mark| lower.match_indices(mark).map(|(at, found)| at + found.len()))
            .collect();
        places.sort_unstable();
        let marked = places.into_iter().rev().find_map(|at| self.label_at(&response[at..], false));
        marked.or_else(|| self.label_at(response, true))
    }

    /// The label a text begins with. "An apple" begins with none, nor does "a plum" — after a mark; at the beginning of a
    /// response a label needs a bracket, a stop or the end behind it.
    fn label_at(&self, text: &str, opening: bool) -> Option<String> {
        let text = text.trim_start_matches([' ', '(', '\n', '"', '\'', '*', '[']);
        let end = text.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        let known = self.labels.iter().find(|label| label.eq_ignore_ascii_case(word))?;
        let apart =
            rest.is_empty() || rest.starts_with([')', '.', ':', ',', '!', ';', '"', '\'', '*', ']', '\n']);
        let capital = word.starts_with(|c: char| c.is_ascii_uppercase() || c.is_ascii_digit());
        (apart || (capital && !opening && rest.starts_with(' '))).then(|| known.clone())
    }

    /// The option a response settles on: after its last "answer is", after its last equals sign, or the first it names.
    fn option(&self, response: &str) -> Option<String> {
        let lower = response.to_lowercase();
        let after = |mark: &str| lower.rfind(mark).map(|at| at + mark.len());
        let start = after("answer is").or_else(|| after("answer:")).or_else(|| after("= ")).unwrap_or(0);
        let rest = &lower[start..];
        let found = self.options.iter().filter_map(|option| {
            whole_word(rest, &option.to_lowercase()).map(|at| (at, std::cmp::Reverse(option.len()), option))
        });
        found.min().map(|(_, _, option)| option.clone())
    }
}

/// Where a text holds `word` with no letter or digit at either side.
fn whole_word(text: &str, word: &str) -> Option<usize> {
    text.match_indices(word).map(|(at, _)| at).find(|&at| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
    })
}

#[cfg(test)]
mod tests;
