//! Different words of a kind, in order or not; or given words in any order.

use serde::{Deserialize, Serialize};

use super::demand::Family;
use super::letters::words;
use super::{in_order, obvious, read, told};
use crate::task::lexicon::{self, categories, category};
use crate::task::phrase::{expand, fill};
use crate::task::{Rng, Wording};

/// What the words of a list must keep to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Limit {
    /// Nothing but being different.
    None,
    /// Alphabetical order.
    Sorted,
    /// None of these.
    Without(Vec<String>),
    /// This first letter.
    Initial(char),
    /// Exactly these, in any order.
    Given(Vec<String>),
}

/// Different words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct List {
    /// The category by its first title; `name` for first names.
    category: String,
    count: usize,
    limit: Limit,
}

const INITIALS: [char; 14] = ['A', 'B', 'C', 'D', 'E', 'H', 'J', 'K', 'L', 'M', 'N', 'R', 'S', 'T'];

impl List {
    fn shuffle(rng: &mut Rng, wording: Wording) -> (Self, String) {
        let count = rng.between(3, 8) as usize;
        let (title, given) = if rng.below(4) > 0 {
            ("name", lexicon::names(rng, wording, count).into_iter().map(|name| name.text).collect())
        } else {
            let category = category(rng, wording);
            (category.one(), category.sample(rng, count))
        };
        let given: Vec<String> = given;
        let listed = given.join(", ");
        let prompt = told(rng, wording, "shuffle", given.len(), &[("items", &listed)]);
        // Whatever the words are called, they are the words.
        let count = given.len();
        (Self { category: title.into(), count, limit: Limit::Given(given) }, prompt)
    }

    fn belongs(&self, word: &str) -> bool {
        let kind = match self.category.as_str() {
            "name" | "girl" | "boy" => {
                word.starts_with(char::is_uppercase) && word.chars().all(|c| c.is_alphabetic() || c == '-')
            }
            title => categories().iter().any(|category| category.one() == title && category.contains(word)),
        };
        match &self.limit {
            Limit::Without(words) => kind && !words.iter().any(|other| other == word),
            Limit::Initial(letter) => kind && word.starts_with(*letter),
            Limit::Given(words) => words.iter().any(|other| other == word),
            Limit::None | Limit::Sorted => kind,
        }
    }

    /// What everybody names first, where that is enough.
    fn obvious(&self) -> Option<Vec<String>> {
        let chain = match &self.limit {
            Limit::Given(_) => return None,
            Limit::Initial(letter) => obvious::beginning(&self.category, *letter),
            Limit::Sorted => obvious::sorted(&self.category),
            Limit::None | Limit::Without(_) => obvious::chain(&self.category),
        };
        let words: Vec<String> =
            chain.into_iter().map(str::to_owned).filter(|word| self.belongs(word)).take(self.count).collect();
        (words.len() == self.count).then_some(words)
    }

    fn draw_limit(rng: &mut Rng, title: &str) -> Limit {
        match rng.below(6) {
            0 | 1 => Limit::Sorted,
            2 | 3 => {
                let count = 1 + rng.below(2);
                Limit::Without(words(rng, title, count))
            }
            4 if title == "name" => Limit::Initial(*rng.pick(&INITIALS)),
            4 => shared_initial(rng, title).map_or(Limit::None, Limit::Initial),
            _ => Limit::None,
        }
    }
}

/// How many members of a category begin with a letter.
fn beginning(title: &str, letter: char) -> usize {
    let members =
        categories().iter().filter(|category| category.one() == title).flat_map(|category| &category.members);
    members.filter(|member| member.starts_with(letter)).count()
}

/// A letter several members of a category begin with.
fn shared_initial(rng: &mut Rng, title: &str) -> Option<char> {
    let members = &categories().iter().find(|category| category.one() == title)?.members;
    let first = |word: &String| word.chars().next();
    let shared: Vec<char> = members
        .iter()
        .filter_map(first)
        .filter(|letter| members.iter().filter(|other| first(other) == Some(*letter)).count() > 1)
        .collect();
    (!shared.is_empty()).then(|| *rng.pick(&shared))
}

/// How many words of a category there are to draw from.
fn members(title: &str) -> usize {
    categories().iter().find(|category| category.one() == title).map_or(8, |category| category.members.len())
}

