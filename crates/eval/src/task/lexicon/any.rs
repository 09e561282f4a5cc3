//! Any word at all, for drills: the words of our own texts, and halves of two of them joined ("Mar" + "edith").
//!
//! Lists and stories repeat the nouns and names of the lexicon, so that a third of the pieces a tokenizer cuts words into never
//! stands in an answer, and a model cannot copy a word that has one. Invariant: no fresh name or noun is among them.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use super::super::{Rng, wordings};
use super::RESERVED;
use super::grammar::capital;

/// Every plain word of every text file in lower case; a set, so that the order is the same in every run.
static POOL: LazyLock<Vec<String>> = LazyLock::new(|| {
    let words = wordings::texts().flat_map(|text| text.split(|c: char| !c.is_alphabetic()));
    let plain = words.filter(|word| word.is_ascii() && (3..=12).contains(&word.len()));
    let pool: BTreeSet<String> =
        plain.map(str::to_lowercase).filter(|word| !RESERVED.contains(word)).collect();
    pool.into_iter().collect()
});

/// `count` different words in lower case.
pub fn any_words(rng: &mut Rng, count: usize) -> Vec<String> {
    let mut found: Vec<String> = Vec::with_capacity(count);
    while found.len() < count {
        let word = if rng.below(3) == 0 { crossed(rng) } else { rng.pick(&POOL).clone() };
        if !found.contains(&word) {
            found.push(word);
        }
    }
    found
}

/// `count` different words written as names.
pub fn any_names(rng: &mut Rng, count: usize) -> Vec<String> {
    any_words(rng, count).iter().map(|word| capital(word)).collect()
}

/// The beginning of one word and the end of another.
fn crossed(rng: &mut Rng) -> String {
    loop {
        let (head, tail) = (rng.pick(&POOL), rng.pick(&POOL));
        let (from, to) = (2 + rng.below(head.len() - 2), 2 + rng.below(tail.len() - 2));
        let word = format!("{}{}", &head[..from], &tail[tail.len() - to..]);
        if word.len() <= 12 && !RESERVED.contains(&word) {
            return word;
        }
    }
}
