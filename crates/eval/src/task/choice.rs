//! `choice`, in the manner of MMLU-Pro: ten options, a short reasoning, "the answer is (X)".
//!
//! The reasoning states the fact with the option that says so, then names the letter, each in a wording kept from a
//! small set; `strict` accepts exactly those texts with a true fact and one letter throughout.

use serde::{Deserialize, Serialize};

use super::{Facts, Problem, Rng, Score, Task, Wording};

const OPTIONS: usize = 10;
const LETTERS: [char; OPTIONS] = ['A', 'B', 'C', 'D', 'E', 'F', 'G', 'H', 'I', 'J'];
const KINDS: [&str; 4] = ["choice/category", "choice/initial", "choice/bound", "choice/multiple"];
/// How the fact is opened.
const LEADS: [&str; 3] = ["Here", "We see that", "Note that"];
/// How the letter is concluded.
const ENDINGS: [&str; 3] = [". So the answer is {x}.", ", so the answer is {x}.", ", and the answer is {x}."];
/// What is known of the world.
const CATEGORIES: [(&str, [&str; 8]); 7] = [
    ("fruit", ["apple", "pear", "plum", "fig", "lime", "grape", "peach", "mango"]),
    ("animal", ["cat", "dog", "cow", "pig", "horse", "sheep", "goat", "mouse"]),
    ("color", ["red", "blue", "green", "pink", "black", "white", "brown", "gray"]),
    ("bird", ["crow", "duck", "hawk", "owl", "swan", "dove", "hen", "robin"]),
    ("metal", ["iron", "gold", "tin", "zinc", "silver", "copper", "brass", "steel"]),
    ("tree", ["oak", "pine", "elm", "ash", "birch", "cedar", "maple", "willow"]),
    ("drink", ["tea", "milk", "juice", "water", "coffee", "wine", "beer", "cider"]),
];

/// The `choice` task.
pub(super) struct Choice;

/// The content of a `choice` problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// The options, A first.
    pub options: Vec<String>,
    /// Which option is right.
    pub answer: usize,
    /// The fact that decides it, in each of its wordings, with `{v}` for the right option and `{x}` for its letter.
    pub reasons: Vec<String>,
}

impl Task for Choice {
    fn name(&self) -> &'static str {
        "choice"
    }

    fn version(&self) -> u32 {
        4
    }

    fn kinds(&self) -> &'static [&'static str] {
        &KINDS
    }

    fn generate(&self, rng: &mut Rng, _wording: Wording) -> Problem {
        let kind = *rng.pick(&KINDS);
        let mut drawn = match kind {
            "choice/category" => category(rng),
            "choice/initial" => initial(rng),
            "choice/bound" => bound(rng),
            _ => multiple(rng),
        };
        let mut options = std::mem::take(&mut drawn.others);
        let answer = rng.below(OPTIONS);
        rng.shuffle(&mut options);
        options.insert(answer, drawn.answer);
        let listed: String =
            options.iter().zip(LETTERS).map(|(option, letter)| format!(" ({letter}) {option}")).collect();
        let mut content = options.clone();
        content.sort_unstable();
        let key = format!("{kind}:{}:{}", drawn.content, content.join(","));
        let question = Question { options, answer, reasons: drawn.reasons };
        let wording = [rng.below(LEADS.len()), rng.below(question.reasons.len()), rng.below(ENDINGS.len())];
        Problem {
            task: self.name().into(),
            kind: kind.into(),
            prompt: format!("{}{listed}", rng.pick(&drawn.asks)),
            response: question.explain(wording),
            key,
            facts: Facts::Choice(question),
        }
    }

    fn score(&self, problem: &Problem, response: &str) -> Score {
        let Facts::Choice(question) = &problem.facts else { return Score::default() };
        let found = last_letter(response);
        let correct = found.is_some() && found == LETTERS.get(question.answer).copied();
        let strict = question.wordings().any(|wording| question.explain(wording) == response.trim());
        Score { correct, strict: Some(strict), extracted: found.map(String::from) }
    }
}

impl Question {
    fn wordings(&self) -> impl Iterator<Item = [usize; 3]> {
        let reasons = self.reasons.len();
        (0..LEADS.len() * reasons * ENDINGS.len())
            .map(move |i| [i % LEADS.len(), i / LEADS.len() % reasons, i / LEADS.len() / reasons])
    }

    fn explain(&self, [lead, reason, ending]: [usize; 3]) -> String {
        format!("{} {}{}", LEADS[lead], self.reasons[reason], ENDINGS[ending])
            .replace("{v}", &self.options[self.answer])
            .replace("{x}", &format!("({})", LETTERS[self.answer]))
    }
}

/// A question before its options are placed.
struct Draw {
    /// The question in each of its wordings.
    asks: Vec<String>,
    reasons: Vec<String>,
    answer: String,
    others: Vec<String>,
    /// What the question is about, the options apart.
    content: String,
}

