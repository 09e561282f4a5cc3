//! Words that do not exist, made of syllables: "Zorvik", "blimmets".

use std::collections::HashSet;

use super::super::Rng;
use super::grammar::capital;

const ONSETS: [&str; 36] = [
    "b", "d", "f", "g", "h", "j", "k", "l", "m", "n", "p", "r", "s", "t", "v", "w", "y", "z", "bl", "br",
    "ch", "cr", "dr", "fl", "gl", "gr", "kl", "pl", "pr", "qu", "sh", "sk", "sn", "st", "tr", "th",
];
const VOWELS: [&str; 10] = ["a", "e", "i", "o", "u", "a", "o", "ee", "oo", "ai"];
const MIDDLES: [&str; 14] = ["", "", "", "", "l", "m", "n", "r", "b", "g", "mm", "nd", "rt", "lv"];
const NAME_CODAS: [&str; 16] =
    ["", "", "a", "ik", "en", "is", "o", "an", "el", "ra", "n", "r", "l", "k", "x", "th"];
const NOUN_CODAS: [&str; 16] =
    ["t", "k", "n", "m", "p", "g", "d", "b", "ck", "nk", "le", "er", "et", "ip", "ock", "in"];

/// Vowels that some alphabets write with a mark.
const MARKED: [(char, &str); 5] = [('a', "áäåãâ"), ('e', "éèêë"), ('i', "íî"), ('o', "óöøô"), ('u', "úüû")];
/// One name in this many has one.
const ACCENTED: usize = 5;

/// A first name nobody has.
pub(super) fn name(rng: &mut Rng, reserved: &HashSet<String>) -> String {
    let name = capital(&word(rng, &NAME_CODAS, reserved));
    if rng.below(ACCENTED) == 0 { accented(rng, name) } else { name }
}

/// The name with a mark on its last vowel.
fn accented(rng: &mut Rng, mut name: String) -> String {
    let marked = |letter: char| MARKED.iter().find(|(plain, _)| *plain == letter).map(|(_, marked)| *marked);
    if let Some((at, marks)) = name.char_indices().rev().find_map(|(at, letter)| Some((at, marked(letter)?)))
    {
        let marks: Vec<char> = marks.chars().collect();
        name.replace_range(at..at + 1, &rng.pick(&marks).to_string());
    }
    name
}

/// A countable thing nobody knows.
pub(super) fn noun(rng: &mut Rng, reserved: &HashSet<String>) -> String {
    word(rng, &NOUN_CODAS, reserved)
}

fn word(rng: &mut Rng, codas: &[&str], reserved: &HashSet<String>) -> String {
    loop {
        let mut word = String::new();
        for syllable in 0..2 {
            word += *rng.pick::<&str>(&ONSETS);
            word += *rng.pick::<&str>(&VOWELS);
            if syllable == 0 {
                word += *rng.pick::<&str>(&MIDDLES);
            }
        }
        let coda = *rng.pick::<&str>(codas);
        // "blimmoo" + "er" would put three vowels in a row.
        if coda.starts_with(['a', 'e', 'i', 'o']) && word.ends_with(['a', 'e', 'i', 'o', 'u']) {
            while word.ends_with(['a', 'e', 'i', 'o', 'u']) {
                word.pop();
            }
        }
        word += coda;
        if (4..=10).contains(&word.len()) && !reserved.contains(&word) {
            return word;
        }
    }
}
