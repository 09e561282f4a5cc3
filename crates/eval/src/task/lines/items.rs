//! What stands in a line: people, words, numbers or letters, what they are called, and how a list of them is typed.

use super::super::Rng;
use super::super::book::joined;
use super::super::lexicon::{self, NounKind, Wording, capital};

/// Sorts of items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    People,
    Words,
    Numbers,
    Letters,
}

impl Sort {
    /// Whether an item is a single token.
    pub(super) fn is_one_token(self) -> bool {
        matches!(self, Self::Numbers | Self::Letters)
    }
}

/// The items of one problem.
pub(super) struct Items {
    pub(super) sort: Sort,
    /// The given list.
    pub(super) list: Vec<String>,
    /// Someone who is not in it.
    pub(super) spare: String,
    /// What one of them is called, and many.
    pub(super) thing: String,
    pub(super) things: String,
    /// What the list is called before a colon.
    pub(super) label: String,
}

impl Items {
    /// Draws a list. `sorted` asks for items whose order is plain: most lists then differ in their first letters, all in
    /// their first two.
    pub(super) fn draw(rng: &mut Rng, wording: Wording, sorted: bool) -> Self {
        let count = length(rng);
        let sort = match rng.below(100) {
            0..56 => Sort::People,
            56..85 => Sort::Words,
            85..96 => Sort::Numbers,
            _ => Sort::Letters,
        };
        let far = if sorted && rng.below(5) > 0 { 1 } else { 2 };
        let (list, titles) = match sort {
            Sort::People => {
                let pool = people(rng, wording);
                (
                    apart(pool.into_iter(), count + 1, sorted, far),
                    one_of(rng, &["name", "name", "name", "person"]),
                )
            }
            Sort::Words => {
                let (pool, title) = words(rng, wording);
                (apart(pool.into_iter(), count + 1, sorted, far), title)
            }
            Sort::Numbers => {
                let top = *rng.pick(&[20, 50, 99, 99]);
                let pool: Vec<i64> = (1..=top).collect();
                let drawn = rng.sample(&pool, count + 1);
                (drawn.iter().map(ToString::to_string).collect(), "number".into())
            }
            Sort::Letters => {
                let pool: Vec<char> = ('A'..='Z').collect();
                let drawn = rng.sample(&pool, count + 1);
                (drawn.iter().map(ToString::to_string).collect(), "letter".into())
            }
        };
        Self::called(rng, sort, list, titles)
    }

    /// A list of any words at all, some written as names: what a drill of copying needs.
    pub(super) fn any(rng: &mut Rng, sorted: bool) -> Self {
        let count = length(rng);
        let (sort, pool, title) = if rng.coin() {
            (Sort::People, lexicon::any_names(rng, 30), "name")
        } else {
            (Sort::Words, lexicon::any_words(rng, 30), *rng.pick(&["word", "item"]))
        };
        Self::called(rng, sort, apart(pool.into_iter(), count + 1, sorted, 1), title.into())
    }

    /// Items of which the last is to be spare, and what to call them.
    fn called(rng: &mut Rng, sort: Sort, mut list: Vec<String>, titles: String) -> Self {
        let spare = list.pop().expect("one more item was drawn than the list has");
        let things = if titles == "person" { "people".into() } else { lexicon::plural(&titles) };
        let label = match sort {
            Sort::People => one_of(rng, &PEOPLE),
            _ if rng.coin() => "List".into(),
            _ => capital(&things),
        };
        Self { sort, list, spare, thing: titles, things, label }
    }
}

/// What a list of people is called before a colon.
const PEOPLE: [&str; 10] =
    ["Line", "Line", "Names", "Names", "Names", "List", "Queue", "People", "The line", "The names"];

fn one_of(rng: &mut Rng, words: &[&str]) -> String {
    (*rng.pick::<&str>(words)).to_owned()
}

/// Mostly three to six.
fn length(rng: &mut Rng) -> usize {
    match rng.below(100) {
        0..6 => 2,
        6..36 => 3,
        36..62 => 4,
        62..80 => 5,
        80..90 => 6,
        90..95 => 7,
        _ => 8,
    }
}

/// People of the stories, or people with names that no story tells of: seldom, since people type the names they know, and
/// the drills copy the others.
fn people(rng: &mut Rng, wording: Wording) -> Vec<String> {
    if wording == Wording::Usual && rng.below(8) == 0 {
        return lexicon::other_names(rng, 40);
    }
    lexicon::names(rng, wording, 40).into_iter().map(|name| name.text).collect()
}

