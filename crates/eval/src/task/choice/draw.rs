//! The questions of the `choice` task: what is asked, which option is right, and the facts that say so.

use std::sync::LazyLock;

use super::super::Rng;
use super::super::book::{Book, expand, fill};
use super::super::lexicon::{self, Category, NounKind, Wording, a, capital, categories};
use super::layout::Stem;

pub(super) static ASKS: LazyLock<Book> =
    LazyLock::new(|| Book::read(crate::task::wordings::text("choice/asks.txt")));

/// A question before its options are placed.
pub(super) struct Draw {
    pub(super) kind: &'static str,
    pub(super) stem: Stem,
    /// The right option.
    pub(super) answer: String,
    /// The other options.
    pub(super) others: Vec<String>,
    /// Facts that decide it; those under `closing` end with the right option. `{v}` stands for it, `{V}` with a capital.
    pub(super) facts: Vec<String>,
    pub(super) closing: Vec<String>,
    /// What the question is about, the options apart.
    pub(super) content: String,
    /// The labels it must have, if any: always, never, or as it comes.
    pub(super) labelled: Option<bool>,
    /// Whether the options are numbers, which small ones may come first.
    pub(super) numeric: bool,
}

impl Draw {
    pub(super) fn new(
        kind: &'static str,
        stem: Stem,
        answer: String,
        others: Vec<String>,
        content: String,
    ) -> Self {
        let numeric = answer.parse::<i64>().is_ok();
        let (facts, closing) = (Vec::new(), Vec::new());
        Self { kind, stem, answer, others, facts, closing, content, labelled: None, numeric }
    }

    pub(super) fn facts(mut self, facts: &[String], closing: &[String]) -> Self {
        self.facts = facts.to_vec();
        self.closing = closing.to_vec();
        self
    }
}

/// A question of a section in some wording, its slots filled.
pub(super) fn ask(rng: &mut Rng, wording: Wording, section: &str, slots: &[(&str, &str)]) -> Stem {
    let has = |slot: &str| slots.iter().any(|(name, _)| *name == slot);
    loop {
        let pattern = ASKS.find(rng, wording, section, |_| true);
        let pattern = pattern.unwrap_or_else(|| panic!("no question in section {section}"));
        // A pattern about a word is for questions that have one.
        if (pattern.text.contains("{w}") && !has("w")) || (pattern.text.contains("{or}") && !has("or")) {
            continue;
        }
        let mark = match pattern.tag {
            "Q" => "?",
            "C" => ".",
            _ => "",
        };
        return Stem { text: fill(&expand(rng, pattern.text), slots), mark };
    }
}

/// Sorts of nouns that may well belong to a category without being listed there.
fn near(category: &Category) -> &'static [NounKind] {
    use NounKind::{Animal, Bird, Food, Person, Plant, Thing, Vehicle};
    match category.within.as_deref().unwrap_or(category.one()) {
        "animal" => &[Animal, Bird],
        "fruit" | "vegetable" | "drink" | "colour" | "tree" | "flower" => &[Food, Plant],
        "job" | "family member" => &[Person],
        "vehicle" => &[Vehicle, Thing],
        "tool"
        | "instrument"
        | "body part"
        | "shape"
        | "piece of clothing"
        | "piece of furniture"
        | "building"
        | "metal"
        | "sport"
        | "number word"
        | "kitchen utensil"
        | "toy"
        | "school supply"
        | "electronic device"
        | "household appliance"
        | "currency"
        | "precious stone"
        | "room" => &[Thing, Vehicle, Person],
        _ => &[],
    }
}

