//! What is done to a list, and what comes out.

use super::super::Rng;
use super::items::{Items, Sort};
use super::{Queue, Wanted};

/// One operation on one list.
#[derive(Clone)]
pub(super) struct Operation {
    /// The kind it counts under.
    pub(super) kind: &'static str,
    /// The section of the books with its wordings.
    pub(super) section: &'static str,
    /// Someone new, a member, another member, a place: what fills the slots `a`, `b`, `c`, `p`.
    pub(super) a: String,
    pub(super) b: String,
    pub(super) c: String,
    pub(super) p: String,
    /// For two orders in a row: the sections of both.
    pub(super) double: Option<(&'static str, &'static str)>,
    /// What must come back.
    pub(super) queue: Queue,
    /// What identifies the problem.
    pub(super) key: String,
}

/// Sections with their shares of all problems.
const SHARES: [(&str, usize); 18] = [
    ("copy", 5),
    ("reverse", 12),
    ("sort", 20),
    ("descend", 6),
    ("shuffle", 7),
    ("remove", 10),
    ("remove2", 3),
    ("replace", 7),
    ("append", 6),
    ("prepend", 5),
    ("before", 4),
    ("after", 4),
    ("between", 2),
    ("swap", 7),
    ("pick", 6),
    ("beside", 3),
    ("count", 4),
    ("double", 4),
];

const ORDINALS: [&str; 8] = ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth"];

/// A section drawn by its share.
pub(super) fn section(rng: &mut Rng) -> &'static str {
    let total: usize = SHARES.iter().map(|(_, share)| share).sum();
    let mut left = rng.below(total);
    for (section, share) in SHARES {
        if left < share {
            return section;
        }
        left -= share;
    }
    SHARES[0].0
}

/// Whether the answer depends on the alphabet.
pub(super) fn needs_order(section: &str) -> bool {
    matches!(section, "sort" | "descend" | "double")
}

/// Numbers by value, anything else by letters.
fn order(sort: Sort, list: &mut [String]) {
    if sort == Sort::Numbers {
        list.sort_by_key(|item| item.parse::<i64>().unwrap_or(i64::MAX));
    } else {
        list.sort_by_key(|item| item.to_lowercase());
    }
}

/// Carries an operation out on the items.
pub(super) fn operate(rng: &mut Rng, section: &'static str, items: &Items) -> Operation {
    // Two members or a gap between two need a list that has them.
    let section = match section {
        "remove2" if items.list.len() < 4 => "remove",
        _ => section,
    };
    let list = &items.list;
    let at = rng.below(list.len());
    let other = (at + 1 + rng.below(list.len() - 1)) % list.len();
    let (a, mut b, mut c, mut p) =
        (items.spare.clone(), list[at].clone(), list[other].clone(), String::new());
    let mut answer = list.clone();
    // The order of the given list is part of the content, except where the answer does not depend on it.
    let mut content = list.clone();
    let mut wanted = Wanted::Order;
    let mut argument = String::new();
    let mut double = None;
    let kind = match section {
        "copy" => "lines/copy",
        "reverse" => {
            answer.reverse();
            "lines/reverse"
        }
        "sort" | "descend" => {
            order(items.sort, &mut answer);
            content.clone_from(&answer);
            argument = section.into();
            if section == "descend" {
                answer.reverse();
            }
            "lines/sort"
        }
        "shuffle" => {
            while &answer == list {
                rng.shuffle(&mut answer);
            }
            content.sort_unstable();
            wanted = Wanted::Shuffle;
            "lines/shuffle"
        }
        "remove" => {
            answer.remove(at);
            argument.clone_from(&b);
            "lines/remove"
        }
        "remove2" => {
            answer.retain(|item| *item != b && *item != c);
            argument = format!("{},{}", (&b).min(&c), (&b).max(&c));
            "lines/remove"
        }
        "replace" => {
            answer[at].clone_from(&a);
            argument = format!("{a}/{b}");
            "lines/replace"
        }
        "append" | "prepend" => {
            let place = if section == "append" { list.len() } else { 0 };
            answer.insert(place, a.clone());
            argument = format!("{a}@{place}");
            "lines/add"
        }
        "before" | "after" | "between" => {
            let place = match section {
                "before" => at,
                "after" => at + 1,
                _ => {
                    let gap = 1 + rng.below(list.len() - 1);
                    (b, c) = (list[gap - 1].clone(), list[gap].clone());
                    gap
                }
            };
            answer.insert(place, a.clone());
            // "After the third" and "before the fourth" are one problem.
            argument = format!("{a}@{place}");
            "lines/insert"
        }
        "swap" => {
            answer.swap(at, other);
            argument = format!("{},{}", at.min(other), at.max(other));
            "lines/swap"
        }
        "pick" => {
            let (place, title) = match rng.below(10) {
                0..4 => (0, "first"),
                4..8 => (list.len() - 1, "last"),
                _ => (at, ORDINALS[at]),
            };
            p = title.into();
            answer = vec![list[place].clone()];
            argument = place.to_string();
            wanted = Wanted::One;
            "lines/pick"
        }
        "beside" => {
            let gap = 1 + rng.below(list.len() - 1);
            let (member, next, word) = if rng.coin() {
                (gap - 1, gap, *rng.pick(&["after", "after", "behind"]))
            } else {
                (gap, gap - 1, *rng.pick(&["before", "before", "in front of"]))
            };
            p = word.into();
            b.clone_from(&list[member]);
            answer = vec![list[next].clone()];
            argument = format!("{member}>{next}");
            wanted = Wanted::One;
            "lines/pick"
        }
        "count" => {
            answer = vec![list.len().to_string()];
            content.sort_unstable();
            wanted = Wanted::Count;
            "lines/count"
        }
        _ => {
            let first = *rng.pick(&["remove", "append", "prepend", "replace"]);
            let second = *rng.pick(&["reverse", "sort"]);
            match first {
                "remove" => drop(answer.remove(at)),
                "append" => answer.push(a.clone()),
                "prepend" => answer.insert(0, a.clone()),
                _ => answer[at].clone_from(&a),
            }
            argument = match first {
                "remove" => format!("{first} {b} {second}"),
                "replace" => format!("{first} {b} {a} {second}"),
                _ => format!("{first} {a} {second}"),
            };
            if second == "reverse" {
                answer.reverse();
            } else {
                order(items.sort, &mut answer);
            }
            double = Some((first, second));
            "lines/double"
        }
    };
    let key = format!("{kind}:{}:{argument}", content.join(","));
    let asked = if wanted == Wanted::One && section == "beside" { vec![b.clone()] } else { Vec::new() };
    let queue = Queue { given: list.clone(), expected: answer, wanted, asked, wordings: Vec::new() };
    Operation { kind, section, a, b, c, p, double, queue, key }
}