/// Words of one category, everyday words, or things of the stories.
fn words(rng: &mut Rng, wording: Wording) -> (Vec<String>, String) {
    if wording == Wording::Usual && rng.below(5) == 0 {
        let (pool, title) = lexicon::everyday(rng, 40);
        return (pool, title.into());
    }
    if wording == Wording::Usual && rng.below(12) == 0 {
        // These lead up to a list.
        let mut pairs = lexicon::any_words(rng, 60);
        pairs.retain(|word| !["is", "are", "now", "and"].contains(&word.as_str()));
        return (pairs.chunks_exact(2).map(|pair| pair.join(" ")).collect(), "item".into());
    }
    // Categories have no fresh words.
    if rng.below(if wording == Wording::Usual { 2 } else { 3 }) == 0 {
        let category = lexicon::category(rng, wording);
        if category.members.len() >= 12 && category.one() != "number word" {
            let title = if rng.coin() { "word".into() } else { category.one().into() };
            return (category.sample(rng, 20), title);
        }
    }
    let mut pool: Vec<String> = Vec::new();
    let many = rng.below(4) == 0;
    while pool.len() < 30 {
        let noun = lexicon::noun(rng, wording, &NounKind::ALL);
        let noun = if many { noun.many } else { noun.one };
        if !noun.contains([' ', '-']) && !pool.contains(&noun) {
            pool.push(noun);
        }
    }
    let title = if rng.coin() { "word" } else { "item" };
    (pool, title.into())
}

/// The first `count` items of a pool; if `sorted`, such whose first `far` letters differ as long as the pool has any.
fn apart(pool: impl Iterator<Item = String>, count: usize, sorted: bool, far: usize) -> Vec<String> {
    let head = |word: &str, letters: usize| word.to_lowercase().chars().take(letters).collect::<String>();
    let mut taken: Vec<String> = Vec::new();
    let mut left: Vec<String> = Vec::new();
    for word in pool {
        let plain = !sorted || word.is_ascii();
        let differs =
            |letters| !sorted || taken.iter().all(|other| head(other, letters) != head(&word, letters));
        if plain && taken.len() < count && differs(far) {
            taken.push(word);
        } else if plain {
            left.push(word);
        }
    }
    for word in left {
        if taken.len() < count && taken.iter().all(|other| head(other, 2) != head(&word, 2)) {
            taken.push(word);
        }
    }
    taken
}

/// A list as typed on its own: mostly with commas, sometimes otherwise, some ways only in fresh wording.
pub(super) fn block(rng: &mut Rng, wording: Wording, list: &[String]) -> String {
    if wording == Wording::Fresh && rng.below(6) == 0 {
        return match rng.below(3) {
            0 => list.join(" | "),
            1 => list.iter().map(|item| format!("\n* {item}")).collect(),
            _ => format!("({})", list.join(", ")),
        };
    }
    let quoted =
        |mark: char| -> Vec<String> { list.iter().map(|item| format!("{mark}{item}{mark}")).collect() };
    match rng.below(100) {
        0..62 => list.join(", "),
        62..72 => joined(list, " and "),
        72..77 => joined(list, ", and "),
        77..80 => list.join("; "),
        80..84 => list.iter().map(|item| format!("\n{item}")).collect(),
        84..86 => list.iter().map(|item| format!("\n- {item}")).collect(),
        86..88 => list.iter().enumerate().map(|(at, item)| format!("\n{}. {item}", at + 1)).collect(),
        // Items of two words need more than a space between them.
        88..91 if !list.iter().any(|item| item.contains(' ')) => list.join(" "),
        88..91 => list.join(", "),
        91..93 => quoted('"').join(", "),
        93..94 => quoted('\'').join(", "),
        94..97 => format!("[{}]", list.join(", ")),
        97..98 => format!("\"{}\"", list.join(", ")),
        98..99 => list.join(" / "),
        _ => list.join(","),
    }
}

/// A list within a sentence.
pub(super) fn inline(rng: &mut Rng, list: &[String]) -> String {
    match rng.below(10) {
        0..6 => joined(list, " and "),
        6..8 => joined(list, ", and "),
        _ => list.join(", "),
    }
}