/// `count` words that are not of the category: listed under others, or nouns of a far sort.
pub(super) fn outside(rng: &mut Rng, wording: Wording, category: &Category, count: usize) -> Vec<String> {
    let far: Vec<NounKind> =
        NounKind::ALL.into_iter().filter(|kind| !near(category).contains(kind)).collect();
    let mut found: Vec<String> = Vec::new();
    while found.len() < count {
        let word = if rng.below(6) == 0 {
            lexicon::noun(rng, wording, &far).one
        } else {
            let other = lexicon::category(rng, wording);
            if other.overlaps(category) {
                continue;
            }
            other.member(rng).to_owned()
        };
        // Mercury is a metal as well as a planet.
        let double = word == "Mercury" && category.one() == "metal";
        if !double && !category.contains(&word) && !found.contains(&word) && !word.contains(' ') {
            found.push(word);
        }
    }
    found
}

/// A word of the category, of a narrower one at times.
fn member(rng: &mut Rng, category: &Category) -> String {
    let narrower: Vec<&Category> =
        categories().iter().filter(|other| other.within.as_deref() == Some(category.one())).collect();
    if !narrower.is_empty() && rng.below(4) == 0 {
        let narrow = *rng.pick(&narrower);
        return narrow.member(rng).to_owned();
    }
    category.member(rng).to_owned()
}

/// "Which of these is a fruit?", "Pick the colour."
pub(super) fn category(rng: &mut Rng, wording: Wording, count: usize) -> Draw {
    let category = lexicon::category(rng, wording);
    let title = rng.pick(&category.titles);
    let answer = member(rng, category);
    let others = outside(rng, wording, category, count - 1);
    let with = a(&title.one);
    let stem = ask(rng, wording, "category", &[("a", &with), ("one", &title.one), ("many", &title.many)]);
    Draw::new("choice/category", stem, answer, others, category.one().into())
        .facts(&[format!("{{V}} is {with}")], &[format!("The {} is {{v}}", title.one)])
}

/// "Which one is not an animal?"
pub(super) fn odd(rng: &mut Rng, wording: Wording, count: usize) -> Draw {
    loop {
        let category = lexicon::category(rng, wording);
        let count = count.min(category.members.len());
        let title = rng.pick(&category.titles);
        let others = category.sample(rng, count.max(3) - 1);
        let answer = outside(rng, wording, category, 1).remove(0);
        let with = a(&title.one);
        let stem = ask(rng, wording, "odd", &[("a", &with), ("one", &title.one), ("many", &title.many)]);
        if others.len() >= 2 {
            return Draw::new("choice/odd", stem, answer, others, category.one().into())
                .facts(&[format!("{{V}} is not {with}")], &[format!("The one that is not {with} is {{v}}")]);
        }
    }
}

/// What members of a category are for, and the categories that share the use.
const USES: [(&str, &str, &[&str]); 6] = [
    ("piece of clothing", "wear", &[]),
    ("drink", "drink", &[]),
    ("language", "speak", &[]),
    ("vehicle", "drive", &[]),
    ("fruit", "eat", &["vegetable", "animal", "bird", "fish", "drink", "insect", "flower"]),
    ("vegetable", "eat", &["fruit", "animal", "bird", "fish", "drink", "insect", "flower"]),
];

/// "Choose what you can wear."
pub(super) fn useful(rng: &mut Rng, wording: Wording, count: usize) -> Draw {
    let (name, usage, shared) = *rng.pick(&USES);
    let category = categories().iter().find(|category| category.one() == name);
    let category = category.expect("uses are told of categories there are");
    let rivals: Vec<&Category> = categories().iter().filter(|other| shared.contains(&other.one())).collect();
    let answer = category.member(rng).to_owned();
    let others = loop {
        let drawn = outside(rng, wording, category, count - 1);
        if !drawn.iter().any(|word| rivals.iter().any(|rival| rival.contains(word))) {
            break drawn;
        }
    };
    let stem = ask(rng, wording, "use", &[("u", usage)]);
    let fact = format!("You can {usage} {}", with_article(&answer, category));
    Draw::new("choice/category", stem, answer, others, format!("use {usage}")).facts(&[fact], &[])
}