impl Family for List {
    fn draw(rng: &mut Rng, wording: Wording) -> (Self, String) {
        if rng.below(3) == 0 {
            return Self::shuffle(rng, wording);
        }
        let (title, many) = if rng.below(3) == 0 {
            match rng.below(6) {
                0 => ("girl", (*rng.pick(&["girls' names", "girl names", "names for a girl"])).to_string()),
                1 => ("boy", (*rng.pick(&["boys' names", "boy names", "names for a boy"])).to_string()),
                _ => (
                    "name",
                    (*rng.pick(&["names", "first names", "names of people", "people's names"])).to_string(),
                ),
            }
        } else {
            let category = category(rng, wording);
            (category.one(), rng.pick(&category.titles).many.clone())
        };
        let limit = Self::draw_limit(rng, title);
        let most = (members(title).saturating_sub(2)).min(8) as i64;
        let most = match &limit {
            Limit::Initial(letter) if title != "name" => beginning(title, *letter) as i64,
            _ => most,
        };
        let list = Self { category: title.into(), count: rng.between(2, most.max(2)) as usize, limit };
        let rule = match &list.limit {
            Limit::Sorted => expand(
                rng,
                "[ in alphabetical order| in alphabetical order| from A to Z|, sorted alphabetically|, in order of the alphabet]",
            ),
            Limit::Without(words) => {
                let pattern = expand(rng, "[, but not {w}| other than {w}| except {w}| without {w}]");
                fill(&pattern, &[("w", &words.join(" or "))])
            }
            Limit::Initial(letter) => {
                let pattern = expand(
                    rng,
                    "[ that start with {w}| starting with {w}| that begin with {w}| with {w} as the first letter| beginning with the letter {w}]",
                );
                fill(&pattern, &[("w", &letter.to_string())])
            }
            Limit::None | Limit::Given(_) => String::new(),
        };
        let prompt = told(rng, wording, "list", list.count, &[("members", &many), ("rule", &rule)]);
        (list, prompt)
    }

    fn key(&self) -> String {
        let limit = match &self.limit {
            Limit::Given(words) => {
                let mut words = words.clone();
                words.sort_unstable();
                format!("given:{}", words.join(","))
            }
            other => format!("{other:?}"),
        };
        format!("{}:{}:{limit}", self.category, self.count)
    }

    fn answer(&self, rng: &mut Rng, _wording: Wording) -> Vec<String> {
        if obvious::chosen(rng)
            && let Some(words) = self.obvious()
        {
            return words;
        }
        let ordered = self.limit == Limit::Sorted || in_order(rng);
        let mut chosen = match &self.limit {
            Limit::Given(given) => loop {
                let mixed = rng.sample(given, given.len());
                if mixed != *given {
                    return mixed;
                }
            },
            Limit::Without(_) | Limit::Initial(_) => {
                // Those of one letter may be few: they come from all there are.
                let scarce = matches!(self.limit, Limit::Initial(_));
                let known = categories().iter().find(|category| category.one() == self.category);
                let mut chosen: Vec<String> = Vec::new();
                while chosen.len() < self.count {
                    let word = match known {
                        Some(category) if scarce => category.member(rng).to_owned(),
                        None if scarce => lexicon::known_name(rng, Wording::Usual).text,
                        _ => words(rng, &self.category, 1).remove(0),
                    };
                    if self.belongs(&word) && !chosen.contains(&word) {
                        chosen.push(word);
                    }
                }
                chosen
            }
            Limit::None | Limit::Sorted => words(rng, &self.category, self.count),
        };
        if ordered {
            chosen.sort_unstable_by_key(|word| word.to_lowercase());
        }
        chosen
    }

    fn read(&self, response: &str, _parts: &[&str]) -> Option<String> {
        let parts = read::listed(response);
        let words = read::every(&parts, self.count, |part| self.belongs(part).then(|| part.to_string()))?;
        let lower: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
        let ordered = match &self.limit {
            Limit::Sorted => lower.is_sorted(),
            // As it was given it is not shuffled.
            Limit::Given(given) => words != *given,
            _ => true,
        };
        (ordered && read::distinct(&words)).then(|| words.join(", "))
    }
}
