//! As much English grammar as the description of a function needs: forms of verbs, lists, steps in a row.

use crate::task::Rng;

/// The form of a verb.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Form {
    /// "add".
    Plain,
    /// "adds".
    Third,
    /// "adding".
    Gerund,
}

/// "a, b and c".
pub(super) fn enumerate(items: &[String]) -> String {
    match items.split_last() {
        Some((last, before)) if !before.is_empty() => format!("{} and {last}", before.join(", ")),
        _ => items.concat(),
    }
}

/// Joins the steps of a function.
pub(super) fn chain(rng: &mut Rng, steps: Vec<String>) -> String {
    match steps.as_slice() {
        [one] => one.clone(),
        [one, two] => {
            let glue = *rng.pick(&[" and ", " and ", " and then ", ", then ", " and afterwards "]);
            format!("{one}{glue}{two}")
        }
        _ => match rng.below(4) {
            0 => steps.join(", then "),
            1 => format!("first {}", steps.join(", then ")),
            2 => enumerate(&steps),
            _ => format!("{}, and then {}", steps[..steps.len() - 1].join(", "), steps[steps.len() - 1]),
        },
    }
}

/// A verb phrase with its verb, the first word, in another form.
pub(super) fn conjugate(phrase: &str, form: Form) -> String {
    let (verb, rest) = phrase.split_at(phrase.find(' ').unwrap_or(phrase.len()));
    let vowel = |c: Option<char>| c.is_some_and(|c| "aeiou".contains(c));
    let verb = match form {
        Form::Plain => verb.to_string(),
        Form::Third => match verb.strip_suffix('y') {
            Some(stem) if !vowel(stem.chars().next_back()) => format!("{stem}ies"),
            _ if ["s", "x", "z", "ch", "sh", "o"].iter().any(|end| verb.ends_with(end)) => {
                format!("{verb}es")
            }
            _ => format!("{verb}s"),
        },
        Form::Gerund => {
            const DOUBLED: [&str; 14] = [
                "cap", "cut", "drop", "flip", "trim", "get", "put", "strip", "skip", "swap", "sum", "split",
                "set", "chop",
            ];
            match verb.strip_suffix('e') {
                Some(stem) if !verb.ends_with("ee") => format!("{stem}ing"),
                _ if DOUBLED.contains(&verb) => format!("{verb}{}ing", &verb[verb.len() - 1..]),
                _ => format!("{verb}ing"),
            }
        }
    };
    format!("{verb}{rest}")
}

/// "the largest of three" for "the larger of two".
pub(super) fn superlative(text: &str) -> String {
    let pairs = [
        ("larger", "largest"),
        ("bigger", "biggest"),
        ("greater", "greatest"),
        ("smaller", "smallest"),
        ("lesser", "least"),
    ];
    pairs.iter().fold(text.to_string(), |text, (two, three)| text.replace(two, three))
}
