//! Prompts that are none of the tasks' kinds: small talk, knowledge, poems, other languages, other people's code.
//!
//! They are the counterexamples from which a scope is trained (`demask train scope`): a model of a few million weights
//! should say that it cannot write about the sea. Invariant: prompt `index` of a seed depends on the two alone.

use std::sync::LazyLock;

use super::Rng;
use super::lexicon::Wording;
use super::phrase::{Phrases, expand};

static PHRASES: LazyLock<Phrases> =
    LazyLock::new(|| Phrases::parse(crate::task::wordings::text("off_task.txt")));

/// Prompt `index` of the endless stream of prompts that no task asks.
pub fn off_task(seed: u64, index: u64) -> String {
    let rng = &mut Rng::stream(seed, index);
    let section = if rng.below(100) < 6 { "foreign" } else { "prompt" };
    let mut text = PHRASES.draw(rng, Wording::Usual, section);
    while let Some((before, rest)) = text.split_once('{') {
        let (slot, after) = rest.split_once('}').expect("a slot of a pattern is closed");
        let filling = PHRASES.draw(rng, Wording::Usual, slot);
        text = format!("{before}{}{after}", expand(rng, &filling));
    }
    if rng.below(4) == 0 { lower_first(&text) } else { text }
}

/// As many people type it.
fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_are_whole_varied_and_the_same_in_every_run() {
        let drawn: Vec<String> = (0..4000).map(|index| off_task(7, index)).collect();
        for prompt in &drawn {
            assert!(!prompt.trim().is_empty() && !prompt.contains(['{', '}', '[', ']', '|']), "{prompt}");
        }
        let different: std::collections::HashSet<&String> = drawn.iter().collect();
        assert!(different.len() > 3000, "{}", different.len());
        assert_eq!(drawn[1234], off_task(7, 1234));
    }
}
