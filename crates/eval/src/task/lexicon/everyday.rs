//! Everyday words and first names by the thousand, for lists: items that a model has to copy piece by piece.
//!
//! Invariant: none of them is a fresh name or noun; what the file has of those is left out.

use std::sync::LazyLock;

use super::super::Rng;
use super::{RESERVED, entries};

/// The words of `words.txt` by group.
static GROUPS: LazyLock<Vec<(&'static str, Vec<String>)>> = LazyLock::new(|| {
    let mut groups: Vec<(&str, Vec<String>)> = Vec::new();
    for (group, word) in entries(crate::task::wordings::text("lexicon/words.txt")) {
        if RESERVED.contains(&word.to_lowercase()) {
            continue;
        }
        match groups.iter_mut().find(|(name, _)| *name == group) {
            Some((_, words)) => words.push(word),
            None => groups.push((group, vec![word])),
        }
    }
    groups
});

/// First names that the stories do not know.
const NAMES: &str = "first";

/// `count` different words of one group, or of all of them, and what one of them is called.
pub fn everyday(rng: &mut Rng, count: usize) -> (Vec<String>, &'static str) {
    let groups: Vec<_> = GROUPS.iter().filter(|(name, _)| *name != NAMES).collect();
    if rng.coin() {
        let (name, words) = *rng.pick(&groups);
        let title = match *name {
            "colour" | "city" | "country" | "job" | "place" if rng.coin() => name,
            _ => "word",
        };
        return (rng.sample(words, count.min(words.len())), title);
    }
    let mut mixed: Vec<String> = Vec::new();
    while mixed.len() < count {
        let (_, words) = *rng.pick(&groups);
        let word = rng.pick(words);
        if !mixed.contains(word) {
            mixed.push(word.clone());
        }
    }
    (mixed, "word")
}

/// `count` different first names that occur in no story.
pub fn other_names(rng: &mut Rng, count: usize) -> Vec<String> {
    let names = GROUPS.iter().find(|(name, _)| *name == NAMES).map_or(&[][..], |(_, words)| words.as_slice());
    rng.sample(names, count.min(names.len()))
}
