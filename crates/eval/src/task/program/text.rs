//! Functions of a string.

use serde::{Deserialize, Serialize};

use super::code::{Code, Level};
use super::python::Value;
use crate::task::Rng;
use crate::task::lexicon::{self, NounKind, Wording};

/// A step of a function of a string; the last step may give something else than a string.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Edit {
    Append(String),
    Prepend(String),
    Repeat(usize),
    First(usize),
    Last(usize),
    Skip(usize),
    Trim(usize),
    Upper,
    Lower,
    Reverse,
    Strip,
    Capital,
    Title,
    Replace(String, String),
    Remove(String),
    Length,
    Count(String),
    Words,
    Split,
    Starts(String),
    Ends(String),
    Contains(String),
    Head,
    Tail,
    Palindrome,
    Vowels,
}

const MARKS: [&str; 12] = ["!", "?", "...", "!!", "-", "*", ".", "#", "Hello ", "Hi ", " is here", "ing"];

impl Edit {
    /// A step from a string to a string.
    pub(super) fn step(rng: &mut Rng, wording: Wording) -> Self {
        let count = rng.between(2, 9) as usize;
        match rng.below(22) {
            20 => rng.pick(&[Self::Capital, Self::Capital, Self::Title]).clone(),
            21 => Self::Strip,
            0 | 1 => Self::Append(piece(rng, wording)),
            2 | 3 => Self::Prepend(piece(rng, wording)),
            4 => Self::Repeat(count),
            5 | 6 => Self::First(count),
            7 | 8 => Self::Last(count),
            9 => Self::Skip(count),
            10 => Self::Trim(count),
            11..=13 => Self::Upper,
            14 | 15 => Self::Lower,
            16 | 17 => Self::Reverse,
            18 => {
                let old = letter(rng);
                let new = *rng.pick(&["-", "_", "*", "x", "o", "i"]);
                if old == new { Self::Strip } else { Self::Replace(old, new.into()) }
            }
            _ if rng.coin() => Self::Remove(" ".into()),
            _ => Self::Remove(letter(rng)),
        }
    }

    /// A last step.
    pub(super) fn verdict(rng: &mut Rng, wording: Wording) -> Self {
        let end = if rng.coin() { letter(rng).replace(' ', "a") } else { word(rng, wording) };
        match rng.below(13) {
            0..=2 => Self::Length,
            3 => Self::Count(letter(rng).replace(' ', "a")),
            4 => Self::Words,
            5 => Self::Split,
            6 => Self::Starts(end),
            7 => Self::Ends(end),
            8 => Self::Contains(end),
            9 => Self::Head,
            10 => Self::Tail,
            11 => Self::Palindrome,
            _ => Self::Vowels,
        }
    }

    /// Whether there is a number or a word in it that could be another.
    pub(super) fn is_free(&self) -> bool {
        self.constant().is_some() || self.piece().is_some()
    }

    pub(super) fn constant(&self) -> Option<i64> {
        match self {
            Self::Repeat(k) | Self::First(k) | Self::Last(k) | Self::Skip(k) | Self::Trim(k) => {
                Some(*k as i64)
            }
            _ => None,
        }
    }

    /// The text it names, and what replaces it.
    pub(super) fn piece(&self) -> Option<(&str, &str)> {
        match self {
            Self::Append(text) | Self::Prepend(text) | Self::Remove(text) | Self::Count(text) => {
                Some((text, ""))
            }
            Self::Starts(text) | Self::Ends(text) | Self::Contains(text) => Some((text, "")),
            Self::Replace(old, new) => Some((old, new)),
            _ => None,
        }
    }

