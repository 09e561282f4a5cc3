//! What orders over lists need most and show least often: the first letter of a word, which of two comes first in the alphabet,
//! and orders that turn on a place in the list: over numbers and letters, where an item is one token, over long lists, and over
//! words of every kind.

use super::super::Rng;
use super::super::book::{expand, fill};
use super::super::lexicon::Wording;
use super::items::{Items, Sort};
use super::operation::{Operation, needs_order, operate};
use super::{Problem, Queue, Wanted, problem, prompt, wordings};

/// The orders that are drilled, the hardest most often.
const DRILLED: [&str; 20] = [
    "sort", "sort", "descend", "swap", "swap", "swap", "before", "before", "after", "after", "between",
    "between", "remove", "remove2", "beside", "count", "double", "double", "copy", "replace",
];

/// One drill.
pub(super) fn draw(rng: &mut Rng) -> Problem {
    match rng.below(12) {
        0 => initials(rng),
        1 => earlier(rng),
        _ => {
            let section = *rng.pick(&DRILLED);
            let (short, long) = (rng.below(3) == 0, rng.below(3) == 0);
            let items = loop {
                let items = drawn(rng, needs_order(section), short);
                let fits = if long { items.list.len() >= 6 } else { !short || items.sort.is_one_token() };
                if fits {
                    break items;
                }
            };
            let mut operation = operate(rng, section, &items);
            let prompt = prompt::tell(rng, Wording::Usual, &items, &operation);
            operation.queue.wordings = wordings(&items, &operation);
            let Operation { kind, key, queue, .. } = operation;
            problem(rng, prompt, kind, key, queue)
        }
    }
}

/// A list; three in five are of any words at all, to be copied piece by piece.
fn drawn(rng: &mut Rng, sorted: bool, short: bool) -> Items {
    if !short && rng.below(5) < 3 {
        return Items::any(rng, sorted);
    }
    Items::draw(rng, Wording::Usual, sorted)
}

/// Words of any sort that has letters, in no special order.
fn lettered(rng: &mut Rng, sorted: bool) -> Items {
    loop {
        let items = drawn(rng, sorted, false);
        if matches!(items.sort, Sort::People | Sort::Words) && items.list.iter().all(|item| item.is_ascii()) {
            return items;
        }
    }
}

/// The first letters of a list, or of one word.
fn initials(rng: &mut Rng) -> Problem {
    let mut items = lettered(rng, false);
    let pattern = if rng.coin() {
        items.list.truncate(1);
        "<Which|What> letter does {l} <start|begin> with?|The first letter of {l}?|What is the first letter of {l}?"
    } else {
        "<Give|Write|List> the first letters of {l}.|First letters: {l}|What are the first letters of {l}?"
    };
    let pattern = expand(rng, &format!("<{pattern}>"));
    let prompt = fill(&pattern, &[("l", &items.list.join(", "))]);
    let expected: Vec<String> = items.list.iter().map(|word| word[..1].to_uppercase()).collect();
    let key = format!("lines/initials:{}", items.list.join(","));
    let queue = Queue {
        given: items.list,
        expected,
        wanted: Wanted::Order,
        asked: Vec::new(),
        wordings: vec!["{l}".into(), "The answer is {l}.".into()],
    };
    problem(rng, prompt, "lines/initials", key, queue)
}

/// Which of two comes first in the alphabet.
fn earlier(rng: &mut Rng) -> Problem {
    let items = lettered(rng, true);
    let (a, b) = (&items.list[0], &items.list[1]);
    let last = rng.below(4) == 0;
    let place = if last { "last" } else { "first" };
    let patterns = [
        "Which comes {p} in the alphabet, {a} or {b}?",
        "Which comes {p} alphabetically: {a} or {b}?",
        "Alphabetically, which is {p}: {a} or {b}?",
        "{a} or {b}: which comes {p} in alphabetical order?",
    ];
    let prompt = fill(rng.pick::<&str>(&patterns), &[("p", place), ("a", a), ("b", b)]);
    let ahead = a.to_lowercase() < b.to_lowercase();
    let expected = if ahead == last { b.clone() } else { a.clone() };
    let mut pair = vec![a.clone(), b.clone()];
    pair.sort_unstable();
    let key = format!("lines/earlier:{place}:{}", pair.join(","));
    let queue = Queue {
        given: pair,
        expected: vec![expected],
        wanted: Wanted::One,
        asked: Vec::new(),
        wordings: vec!["{l}".into(), format!("{{l}} comes {place}."), "The answer is {l}.".into()],
    };
    problem(rng, prompt, "lines/earlier", key, queue)
}
