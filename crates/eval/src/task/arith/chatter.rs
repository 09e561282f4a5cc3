//! What people write around a problem: a greeting, an excuse, thanks.

use super::owner::uncapital;
use super::teller::Teller;

/// Per cent of the prompts with words around them.
const SHARE: usize = 9;

const BEFORE: [&str; 34] = [
    "Hi!",
    "Hello!",
    "Hi,",
    "Hello,",
    "Quick question:",
    "Question:",
    "Problem:",
    "Please solve:",
    "Solve this:",
    "Please help:",
    "Can you help me?",
    "Can you help me with this?",
    "Could you help me with this?",
    "Help me with this:",
    "Here is a problem:",
    "A problem for you:",
    "Please solve this problem:",
    "Good morning!",
    "Good morning, quick one:",
    "Hey,",
    "Hey!",
    "I have a question.",
    "Math problem:",
    "Count with me:",
    "My homework:",
    "Please answer:",
    "Try this:",
    "Another one:",
    "Tell me:",
    "pls solve:",
    "*Here is one for you:",
    "*Good evening!",
    "*A small problem:",
    "*Can you answer this?",
];
const AFTER: [&str; 8] = [
    "Thanks!",
    "Thank you.",
    "Please answer.",
    "Please help.",
    "Thanks",
    "Show the steps.",
    "*Thank you very much!",
    "*Please tell me.",
];

/// The prompt, now and then with something said before or after it.
pub(super) fn around(teller: &mut Teller<'_>, prompt: String) -> String {
    if !teller.chance(SHARE) {
        return prompt;
    }
    match teller.rng.below(10) {
        0..7 => format!("{} {prompt}", teller.pick(&BEFORE)),
        // "ok so" is typed by those who type no capitals.
        7 if ["The ", "There ", "If ", "How ", "What ", "A ", "I "]
            .iter()
            .any(|word| prompt.starts_with(word)) =>
        {
            format!("{} {}", teller.pick(&["ok so", "so", "ok,", "*well,"]), uncapital(&prompt))
        }
        _ if prompt.ends_with(['.', '?']) => format!("{prompt} {}", teller.pick(&AFTER)),
        _ => prompt,
    }
}