    /// Its section among the phrases.
    pub(super) fn section(&self) -> &'static str {
        match self {
            Self::Append(_) => "text.append",
            Self::Prepend(_) => "text.prepend",
            Self::Repeat(_) => "text.repeat",
            Self::First(_) => "text.first",
            Self::Last(_) => "text.last",
            Self::Skip(_) => "text.skip",
            Self::Trim(_) => "text.trim",
            Self::Upper => "text.upper",
            Self::Lower => "text.lower",
            Self::Reverse => "text.reverse",
            Self::Strip => "text.strip",
            Self::Capital => "text.capital",
            Self::Title => "text.title",
            Self::Replace(old, _) if old == " " => "text.respace",
            Self::Replace(..) => "text.replace",
            Self::Remove(piece) if piece == " " => "text.unspace",
            Self::Remove(_) => "text.remove",
            Self::Length => "text.length",
            Self::Count(_) => "text.count",
            Self::Words => "text.words",
            Self::Split => "text.split",
            Self::Starts(_) => "text.starts",
            Self::Ends(_) => "text.ends",
            Self::Contains(_) => "text.contains",
            Self::Head => "text.head",
            Self::Tail => "text.tail",
            Self::Palindrome => "text.palindrome",
            Self::Vowels => "text.vowels",
        }
    }

    /// The value for a text; nothing where it is undefined, such as the first letter of an empty text.
    pub(super) fn apply(&self, text: &str) -> Option<Value> {
        let letters = text.chars();
        let length = letters.clone().count();
        let words = || text.split_whitespace();
        Some(match self {
            Self::Append(piece) => Value::Str(format!("{text}{piece}")),
            Self::Prepend(piece) => Value::Str(format!("{piece}{text}")),
            Self::Repeat(count) => Value::Str(text.repeat(*count)),
            Self::First(count) => Value::Str(letters.take(*count).collect()),
            Self::Last(count) => Value::Str(letters.skip(length.saturating_sub(*count)).collect()),
            Self::Skip(count) => Value::Str(letters.skip(*count).collect()),
            Self::Trim(count) => Value::Str(letters.take(length.saturating_sub(*count)).collect()),
            Self::Upper => Value::Str(text.to_uppercase()),
            Self::Lower => Value::Str(text.to_lowercase()),
            Self::Reverse => Value::Str(letters.rev().collect()),
            Self::Strip => Value::Str(text.trim().into()),
            Self::Capital => Value::Str(capitalized(text)),
            Self::Title => {
                let words = text.split_inclusive(|c: char| !c.is_alphabetic());
                Value::Str(words.map(capitalized).collect())
            }
            Self::Replace(old, new) => Value::Str(text.replace(old.as_str(), new)),
            Self::Remove(piece) => Value::Str(text.replace(piece.as_str(), "")),
            Self::Length => Value::Int(length as i64),
            Self::Count(piece) => Value::Int(text.matches(piece.as_str()).count() as i64),
            Self::Words => Value::Int(words().count() as i64),
            Self::Split => Value::List(words().map(|word| Value::Str(word.into())).collect()),
            Self::Starts(piece) => Value::Bool(text.starts_with(piece.as_str())),
            Self::Ends(piece) => Value::Bool(text.ends_with(piece.as_str())),
            Self::Contains(piece) => Value::Bool(text.contains(piece.as_str())),
            Self::Head => Value::Str(letters.clone().next()?.into()),
            Self::Tail => Value::Str(letters.clone().next_back()?.into()),
            Self::Palindrome => Value::Bool(letters.clone().eq(letters.rev())),
            // Whether a capital is counted is left open: no test has one.
            Self::Vowels if text.chars().any(char::is_uppercase) => return None,
            Self::Vowels => Value::Int(letters.filter(|c| "aeiou".contains(*c)).count() as i64),
        })
    }

    pub(super) fn code(&self, text: &Code, element: &str) -> Code {
        use Level::{Atom, Comparison, Product, Sum};
        let atom = text.within(Atom);
        match self {
            Self::Append(piece) => Code::new(Sum, format!("{} + \"{piece}\"", text.within(Sum))),
            Self::Prepend(piece) => Code::new(Sum, format!("\"{piece}\" + {}", text.within(Sum))),
            Self::Repeat(count) => Code::new(Product, format!("{} * {count}", text.within(Product))),
            Self::First(count) => Code::atom(format!("{atom}[:{count}]")),
            Self::Last(count) => Code::atom(format!("{atom}[-{count}:]")),
            Self::Skip(count) => Code::atom(format!("{atom}[{count}:]")),
            Self::Trim(count) => Code::atom(format!("{atom}[:-{count}]")),
            Self::Upper => Code::atom(format!("{atom}.upper()")),
            Self::Lower => Code::atom(format!("{atom}.lower()")),
            Self::Reverse => Code::atom(format!("{atom}[::-1]")),
            Self::Strip => Code::atom(format!("{atom}.strip()")),
            Self::Capital => Code::atom(format!("{atom}.capitalize()")),
            Self::Title => Code::atom(format!("{atom}.title()")),
            Self::Replace(old, new) => Code::atom(format!("{atom}.replace(\"{old}\", \"{new}\")")),
            Self::Remove(piece) => Code::atom(format!("{atom}.replace(\"{piece}\", \"\")")),
            Self::Length => Code::atom(format!("len({})", text.text)),
            Self::Count(piece) => Code::atom(format!("{atom}.count(\"{piece}\")")),
            Self::Words => Code::atom(format!("len({atom}.split())")),
            Self::Split => Code::atom(format!("{atom}.split()")),
            Self::Starts(piece) => Code::atom(format!("{atom}.startswith(\"{piece}\")")),
            Self::Ends(piece) => Code::atom(format!("{atom}.endswith(\"{piece}\")")),
            Self::Contains(piece) => Code::new(Comparison, format!("\"{piece}\" in {}", text.within(Sum))),
            Self::Head => Code::atom(format!("{atom}[0]")),
            Self::Tail => Code::atom(format!("{atom}[-1]")),
            Self::Palindrome => Code::new(Comparison, format!("{} == {atom}[::-1]", text.within(Sum))),
            Self::Vowels => Code::atom(format!(
                "len([{element} for {element} in {} if {element} in \"aeiou\"])",
                text.text
            )),
        }
    }
}

/// The first letter upper case, the others lower case.
fn capitalized(text: &str) -> String {
    let lower = text.to_lowercase();
    let mut letters = lower.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn letter(rng: &mut Rng) -> String {
    rng.pick(&["a", "e", "i", "o", "s", "t", "n", "r", "l", "x", " ", "b", "m", "p", "z"]).to_string()
}

fn word(rng: &mut Rng, wording: Wording) -> String {
    if rng.coin() {
        lexicon::name(rng, wording).text
    } else {
        lexicon::noun(rng, wording, &NounKind::ALL).one
    }
}

fn piece(rng: &mut Rng, wording: Wording) -> String {
    match rng.below(3) {
        0 => rng.pick(&MARKS).to_string(),
        _ => word(rng, wording),
    }
}