/// "What is a trumpet? A) a fruit B) an instrument"
pub(super) fn kind(rng: &mut Rng, wording: Wording, count: usize) -> Draw {
    let category = lexicon::category(rng, wording);
    let word = category.member(rng).to_owned();
    let mut others: Vec<&Category> = Vec::new();
    while others.len() < count - 1 {
        let other = lexicon::category(rng, wording);
        let double = word == "Mercury" && other.one() == "metal";
        if !double && !other.overlaps(category) && others.iter().all(|known| known.one() != other.one()) {
            others.push(other);
        }
    }
    let bare = rng.coin();
    let shown = |one: &str| if bare { one.to_owned() } else { a(one) };
    let title = &rng.pick(&category.titles).one;
    let answer = shown(title);
    let stem = ask(rng, wording, "kind", &[("w", &with_article(&word, category)), ("or", "{or}")]);
    let options = others.iter().map(|other| shown(other.one())).collect();
    let said = capital(&with_article(&word, category));
    let end = if bare { a(title) } else { "{v}".into() };
    Draw::new("choice/kind", stem, answer, options, word).facts(&[format!("{said} is {end}")], &[])
}

/// "a trumpet", "Paris", "red": whether a word has an article follows from its category.
pub(super) fn with_article(word: &str, category: &Category) -> String {
    let countable = !matches!(
        category.one(),
        "colour" | "metal" | "drink" | "sport" | "season" | "number word" | "language" | "family member"
    );
    let proper = word.starts_with(|c: char| c.is_uppercase());
    let plural =
        matches!(word, "trousers" | "pliers" | "spinach" | "broccoli" | "garlic" | "lettuce" | "celery");
    if countable && !proper && !plural { a(word) } else { word.into() }
}

/// Words or names, `count` of them, with different initials.
fn spread(rng: &mut Rng, wording: Wording, count: usize) -> (Vec<String>, &'static str) {
    let people = rng.below(5) < 2;
    let mut found: Vec<String> = Vec::new();
    while found.len() < count {
        let word = match (people, rng.coin()) {
            (true, _) => lexicon::name(rng, wording).text,
            (_, true) => lexicon::noun(rng, wording, &NounKind::ALL).one,
            _ => lexicon::category(rng, wording).member(rng).to_owned(),
        };
        let same = |other: &String| other[..1].eq_ignore_ascii_case(&word[..1]);
        if word.is_ascii() && !word.contains(' ') && !found.iter().any(same) {
            found.push(word);
        }
    }
    (found, if people { "name" } else { "word" })
}

/// "Which word starts with B?"
pub(super) fn initial(rng: &mut Rng, wording: Wording, count: usize) -> Draw {
    let (mut words, title) = spread(rng, wording, count);
    let answer = words.pop().expect("there are options");
    let letter = answer[..1].to_uppercase();
    // At times the letter is told by another word that has it.
    let model = (rng.below(8) == 0).then(|| {
        let words = categories().iter().flat_map(|category| &category.members);
        let same: Vec<&String> =
            words.filter(|word| word[..1].eq_ignore_ascii_case(&letter) && **word != answer).collect();
        (!same.is_empty()).then(|| (*rng.pick(&same)).clone())
    });
    let mut slots = vec![("i", letter.as_str()), ("t", title)];
    let model = model.flatten();
    if let Some(word) = &model {
        slots.push(("w", word));
    }
    let stem = ask(rng, wording, "initial", &slots);
    Draw::new("choice/initial", stem, answer, words, letter.clone())
        .facts(&[format!("{{V}} starts with {letter}")], &[format!("The {title} with {letter} is {{v}}")])
}

/// "Which name comes first in the alphabet?"
pub(super) fn alphabet(rng: &mut Rng, wording: Wording, count: usize) -> Draw {
    let (mut words, title) = spread(rng, wording, count);
    let first = (0..words.len()).min_by_key(|&at| words[at].to_lowercase()).unwrap_or(0);
    let answer = words.remove(first);
    let stem = ask(rng, wording, "alphabet", &[("t", title)]);
    Draw::new("choice/initial", stem, answer, words, "alphabet".into())
        .facts(&["{V} comes first".into()], &[format!("The first {title} is {{v}}")])
}
