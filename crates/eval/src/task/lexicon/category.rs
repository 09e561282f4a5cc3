//! Categories and what belongs to them: "animal", "colour", "tool".
//!
//! Both the file and each of its lines begin with what people think of first, and draws favour beginnings: a small model has
//! room for the fruits everybody names, not for every fruit.
//!
//! Invariant: a word is listed under one category, and under the narrowest ("crow" is a bird, and thereby an animal).

use std::sync::LazyLock;

use super::super::Rng;
use super::Wording;
use super::entries;
use super::grammar::plural;

/// How many words of a category answers draw from.
const FAMILIAR: usize = 14;

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

    /// One of its words, those at the beginning of its line most often.
    pub fn member(&self, rng: &mut Rng) -> &str {
        early::<String>(rng, &self.members)
    }

    /// `count` different words of it (all, if there are fewer), drawn as [`Self::member`] draws.
    pub fn sample(&self, rng: &mut Rng, count: usize) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        while found.len() < count.min(self.members.len()) {
            let word = self.member(rng);
            if !found.iter().any(|known| known == word) {
                found.push(word.to_owned());
            }
        }
        found
    }

    /// The words that come to mind first: what an answer names where any member will do.
    pub fn familiar(&self) -> &[String] {
        &self.members[..self.members.len().min(FAMILIAR)]
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
    static ALL: LazyLock<Vec<Category>> = LazyLock::new(|| {
        crate::task::wordings::text("lexicon/categories.txt").lines().filter_map(read).collect()
    });
    &ALL
}

/// Any category, those at the beginning of the file most often: membership is knowledge, so every wording draws from all.
pub fn category(rng: &mut Rng, _wording: Wording) -> &'static Category {
    early(rng, categories())
}

/// An item of a list that begins with what is best known: uniform among the first k, where k is uniform.
fn early<'a, T>(rng: &mut Rng, items: &'a [T]) -> &'a T {
    let known = 1 + rng.below(items.len());
    &items[rng.below(known)]
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
