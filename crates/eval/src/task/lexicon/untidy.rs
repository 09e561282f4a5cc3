//! Prompts as people really type them: small letters, no full stop, a slip of the finger.
//!
//! Invariant: names, numbers, nouns and anything that is not among the commonest words of the language stay as they are,
//! so that the answer to an untidy prompt is the answer to the tidy one.

use std::collections::HashSet;
use std::sync::LazyLock;

use super::super::Rng;

static COMMON: LazyLock<HashSet<&str>> =
    LazyLock::new(|| crate::task::wordings::text("lexicon/common.txt").split_whitespace().collect());

/// Per cent of the prompts whose sentences begin in lower case.
const LOWER: usize = 5;
/// Per cent of the prompts that lack their last full stop or question mark.
const UNFINISHED: usize = 5;
/// Per cent of the prompts with two spaces somewhere.
const DOUBLED: usize = 1;
/// Per cent of the prompts with a slip in a common word.
const TYPO: usize = 2;

/// The prompt, in a few per cent of all cases typed carelessly.
pub fn untidy(rng: &mut Rng, prompt: String) -> String {
    let mut prompt = prompt;
    if rng.below(100) < LOWER {
        prompt = lower(&prompt);
    }
    if rng.below(100) < UNFINISHED && prompt.ends_with(['.', '?', '!']) {
        prompt.pop();
    }
    if rng.below(100) < DOUBLED {
        prompt = doubled(rng, prompt);
    }
    if rng.below(100) < TYPO {
        prompt = typo(rng, prompt);
    }
    prompt
}

/// The words of a text with the place where each begins; what stands between spaces, its punctuation left out.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split([' ', '\n']).map(move |piece| {
        let word = piece.trim_end_matches(['.', ',', '?', '!', ':', ';']);
        (word.as_ptr() as usize - text.as_ptr() as usize, word)
    })
}

/// Common words with a capital get a small letter; names keep theirs.
fn lower(text: &str) -> String {
    let mut changed = text.to_owned();
    for (at, word) in words(text) {
        if word.starts_with(|c: char| c.is_ascii_uppercase()) && COMMON.contains(word.to_lowercase().as_str())
        {
            changed.replace_range(at..at + 1, &word[..1].to_lowercase());
        }
    }
    changed
}

fn doubled(rng: &mut Rng, text: String) -> String {
    let letter = |at: usize| text.as_bytes()[at].is_ascii_lowercase();
    let places: Vec<usize> = (1..text.len().saturating_sub(1))
        .filter(|&at| text.as_bytes()[at] == b' ' && letter(at - 1) && letter(at + 1))
        .collect();
    if places.is_empty() {
        return text;
    }
    let at = *rng.pick(&places);
    format!("{} {}", &text[..at], &text[at..])
}

/// Drops, doubles or swaps a letter inside a common word of at least four letters.
fn typo(rng: &mut Rng, text: String) -> String {
    let places: Vec<(usize, usize)> = words(&text)
        .filter(|(_, word)| word.len() >= 4 && COMMON.contains(word))
        .map(|(at, word)| (at, word.len()))
        .collect();
    if places.is_empty() {
        return text;
    }
    let (start, length) = *rng.pick(&places);
    let at = start + 1 + rng.below(length - 2);
    let mut bytes = text.into_bytes();
    match rng.below(3) {
        0 => {
            bytes.remove(at);
        }
        1 => bytes.insert(at, bytes[at]),
        _ => bytes.swap(at, at + 1),
    }
    // Common words are ASCII, so the text stays whole.
    String::from_utf8_lossy(&bytes).into_owned()
}
