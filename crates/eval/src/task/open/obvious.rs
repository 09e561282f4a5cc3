//! What everybody names first: "apple, pear, plum …", "Anna, Ben, Clara …".
//!
//! More than half of the reference answers that may name any word of a kind name these, in this order. Asked for five fruits, people
//! do not draw lots; and a chain whose next word the last one tells is how a small model learns not to name one twice.
//!
//! Invariant: the words of a chain are different, and each is valid by itself where its kind is asked for.

use super::letters::pronoun;
use crate::task::Rng;
use crate::task::lexicon::{self, Pronoun, categories};

/// How many of 100 answers name what is obvious.
const SHARE: usize = 60;

const NAMES: [&str; 12] =
    ["Anna", "Ben", "Clara", "David", "Emma", "Felix", "Grace", "Henry", "Ivy", "Jack", "Lucy", "Max"];
const GIRLS: [&str; 10] =
    ["Anna", "Bella", "Clara", "Daisy", "Emma", "Fiona", "Grace", "Hannah", "Ivy", "Lucy"];
const BOYS: [&str; 10] = ["Adam", "Ben", "Carl", "David", "Eric", "Felix", "George", "Henry", "Jack", "Max"];
const THINGS: [&str; 12] =
    ["apple", "ball", "cup", "door", "egg", "fork", "glass", "hat", "key", "lamp", "pen", "ring"];

/// Whether an answer names what is obvious.
pub(super) fn chosen(rng: &mut Rng) -> bool {
    rng.below(100) < SHARE
}

/// The words of a category (by its first title) or kind, those first that are named first.
pub(super) fn chain(title: &str) -> Vec<&'static str> {
    match pronoun(title) {
        Some(Pronoun::She) => return GIRLS.to_vec(),
        Some(_) => return BOYS.to_vec(),
        None => {}
    }
    if title == "name" {
        return NAMES.to_vec();
    }
    match categories().iter().find(|category| category.one() == title) {
        Some(category) => category.members.iter().map(String::as_str).collect(),
        None => THINGS.to_vec(),
    }
}

/// The same with a first letter; names of which there are not enough in the chain are any that people have.
pub(super) fn beginning(title: &str, letter: char) -> Vec<&'static str> {
    let named = title == "name" || pronoun(title).is_some();
    let words = if named { lexicon::known_names(pronoun(title)).collect() } else { chain(title) };
    words.into_iter().filter(|word| word.starts_with(letter)).collect()
}

/// The same in alphabetical order: of the words that come to mind, so that the order is the same however many are wanted.
pub(super) fn sorted(title: &str) -> Vec<&'static str> {
    let mut words = chain(title);
    if let Some(category) = categories().iter().find(|category| category.one() == title) {
        words.truncate(category.familiar().len());
    }
    words.sort_unstable_by_key(|word| word.to_lowercase());
    words
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn chains_have_different_words_that_training_knows() {
        let names: HashSet<&str> = lexicon::known_names(None).collect();
        assert!(NAMES.iter().chain(&GIRLS).chain(&BOYS).all(|name| names.contains(name)));
        let fresh: HashSet<&str> = lexicon::fresh_nouns().collect();
        assert!(THINGS.iter().all(|thing| !fresh.contains(thing)));
        for title in ["name", "girl", "boy", "thing"].into_iter().chain(categories().iter().map(|c| c.one()))
        {
            let (chain, sorted) = (chain(title), sorted(title));
            assert_eq!(chain.iter().collect::<HashSet<_>>().len(), chain.len(), "{title}");
            assert!(sorted.is_sorted_by_key(|word| word.to_lowercase()), "{title}");
            assert!(sorted.iter().all(|word| chain.contains(word)), "{title}");
        }
        assert!(beginning("name", 'K').iter().all(|name| name.starts_with('K')));
        assert!(beginning("name", 'K').len() >= 8);
    }
}
