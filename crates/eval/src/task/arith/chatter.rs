//! What people write around a problem: a greeting, an excuse, thanks.

use super::owner::uncapital;
use super::teller::Teller;

/// Per cent of the prompts with words around them.
const SHARE: usize = 9;

/// The prompt, now and then with something said before or after it.
pub(super) fn around(teller: &mut Teller<'_>, prompt: String) -> String {
    if !teller.chance(SHARE) {
        return prompt;
    }
    match teller.rng.below(10) {
        0..7 => format!("{} {prompt}", teller.draw("chatter/before")),
        // "ok so" is typed by those who type no capitals.
        7 if ["The ", "There ", "If ", "How ", "What ", "A ", "I "]
            .iter()
            .any(|word| prompt.starts_with(word)) =>
        {
            format!("{} {}", teller.pick(&["ok so", "so", "ok,", "*well,"]), uncapital(&prompt))
        }
        _ if prompt.ends_with(['.', '?']) => format!("{prompt} {}", teller.draw("chatter/after")),
        _ => prompt,
    }
}
