//! Words, each with what follows from it: its first letter, its length, its plural, itself in capitals.

use serde::{Deserialize, Serialize};

use super::demand::Family;
use super::{in_order, obvious, read, told};
use crate::task::lexicon::{self, NounKind, Pronoun, categories, category};
use crate::task::phrase::expand;
use crate::task::{Rng, Wording};

/// What follows from a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Trait {
    /// Its first letter.
    Initial,
    /// How many letters it has.
    Length,
    /// Its plural.
    Plural,
}

/// Words of a category, each with one trait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Letters {
    /// The category by its first title; `name` for first names, `word` or `thing` for any noun.
    category: String,
    count: usize,
    /// The trait.
    follows: Trait,
}

impl Trait {
    fn words(self, rng: &mut Rng, named: bool) -> [String; 2] {
        let forms = match self {
            Self::Initial if named => [
                "[their initials|their first letters|the first letter of each]",
                "[its first letter|the initial]",
            ],
            Self::Initial => [
                "[their first letters|their first letters|their initials|the first letter of each|the letter they start with|the letter each one starts with|what letter they begin with|what letter they start with|the letter each begins with]",
                "[its first letter|the letter it starts with|its initial]",
            ],
            Self::Length => [
                "[their lengths|their length|how many letters they have|the number of letters]",
                "[its length|the number of letters|how many letters it has]",
            ],
            Self::Plural => [
                "[their plurals|their plural|their plural forms|the plural of each]",
                "[its plural|the plural|its plural form]",
            ],
        };
        forms.map(|form| expand(rng, form))
    }

    fn holds(self, word: &str, told: &str) -> bool {
        match self {
            Self::Initial => word
                .chars()
                .next()
                .is_some_and(|first| told.to_lowercase() == first.to_lowercase().to_string()),
            Self::Length => read::number(told) == Some(word.chars().count() as i64),
            Self::Plural => lexicon::plural_of(word) == told,
        }
    }

    fn of(self, word: &str) -> String {
        match self {
            Self::Initial => word.chars().take(1).collect(),
            Self::Length => word.chars().count().to_string(),
            Self::Plural => lexicon::plural_of(word),
        }
    }
}

/// The categories whose members one counts.
const COUNTED: [&str; 6] = ["animal", "bird", "vehicle", "flower", "tree", "building"];

impl Letters {
    fn belongs(&self, word: &str) -> bool {
        let single = !word.is_empty() && word.chars().all(char::is_alphabetic);
        match self.category.as_str() {
            "name" => single && word.starts_with(char::is_uppercase),
            "word" | "thing" => single,
            title => categories().iter().any(|category| category.one() == title && category.contains(word)),
        }
    }
}

impl Family for Letters {
    fn draw(rng: &mut Rng, wording: Wording) -> (Self, String) {
        let follows = *rng.pick(&[
            Trait::Initial,
            Trait::Initial,
            Trait::Initial,
            Trait::Length,
            Trait::Plural,
            Trait::Plural,
        ]);
        let (title, many) = loop {
            let (title, many) = match rng.below(6) {
                0 => ("name", (*rng.pick(&["names", "first names", "people"])).to_string()),
                1 => ("word", (*rng.pick(&["words", "nouns", "words"])).to_string()),
                2 => ("thing", "things".to_string()),
                _ => {
                    let category = category(rng, wording);
                    (category.one(), rng.pick(&category.titles).many.clone())
                }
            };
            if follows != Trait::Plural || COUNTED.contains(&title) || title == "word" || title == "thing" {
                break (title, many);
            }
        };
        let most = match categories().iter().find(|category| category.one() == title) {
            Some(category) => category.members.len().min(6) as i64,
            None => 6,
        };
        let letters = Self { category: title.into(), count: rng.between(2, most) as usize, follows };
        let [their, its] = follows.words(rng, title == "name");
        let slots = [("members", many.as_str()), ("their", &their), ("its", &its)];
        let prompt = told(rng, wording, "letters", letters.count, &slots)
            .replace("with what letter", "and what letter");
        (letters, prompt)
    }

    fn key(&self) -> String {
        format!("{}:{}:{:?}", self.category, self.count, self.follows)
    }

    fn answer(&self, rng: &mut Rng, _wording: Wording) -> Vec<String> {
        let obvious = obvious::chosen(rng).then(|| obvious::chain(&self.category));
        let obvious = obvious.filter(|chain| chain.len() >= self.count);
        let mut words = match &obvious {
            Some(chain) => chain[..self.count].iter().map(|word| (*word).to_string()).collect(),
            None => words(rng, &self.category, self.count),
        };
        if obvious.is_none() && in_order(rng) {
            words.sort_unstable_by_key(|word| word.to_lowercase());
        }
        let glue = if rng.below(8) > 0 { ": " } else { " - " };
        words.iter().map(|word| format!("{word}{glue}{}", self.follows.of(word))).collect()
    }

    fn read(&self, _response: &str, parts: &[&str]) -> Option<String> {
        let found = read::every(parts, self.count, |part| read::couple(part, &[":", "->", "-", "="]))?;
        let words: Vec<&str> = found.iter().map(|(word, ..)| *word).collect();
        let signs: Vec<&str> = found.iter().map(|(_, sign, _)| *sign).collect();
        let right = found.iter().all(|(word, _, told)| self.belongs(word) && self.follows.holds(word, told));
        (right && read::uniform(&signs) && read::distinct(&words)).then(|| words.join(", "))
    }
}

/// Whose names a title of names asks for, where it asks for girls' or boys' names.
pub(super) fn pronoun(title: &str) -> Option<Pronoun> {
    match title {
        "girl" => Some(Pronoun::She),
        "boy" => Some(Pronoun::He),
        _ => None,
    }
}

/// Different words of a category that come to mind first.
pub(super) fn words(rng: &mut Rng, title: &str, count: usize) -> Vec<String> {
    let wanted = pronoun(title);
    if title == "name" || wanted.is_some() {
        let mut chosen: Vec<String> = Vec::new();
        while chosen.len() < count {
            let name = lexicon::familiar_name(rng);
            if wanted.is_none_or(|wanted| name.pronoun == wanted) && !chosen.contains(&name.text) {
                chosen.push(name.text.clone());
            }
        }
        return chosen;
    }
    if let Some(category) = categories().iter().find(|category| category.one() == title) {
        return rng.sample(category.familiar(), count);
    }
    let mut words: Vec<String> = Vec::new();
    while words.len() < count {
        let word = &lexicon::familiar_noun(rng, &NounKind::ALL).one;
        if !words.contains(word) {
            words.push(word.clone());
        }
    }
    words
}
