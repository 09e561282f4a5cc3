//! Names of functions: what people call them, and any everyday words joined.
//!
//! A name is copied from the prompt piece by piece; a model that has seen few names writes those instead of the one it
//! was given. Invariant: no name hides what a body may call (`sum`), and those for fresh wording occur in no other.

use std::sync::LazyLock;

use super::super::lexicon::{Wording, any_words, entries, everyday};
use super::super::{Rng, wordings};

/// What a body may call or Python reserves: a function of that name would call itself, or would not parse.
const TAKEN: [&str; 44] = [
    "sum",
    "max",
    "min",
    "len",
    "sorted",
    "list",
    "range",
    "abs",
    "all",
    "any",
    "set",
    "str",
    "int",
    "map",
    "filter",
    "zip",
    "enumerate",
    "round",
    "print",
    "reversed",
    "pow",
    "def",
    "return",
    "for",
    "in",
    "if",
    "else",
    "while",
    "not",
    "and",
    "or",
    "is",
    "from",
    "import",
    "pass",
    "break",
    "continue",
    "lambda",
    "del",
    "with",
    "as",
    "try",
    "class",
    "bool",
];

fn group(name: &str) -> Vec<String> {
    entries(wordings::text("program/names.txt"))
        .filter(|(group, _)| *group == name)
        // `entries` reads an underscore as a space within a word.
        .map(|(_, word)| word.replace(' ', "_"))
        .collect()
}

struct Names {
    usual: Vec<String>,
    plain: Vec<String>,
    verb: Vec<String>,
    noun: Vec<String>,
    whole: Vec<String>,
    fresh: Vec<String>,
}

static NAMES: LazyLock<Names> = LazyLock::new(|| Names {
    usual: group("usual"),
    plain: group("plain"),
    verb: group("verb"),
    noun: group("noun"),
    whole: group("whole"),
    fresh: group("fresh"),
});

/// A name somebody might give a function.
pub(super) fn function_name(rng: &mut Rng, wording: Wording) -> String {
    if wording == Wording::Fresh {
        return rng.pick(&NAMES.fresh).clone();
    }
    loop {
        let name = match rng.below(10) {
            0 | 1 => rng.pick(&NAMES.usual).clone(),
            2 => rng.pick(&NAMES.plain).clone(),
            3..=5 => rng.pick(&NAMES.whole).clone(),
            6 | 7 => format!("{}_{}", rng.pick(&NAMES.verb), rng.pick(&NAMES.noun)),
            _ => of_words(rng),
        };
        if !TAKEN.contains(&name.as_str()) && !NAMES.fresh.contains(&name) {
            return name;
        }
    }
}

/// A name of any words at all, for drills.
pub(super) fn any_name(rng: &mut Rng, _wording: Wording) -> String {
    loop {
        let count = 1 + rng.below(2);
        let name = any_words(rng, count).join("_");
        if name.len() <= 16 && !TAKEN.contains(&name.as_str()) && !NAMES.fresh.contains(&name) {
            return name;
        }
    }
}

/// Everyday words joined, as in `find_teapot` or `kite`.
fn of_words(rng: &mut Rng) -> String {
    loop {
        let count = rng.between(1, 2) as usize;
        let (words, _) = everyday(rng, count);
        let mut parts: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
        if rng.coin() {
            parts.insert(0, rng.pick(&NAMES.verb).clone());
        }
        let plain = |part: &String| part.bytes().all(|byte| byte.is_ascii_lowercase());
        if parts.len() < 3 && parts.iter().all(plain) {
            return parts.join("_");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::task::program::python::Module;

    #[test]
    fn names_are_many_and_every_one_can_be_defined() {
        let mut rng = Rng::new(1);
        let names: HashSet<String> = (0..5000).map(|_| function_name(&mut rng, Wording::Usual)).collect();
        assert!(names.len() > 1500, "{}", names.len());
        for name in &names {
            assert!(!TAKEN.contains(&name.as_str()) && !NAMES.fresh.contains(name), "{name}");
            let code = format!("def {name}(x):\n    return x");
            assert!(Module::parse(&code).is_ok(), "{code}");
        }
        assert!(NAMES.fresh.len() >= 10);
    }
}
