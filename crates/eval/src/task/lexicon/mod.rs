//! The words of every task: names, nouns, categories, and the small grammar they need (plural, article, pronoun, number).
//!
//! The words themselves are data, in the text files beside this one. A [`Wording`] says which of them may be drawn.
//!
//! Invariant: no fresh name and no fresh noun is ever drawn in the usual wording, neither listed nor made up; categories
//! are knowledge a model has to be taught, so both wordings share them.

mod any;
mod category;
mod everyday;
mod grammar;
mod invented;
mod untidy;

use std::collections::HashSet;
use std::sync::LazyLock;

use super::Rng;

pub use any::{any_names, any_words};
pub use category::{Category, categories, category};
pub use everyday::{everyday, other_names};
pub use grammar::{Pronoun, a, capital, in_words, plural, shown};
pub use untidy::untidy;

/// Which words and sentence patterns a problem is told in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wording {
    /// What training sees.
    Usual,
    /// Names, nouns and sentence patterns that never occur in training.
    Fresh,
}

impl Wording {
    /// One of the patterns of this wording; a pattern that begins with `*` is told in fresh wording alone, and half of
    /// what fresh wording draws is such a pattern where there is one. The mark is taken off.
    ///
    /// # Panics
    /// If there is no pattern of this wording.
    pub fn pick<'a>(self, rng: &mut Rng, patterns: &[&'a str]) -> &'a str {
        let marked = |fresh: bool| -> Vec<&'a str> {
            patterns.iter().copied().filter(|pattern| pattern.starts_with('*') == fresh).collect()
        };
        let fresh = marked(true);
        if self == Self::Fresh && !fresh.is_empty() && rng.coin() {
            return rng.pick::<&str>(&fresh).trim_start_matches('*');
        }
        rng.pick::<&str>(&marked(false))
    }
}

/// Somebody's first name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Name {
    /// The name.
    pub text: String,
    /// How the person is called in later sentences.
    pub pronoun: Pronoun,
}

/// Something that can be counted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Noun {
    /// "pony".
    pub one: String,
    /// "ponies".
    pub many: String,
    /// What sort of thing it is.
    pub kind: NounKind,
}

/// Sorts of nouns: they decide what may happen to the thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NounKind {
    /// "visitor".
    Person,
    /// "rabbit"; not a bird.
    Animal,
    /// "sparrow".
    Bird,
    /// "muffin".
    Food,
    /// "pencil".
    Thing,
    /// "tractor".
    Vehicle,
    /// "tulip".
    Plant,
}

impl NounKind {
    /// Every kind.
    pub const ALL: [Self; 7] =
        [Self::Person, Self::Animal, Self::Bird, Self::Food, Self::Thing, Self::Vehicle, Self::Plant];
}

/// One in this many usual names and nouns is made up: it teaches a model to copy words it has never seen.
const MADE_UP: usize = 10;

struct Words {
    names: Vec<Name>,
    nouns: Vec<Noun>,
}

static USUAL: LazyLock<Words> = LazyLock::new(|| {
    Words::read(
        crate::task::wordings::text("lexicon/names.txt"),
        crate::task::wordings::text("lexicon/nouns.txt"),
    )
});
static FRESH: LazyLock<Words> = LazyLock::new(|| {
    Words::read(
        crate::task::wordings::text("lexicon/names-fresh.txt"),
        crate::task::wordings::text("lexicon/nouns-fresh.txt"),
    )
});
/// Every fresh word in lower case, which no made-up word may be.
static RESERVED: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let nouns = FRESH.nouns.iter().flat_map(|noun| [noun.one.clone(), noun.many.clone()]);
    nouns.chain(FRESH.names.iter().map(|name| name.text.to_lowercase())).collect()
});

impl Words {
    fn read(names: &str, nouns: &str) -> Self {
        let names = entries(names).map(|(group, text)| Name { text, pronoun: Pronoun::read(group) });
        let nouns = entries(nouns).map(|(group, entry)| {
            let (one, many) = match entry.split_once('/') {
                Some((one, many)) => (one.to_owned(), many.to_owned()),
                None => (entry.clone(), plural(&entry)),
            };
            Noun { one, many, kind: kind(group) }
        });
        Self { names: names.collect(), nouns: nouns.collect() }
    }

    fn of(wording: Wording) -> &'static Self {
        match wording {
            Wording::Usual => &USUAL,
            Wording::Fresh => &FRESH,
        }
    }
}

