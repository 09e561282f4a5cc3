//! Categories and what belongs to them: "animal", "colour", "tool".
//!
//! Invariant: a word is listed under one category, and under the narrowest ("crow" is a bird, and thereby an animal).

use std::sync::LazyLock;

use super::super::Rng;
use super::Wording;
use super::entries;
use super::grammar::plural;

/// A category of things.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Category {
    /// What one member is called, in every usual way: "colour", "color".
    pub titles: Vec<Title>,
    /// The words listed under it.
    pub members: Vec<String>,
    /// The wider category it lies in, by its first title.
    pub within: Option<String>,
}

/// A name of a category.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Title {
    /// "country".
    pub one: String,
    /// "countries".
    pub many: String,
}

impl Category {
    /// Its first title: the name that identifies it.
    pub fn one(&self) -> &str {
        &self.titles[0].one
    }

    /// The plural of its first title.
    pub fn many(&self) -> &str {
        &self.titles[0].many
    }

    /// Whether one of the two lies within the other or they are the same: neither gives wrong answers to the other.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.one() == other.one()
            || self.within.as_deref() == Some(other.one())
            || other.within.as_deref() == Some(self.one())
    }

    /// Whether the word belongs to it or to a narrower category within it.
    pub fn contains(&self, word: &str) -> bool {
        categories().iter().any(|listed| {
            (listed.one() == self.one() || listed.within.as_deref() == Some(self.one()))
                && listed.members.iter().any(|member| member == word)
        })
    }
}

/// Every category.
pub fn categories() -> &'static [Category] {
    static ALL: LazyLock<Vec<Category>> =
        LazyLock::new(|| include_str!("categories.txt").lines().filter_map(read).collect());
    &ALL
}

/// Any category: membership is knowledge, so every wording draws from all of them.
pub fn category(rng: &mut Rng, _wording: Wording) -> &'static Category {
    rng.pick(categories())
}

/// A line `title/titles < wider | other title: word word …`.
fn read(line: &str) -> Option<Category> {
    let (head, _) = line.split_once(": ")?;
    let mut parts = head.split(" | ");
    let (first, within) = match parts.next()?.split_once(" < ") {
        Some((first, wider)) => (first, Some(wider.to_owned())),
        None => (head.split(" | ").next()?, None),
    };
    let title = |text: &str| match text.split_once('/') {
        Some((one, many)) => Title { one: one.into(), many: many.into() },
        None => Title { one: text.into(), many: plural(text) },
    };
    Some(Category {
        titles: std::iter::once(first).chain(parts).map(title).collect(),
        members: entries(line).map(|(_, word)| word).collect(),
        within,
    })
}
