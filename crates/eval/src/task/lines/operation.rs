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

/// An operation while it is carried out.
struct Work<'a> {
    items: &'a Items,
    /// Places of two members.
    at: usize,
    other: usize,
    a: String,
    b: String,
    c: String,
    p: String,
    answer: Vec<String>,
    /// The given list as it identifies the problem: its order counts, except where the answer does not depend on it.
    content: Vec<String>,
    wanted: Wanted,
    argument: String,
    double: Option<(&'static str, &'static str)>,
}

/// Carries an operation out on the items.
pub(super) fn operate(rng: &mut Rng, section: &'static str, items: &Items) -> Operation {
    let list = &items.list;
    // Who takes two out of three leaves no line.
    let section = if section == "remove2" && list.len() < 4 { "remove" } else { section };
    let at = rng.below(list.len());
    let other = (at + 1 + rng.below(list.len() - 1)) % list.len();
    let mut work = Work {
        items,
        at,
        other,
        a: items.spare.clone(),
        b: list[at].clone(),
        c: list[other].clone(),
        p: String::new(),
        answer: list.clone(),
        content: list.clone(),
        wanted: Wanted::Order,
        argument: String::new(),
        double: None,
    };
    let kind = match section {
        "copy" => "lines/copy",
        "reverse" | "sort" | "descend" | "shuffle" | "swap" => work.reorder(rng, section),
        "remove" | "remove2" | "replace" => work.take(section),
        "append" | "prepend" | "before" | "after" | "between" => work.put(rng, section),
        "pick" | "beside" | "count" => work.question(rng, section),
        _ => work.twice(rng),
    };
    let Work { a, b, c, p, answer, content, wanted, argument, double, .. } = work;
    let key = format!("{kind}:{}:{argument}", content.join(","));
    let asked = if section == "beside" { vec![b.clone()] } else { Vec::new() };
    let queue = Queue { given: list.clone(), expected: answer, wanted, asked, wordings: Vec::new() };
    Operation { kind, section, a, b, c, p, double, queue, key }
}

impl Work<'_> {
    /// The same items in another order.
    fn reorder(&mut self, rng: &mut Rng, section: &str) -> &'static str {
        match section {
            "reverse" => {
                self.answer.reverse();
                "lines/reverse"
            }
            "shuffle" => {
                while self.answer == self.items.list {
                    rng.shuffle(&mut self.answer);
                }
                self.content.sort_unstable();
                self.wanted = Wanted::Shuffle;
                "lines/shuffle"
            }
            "swap" => {
                self.answer.swap(self.at, self.other);
                self.argument = format!("{},{}", self.at.min(self.other), self.at.max(self.other));
                "lines/swap"
            }
            _ => {
                order(self.items.sort, &mut self.answer);
                self.content.clone_from(&self.answer);
                self.argument = section.into();
                if section == "descend" {
                    self.answer.reverse();
                }
                "lines/sort"
            }
        }
    }

    /// Somebody leaves, or gives the place to another.
    fn take(&mut self, section: &str) -> &'static str {
        let (a, b, c) = (&self.a, &self.b, &self.c);
        match section {
            "remove" => {
                self.answer.remove(self.at);
                self.argument.clone_from(b);
            }
            "remove2" => {
                self.answer.retain(|item| item != b && item != c);
                self.argument = format!("{},{}", b.min(c), b.max(c));
            }
            _ => {
                self.answer[self.at].clone_from(a);
                self.argument = format!("{a}/{b}");
                return "lines/replace";
            }
        }
        "lines/remove"
    }

    /// Somebody joins.
    fn put(&mut self, rng: &mut Rng, section: &str) -> &'static str {
        let list = &self.items.list;
        let place = match section {
            "append" => list.len(),
            "prepend" => 0,
            "before" => self.at,
            "after" => self.at + 1,
            _ => {
                let gap = 1 + rng.below(list.len() - 1);
                (self.b, self.c) = (list[gap - 1].clone(), list[gap].clone());
                gap
            }
        };
        self.answer.insert(place, self.a.clone());
        // "After the third" and "before the fourth" are one problem.
        self.argument = format!("{}@{place}", self.a);
        if matches!(section, "append" | "prepend") { "lines/add" } else { "lines/insert" }
    }

    /// Something is asked about the list.
    fn question(&mut self, rng: &mut Rng, section: &str) -> &'static str {
        let list = &self.items.list;
        match section {
            "pick" => {
                let (place, title) = match rng.below(10) {
                    0..4 => (0, "first"),
                    4..8 => (list.len() - 1, "last"),
                    _ => (self.at, ORDINALS[self.at]),
                };
                self.p = title.into();
                self.answer = vec![list[place].clone()];
                self.argument = place.to_string();
            }
            "beside" => {
                let gap = 1 + rng.below(list.len() - 1);
                let (member, next, word) = if rng.coin() {
                    (gap - 1, gap, *rng.pick(&["after", "after", "behind"]))
                } else {
                    (gap, gap - 1, *rng.pick(&["before", "before", "in front of"]))
                };
                self.p = word.into();
                self.b.clone_from(&list[member]);
                self.answer = vec![list[next].clone()];
                self.argument = format!("{member}>{next}");
            }
            _ => {
                self.answer = vec![list.len().to_string()];
                self.content.sort_unstable();
                self.wanted = Wanted::Count;
                return "lines/count";
            }
        }
        self.wanted = Wanted::One;
        "lines/pick"
    }

    /// Two orders in a row: a change of the members, then a new order of all.
    fn twice(&mut self, rng: &mut Rng) -> &'static str {
        let first = *rng.pick(&["remove", "append", "prepend", "replace"]);
        let second = *rng.pick(&["reverse", "sort"]);
        let (a, b) = (&self.a, &self.b);
        match first {
            "remove" => drop(self.answer.remove(self.at)),
            "append" => self.answer.push(a.clone()),
            "prepend" => self.answer.insert(0, a.clone()),
            _ => self.answer[self.at].clone_from(a),
        }
        self.argument = match first {
            "remove" => format!("{first} {b} {second}"),
            "replace" => format!("{first} {b} {a} {second}"),
            _ => format!("{first} {a} {second}"),
        };
        if second == "reverse" {
            self.answer.reverse();
        } else {
            order(self.items.sort, &mut self.answer);
        }
        self.double = Some((first, second));
        "lines/double"
    }
}
