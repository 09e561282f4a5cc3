//! The verbs, events, places and sentence patterns of the stories, read from the text files of this folder.
//!
//! A line of `verbs.txt` is `role subjects things: base third past | template | template …`: the role says whose doing it
//! is and to which end, the subjects are `P`eople and `S`hops, the things are letters as [`things`] gives them.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::super::lexicon::{Noun, NounKind};

/// When a story happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tense {
    Present,
    Past,
}

/// A verb with what may follow it.
pub(super) struct Verb {
    pub(super) role: String,
    pub(super) subjects: String,
    /// Letters of [`things`], or the kind of an event.
    pub(super) things: String,
    base: String,
    third: String,
    past: String,
    pub(super) templates: Vec<String>,
}

impl Verb {
    pub(super) fn form(&self, tense: Tense, plural: bool) -> &str {
        match (tense, plural) {
            (Tense::Past, _) => &self.past,
            (Tense::Present, true) => &self.base,
            (Tense::Present, false) => &self.third,
        }
    }

    /// The template with its verbs in their right forms.
    pub(super) fn conjugate(&self, template: &str, tense: Tense, plural: bool) -> String {
        template
            .replace("{v}", self.form(tense, plural))
            .replace("{be}", be(tense, plural))
            .replace("{get}", ["get", "gets", "got"][choice(tense, plural)])
    }
}

fn choice(tense: Tense, plural: bool) -> usize {
    match (tense, plural) {
        (Tense::Past, _) => 2,
        (Tense::Present, plural) => usize::from(!plural),
    }
}

pub(super) fn be(tense: Tense, plural: bool) -> &'static str {
    match (tense, plural) {
        (Tense::Present, true) => "are",
        (Tense::Present, false) => "is",
        (Tense::Past, true) => "were",
        (Tense::Past, false) => "was",
    }
}

pub(super) fn have(tense: Tense, plural: bool) -> &'static str {
    ["have", "has", "had"][choice(tense, plural)]
}

pub(super) fn aux(tense: Tense, plural: bool) -> &'static str {
    ["do", "does", "did"][choice(tense, plural)]
}

/// The verbs of people and shops.
pub(super) static VERBS: LazyLock<Vec<Verb>> = LazyLock::new(|| {
    crate::task::wordings::text("arith/verbs.txt").lines().filter_map(|line| verb(line, true)).collect()
});
/// What happens by itself.
pub(super) static EVENTS: LazyLock<Vec<Verb>> = LazyLock::new(|| {
    crate::task::wordings::text("arith/events.txt").lines().filter_map(|line| verb(line, false)).collect()
});
/// Where a kind of things is: "in a tree".
pub(super) static PLACES: LazyLock<Vec<(String, Vec<String>)>> = LazyLock::new(|| {
    let lines = crate::task::wordings::text("arith/places.txt").lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.split_once(": "))
        .map(|(kind, places)| (kind.to_owned(), places.split(" | ").map(str::to_owned).collect()))
        .collect()
});
static CLASSES: LazyLock<Vec<(char, Vec<String>)>> = LazyLock::new(|| {
    let letter = |class: &str| match class {
        "baked" => 'b',
        "picked" => 'k',
        "money" => 'm',
        _ => 'o',
    };
    let lines =
        crate::task::wordings::text("arith/classes.txt").lines().filter_map(|line| line.split_once(": "));
    lines
        .map(|(class, words)| {
            (letter(class), words.split_whitespace().map(|word| word.replace('_', " ")).collect())
        })
        .collect()
});

static PATTERNS: LazyLock<HashMap<&'static str, Vec<&'static str>>> = LazyLock::new(|| {
    let mut lists: HashMap<&str, Vec<&str>> = HashMap::new();
    let mut list = "";
    for line in crate::task::wordings::text("arith/patterns.txt")
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        if let Some(name) = line.strip_prefix('@') {
            list = name;
            continue;
        }
        let counted = line.split_once("x ").and_then(|(times, pattern)| Some((times.parse().ok()?, pattern)));
        let (times, pattern) = counted.unwrap_or((1, line));
        lists.entry(list).or_default().extend(std::iter::repeat_n(pattern, times));
    }
    lists
});

/// The patterns of a list of `patterns.txt`.
///
/// # Panics
/// If there is no such list: the file is part of the program.
pub(super) fn patterns(list: &str) -> &'static [&'static str] {
    PATTERNS.get(list).unwrap_or_else(|| panic!("patterns.txt has no list {list}"))
}

fn verb(line: &str, subjects: bool) -> Option<Verb> {
    let (head, body) = line.split_once(": ")?;
    let mut head = head.split_whitespace();
    let role = head.next().filter(|role| *role != "#")?.to_owned();
    let subjects = if subjects { head.next()?.to_owned() } else { String::new() };
    let things = head.next()?.to_owned();
    let mut body = body.split(" | ");
    let mut forms = body.next()?.split_whitespace().map(str::to_owned);
    let (base, third, past) = (forms.next()?, forms.next()?, forms.next()?);
    Some(Verb { role, subjects, things, base, third, past, templates: body.map(str::to_owned).collect() })
}

/// The letters of what may be done with a thing: `t`hing, `f`ood, `p`lant, `a`nimal, `v`ehicle, and `b`aked,
/// pic`k`ed, `m`oney, ball`o`on. Money is for nothing but verbs of money.
pub(super) fn things(noun: &Noun) -> String {
    let classes = CLASSES.iter().filter(|(_, words)| words.contains(&noun.one)).map(|(letter, _)| *letter);
    let classes: String = classes.collect();
    if classes.contains('m') {
        return classes;
    }
    let kind = match noun.kind {
        NounKind::Thing => 't',
        NounKind::Food => 'f',
        NounKind::Plant => 'p',
        NounKind::Vehicle => 'v',
        NounKind::Animal | NounKind::Bird | NounKind::Person => 'a',
    };
    format!("{kind}{classes}")
}