fn category(rng: &mut Rng) -> Draw {
    let (name, members) = *rng.pick(&CATEGORIES);
    let article = if name == "animal" { "an" } else { "a" };
    let pool: Vec<&str> =
        CATEGORIES.iter().filter(|(other, _)| *other != name).flat_map(|(_, words)| words).copied().collect();
    let answer = *rng.pick(&members);
    Draw {
        asks: vec![format!("Which of these is {article} {name}?"), format!("Find the {name}.")],
        reasons: vec![format!("{{v}} {{x}} is {article} {name}"), format!("the {name} is {{v}} {{x}}")],
        answer: answer.into(),
        others: rng.sample(&pool, OPTIONS - 1).iter().map(ToString::to_string).collect(),
        content: name.into(),
    }
}

/// The one word with an initial.
fn initial(rng: &mut Rng) -> Draw {
    let words: Vec<&str> = CATEGORIES.iter().flat_map(|(_, words)| words).copied().collect();
    let answer = *rng.pick(&words);
    let first = answer[..1].to_uppercase();
    let pool: Vec<&str> = words.into_iter().filter(|word| word[..1] != answer[..1]).collect();
    Draw {
        asks: vec![format!("Which of these starts with {first}?"), format!("Find what starts with {first}.")],
        reasons: vec![format!("{{v}} {{x}} starts with {first}"), format!("{first} starts {{v}} {{x}}")],
        answer: answer.into(),
        others: rng.sample(&pool, OPTIONS - 1).iter().map(ToString::to_string).collect(),
        content: first,
    }
}

/// The one number above or below a bound.
fn bound(rng: &mut Rng) -> Draw {
    let bound = rng.between(12, 23);
    let ((low, high), sign, word) =
        *rng.pick(&[((bound + 1, 35), ">", "above"), ((1, bound - 1), "<", "below")]);
    let inside: Vec<i64> = (low..=high).collect();
    let outside = (1..=35).filter(|number| !inside.contains(number) && *number != bound);
    numbers(
        rng,
        [format!("Which number is {word} {bound}?"), format!("Find the number {word} {bound}.")],
        [format!("{{v}} {{x}} is {word} {bound}"), format!("we have {{v}} {{x}} {sign} {bound}")],
        &inside,
        &outside.collect::<Vec<_>>(),
        format!("{sign}{bound}"),
    )
}

/// The one multiple of a number.
fn multiple(rng: &mut Rng) -> Draw {
    let of = *rng.pick(&[2, 5, 10]);
    let (inside, outside): (Vec<i64>, Vec<i64>) = (1..=40).partition(|number| number % of == 0);
    numbers(
        rng,
        [format!("Which number is divisible by {of}?"), format!("Find a number that {of} divides.")],
        [format!("{{v}} {{x}} is divisible by {of}"), format!("{of} divides {{v}} {{x}}")],
        &inside,
        &outside,
        format!("%{of}"),
    )
}

/// One number of those that are meant among nine that are not.
fn numbers(
    rng: &mut Rng,
    asks: [String; 2],
    reasons: [String; 2],
    inside: &[i64],
    outside: &[i64],
    content: String,
) -> Draw {
    Draw {
        asks: asks.into(),
        reasons: reasons.into(),
        answer: rng.pick(inside).to_string(),
        others: rng.sample(outside, OPTIONS - 1).iter().map(ToString::to_string).collect(),
        content,
    }
}

/// The letter after the last "answer is", with or without brackets.
fn last_letter(response: &str) -> Option<char> {
    const MARK: &str = "answer is";
    let rest = response[response.rfind(MARK)? + MARK.len()..].trim_start();
    let rest = rest.strip_prefix('(').unwrap_or(rest);
    let mut chars = rest.chars();
    let letter = chars.next().filter(|letter| LETTERS.contains(letter))?;
    // "answer is Apple" names no option.
    (!chars.next().is_some_and(char::is_alphanumeric)).then_some(letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_letter_is_read_after_the_last_mark() {
        let cases = [
            ("so the answer is (C).", Some('C')),
            ("the answer is B", Some('B')),
            ("the answer is (A). no, the answer is (D)", Some('D')),
            ("the answer is (K)", None),
            ("the answer is Apple", None),
            ("the answer is", None),
            ("(C)", None),
        ];
        for (text, expected) in cases {
            assert_eq!(last_letter(text), expected, "{text}");
        }
    }

    #[test]
    fn exactly_one_option_is_right() {
        let mut rng = Rng::new(5);
        for _ in 0..2000 {
            let problem = Choice.generate(&mut rng, Wording::Usual);
            let Facts::Choice(question) = &problem.facts else { panic!("not a choice problem") };
            assert_eq!(question.options.len(), OPTIONS);
            let unique: std::collections::HashSet<_> = question.options.iter().collect();
            assert_eq!(unique.len(), OPTIONS, "{}", problem.prompt);
        }
    }

    #[test]
    fn a_category_word_belongs_to_one_category() {
        let words: Vec<&str> = CATEGORIES.iter().flat_map(|(_, words)| words).copied().collect();
        let unique: std::collections::HashSet<_> = words.iter().collect();
        assert_eq!(unique.len(), words.len());
    }
}