/// The words of a file with lines `group: word word …`; `_` stands for a space within a word.
pub(in crate::task) fn entries(text: &str) -> impl Iterator<Item = (&str, String)> {
    text.lines()
        .filter_map(|line| line.split_once(": "))
        .flat_map(|(group, words)| words.split_whitespace().map(move |word| (group, word.replace('_', " "))))
}

fn kind(group: &str) -> NounKind {
    match group {
        "person" => NounKind::Person,
        "animal" => NounKind::Animal,
        "bird" => NounKind::Bird,
        "food" => NounKind::Food,
        "vehicle" => NounKind::Vehicle,
        "plant" => NounKind::Plant,
        // The tests see to it that there is no other group.
        _ => NounKind::Thing,
    }
}

/// Somebody.
pub fn name(rng: &mut Rng, wording: Wording) -> Name {
    if wording == Wording::Usual && rng.below(MADE_UP) == 0 {
        let pronoun = *rng.pick(&[Pronoun::She, Pronoun::She, Pronoun::He, Pronoun::He, Pronoun::They]);
        return Name { text: invented::name(rng, &RESERVED), pronoun };
    }
    known_name(rng, wording)
}

/// Somebody whose name people have.
pub fn known_name(rng: &mut Rng, wording: Wording) -> Name {
    rng.pick(&Words::of(wording).names).clone()
}

/// The names people have that training knows, of a pronoun where one is asked for.
pub fn known_names(wanted: Option<Pronoun>) -> impl Iterator<Item = &'static str> {
    let names = Words::of(Wording::Usual).names.iter();
    names
        .filter(move |name| wanted.is_none_or(|wanted| name.pronoun == wanted))
        .map(|name| name.text.as_str())
}

/// A name for an answer that may name anybody: one of a few dozen short ones, whatever the wording of the question.
pub fn familiar_name(rng: &mut Rng) -> &'static Name {
    static POOL: LazyLock<Vec<&Name>> = LazyLock::new(|| {
        let short = USUAL.names.iter().filter(|name| name.text.len() < 6 && name.text.is_ascii());
        short.step_by(8).collect()
    });
    rng.pick::<&Name>(&POOL)
}

/// A noun for an answer that may name anything: one of a few dozen short ones.
pub fn familiar_noun(rng: &mut Rng, kinds: &[NounKind]) -> &'static Noun {
    static POOL: LazyLock<Vec<&Noun>> = LazyLock::new(|| {
        let short = USUAL
            .nouns
            .iter()
            .filter(|noun| noun.one.len() < 7 && noun.one.bytes().all(|b| b.is_ascii_alphabetic()));
        short.step_by(4).collect()
    });
    loop {
        let noun = *rng.pick(&POOL);
        if kinds.contains(&noun.kind) {
            return noun;
        }
    }
}

/// `count` people with different names.
pub fn names(rng: &mut Rng, wording: Wording, count: usize) -> Vec<Name> {
    let mut found: Vec<Name> = Vec::with_capacity(count);
    while found.len() < count {
        let next = name(rng, wording);
        if found.iter().all(|other| other.text != next.text) {
            found.push(next);
        }
    }
    found
}

/// Something of one of the kinds.
///
/// # Panics
/// If no kind is given.
pub fn noun(rng: &mut Rng, wording: Wording, kinds: &[NounKind]) -> Noun {
    let kind = *rng.pick(kinds);
    if wording == Wording::Usual && rng.below(MADE_UP) == 0 {
        let one = invented::noun(rng, &RESERVED);
        return Noun { many: plural(&one), one, kind };
    }
    let pool: Vec<&Noun> = Words::of(wording).nouns.iter().filter(|noun| noun.kind == kind).collect();
    (*rng.pick(&pool)).clone()
}

/// The plural of any noun: as listed, or else by rule.
pub fn plural_of(one: &str) -> String {
    let listed = USUAL.nouns.iter().chain(&FRESH.nouns).find(|noun| noun.one == one);
    listed.map_or_else(|| plural(one), |noun| noun.many.clone())
}

/// Every fresh name, for tests that look for them where they must not be.
pub fn fresh_names() -> impl Iterator<Item = &'static str> {
    FRESH.names.iter().map(|name| name.text.as_str())
}

/// Every fresh noun, one and many, for tests that look for them where they must not be.
pub fn fresh_nouns() -> impl Iterator<Item = &'static str> {
    FRESH.nouns.iter().flat_map(|noun| [noun.one.as_str(), noun.many.as_str()])
}

#[cfg(test)]
mod tests;
