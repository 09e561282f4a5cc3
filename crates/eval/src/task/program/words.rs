//! Functions of a list of strings.

use serde::{Deserialize, Serialize};

use super::code::Code;
use super::python::Value;
use crate::task::Rng;

/// What becomes of a list of words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum WordStep {
    Firsts,
    Lasts,
    Lengths,
    Upper,
    Lower,
    Backwards,
    Join(String),
    Longer(i64),
    Shorter(i64),
    Starting(String),
    Longest,
    Letters,
    Sort,
    Append(String),
}

impl WordStep {
    pub(super) fn draw(rng: &mut Rng) -> Self {
        let size = rng.between(2, 8);
        let letter = (*rng.pick(&["a", "b", "c", "d", "m", "p", "s", "t"])).to_string();
        let all = [
            Self::Firsts,
            Self::Lasts,
            Self::Lengths,
            Self::Upper,
            Self::Lower,
            Self::Backwards,
            Self::Join((*rng.pick(&[" ", " ", ", ", "-", ""])).to_string()),
            Self::Longer(size),
            Self::Shorter(size),
            Self::Starting(letter),
            Self::Longest,
            Self::Letters,
            Self::Sort,
            Self::Append((*rng.pick(&["!", "?", "s", "."])).to_string()),
        ];
        rng.pick(&all).clone()
    }

    pub(super) fn constant(&self) -> Option<i64> {
        match self {
            Self::Longer(k) | Self::Shorter(k) => Some(*k),
            _ => None,
        }
    }

    /// The text it names.
    pub(super) fn piece(&self) -> Option<&str> {
        match self {
            Self::Starting(text) | Self::Append(text) => Some(text),
            Self::Join(glue) if glue == "-" || glue == ", " => Some(glue),
            _ => None,
        }
    }

    /// Its section among the phrases.
    pub(super) fn section(&self) -> &'static str {
        match self {
            Self::Firsts => "words.firsts",
            Self::Lasts => "words.lasts",
            Self::Lengths => "words.lengths",
            Self::Upper => "words.upper",
            Self::Lower => "words.lower",
            Self::Backwards => "words.backwards",
            Self::Join(glue) if glue == " " => "words.join_spaces",
            Self::Join(glue) if glue.is_empty() => "words.join_plain",
            Self::Join(_) => "words.join",
            Self::Longer(_) => "words.longer",
            Self::Shorter(_) => "words.shorter",
            Self::Starting(_) => "words.starting",
            Self::Longest => "words.longest",
            Self::Letters => "words.letters",
            Self::Sort => "words.sort",
            Self::Append(_) => "words.append",
        }
    }

    /// The value for these words; nothing where it is undefined, such as the first letter of an empty text.
    pub(super) fn apply(&self, words: &[&str]) -> Option<Value> {
        let texts = |texts: Vec<String>| Some(Value::List(texts.into_iter().map(Value::Str).collect()));
        let each = |change: &dyn Fn(&str) -> String| texts(words.iter().map(|word| change(word)).collect());
        let kept = |keep: &dyn Fn(&str) -> bool| {
            texts(words.iter().filter(|word| keep(word)).map(|word| (*word).to_string()).collect())
        };
        let lengths = words.iter().map(|word| word.chars().count() as i64);
        match self {
            Self::Firsts => each(&|word| word.chars().take(1).collect()),
            Self::Lasts => each(&|word| word.chars().next_back().map_or(String::new(), String::from)),
            Self::Upper => each(&|word| word.to_uppercase()),
            Self::Lower => each(&|word| word.to_lowercase()),
            Self::Backwards => each(&|word| word.chars().rev().collect()),
            Self::Append(piece) => each(&|word| format!("{word}{piece}")),
            Self::Longer(k) => kept(&|word| word.chars().count() as i64 > *k),
            Self::Shorter(k) => kept(&|word| (word.chars().count() as i64) < *k),
            Self::Starting(letter) => kept(&|word| word.starts_with(letter.as_str())),
            Self::Join(glue) => Some(Value::Str(words.join(glue))),
            Self::Lengths => Some(Value::List(lengths.map(Value::Int).collect())),
            Self::Longest => lengths.max().map(Value::Int),
            Self::Letters => Some(Value::Int(lengths.sum())),
            Self::Sort => {
                let mut sorted: Vec<String> = words.iter().map(|word| (*word).to_string()).collect();
                sorted.sort_unstable();
                texts(sorted)
            }
        }
    }

    pub(super) fn code(&self, list: &str, v: &str) -> Code {
        Code::atom(match self {
            Self::Firsts => format!("[{v}[0] for {v} in {list}]"),
            Self::Lasts => format!("[{v}[-1] for {v} in {list}]"),
            Self::Lengths => format!("[len({v}) for {v} in {list}]"),
            Self::Upper => format!("[{v}.upper() for {v} in {list}]"),
            Self::Lower => format!("[{v}.lower() for {v} in {list}]"),
            Self::Backwards => format!("[{v}[::-1] for {v} in {list}]"),
            Self::Join(glue) => format!("\"{glue}\".join({list})"),
            Self::Longer(k) => format!("[{v} for {v} in {list} if len({v}) > {k}]"),
            Self::Shorter(k) => format!("[{v} for {v} in {list} if len({v}) < {k}]"),
            Self::Starting(letter) => format!("[{v} for {v} in {list} if {v}.startswith(\"{letter}\")]"),
            Self::Longest => format!("max([len({v}) for {v} in {list}])"),
            Self::Letters => format!("sum([len({v}) for {v} in {list}])"),
            Self::Sort => format!("sorted({list})"),
            Self::Append(piece) => format!("[{v} + \"{piece}\" for {v} in {list}]"),
        })
    }
}

/// The inputs of the tests.
pub(super) fn inputs() -> Vec<Vec<Value>> {
    let lists: [&[&str]; 7] = [
        &["apple", "bee"],
        &["Zoo"],
        &["to", "cat", "tree", "spoon", "monkey", "station", "bicycles", "crocodile"],
        &["dog", "mouse", "pie", "sun", "ball", "deer", "moon", "pan", "sea", "table"],
        &["a", "b", "c"],
        &["same", "same", "Word"],
        &["pear", "fig", "banana"],
    ];
    let value = |words: &[&str]| Value::List(words.iter().map(|word| Value::Str((*word).into())).collect());
    lists.iter().map(|words| vec![value(words)]).collect()
}
