//! Numbers that must suit one another: pairs with a sum, numbers and their doubles, ordered numbers, comparisons, shares.

use serde::{Deserialize, Serialize};

use super::demand::Family;
use super::{in_order, read, told};
use crate::task::lexicon::{self, NounKind, capital};
use crate::task::phrase::{expand, fill};
use crate::task::{Rng, Wording};

/// Pairs of numbers with a given sum or difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pairs {
    count: usize,
    result: i64,
    /// The two differ by the result instead of adding up to it.
    apart: bool,
}

impl Family for Pairs {
    fn draw(rng: &mut Rng, wording: Wording) -> (Self, String) {
        let count = rng.between(2, 5);
        let apart = rng.below(4) == 0;
        let result = if apart { rng.between(1, 50) } else { rng.between(2 * count, 99) };
        let pairs = Self { count: count as usize, result, apart };
        let section = if apart { "pairs.apart" } else { "pairs" };
        let prompt = told(rng, wording, section, pairs.count, &[("t", &result.to_string())]);
        (pairs, prompt)
    }

    fn key(&self) -> String {
        format!("{}:{}:{}", self.count, self.result, self.apart)
    }

    fn answer(&self, rng: &mut Rng, _wording: Wording) -> Vec<String> {
        let last = if self.apart { 99 - self.result } else { self.result / 2 };
        let firsts: Vec<i64> = (0..=last).collect();
        let glue = if self.apart || rng.below(8) > 0 { " and " } else { " + " };
        let mut chosen = rng.sample(&firsts, self.count);
        let (ordered, swapped) = (in_order(rng), rng.below(3) == 0);
        if ordered {
            chosen.sort_unstable();
        }
        let mut part = |a: i64| {
            let b = if self.apart { self.result + a } else { self.result - a };
            let turned = if ordered { swapped } else { rng.coin() };
            let [a, b] = if turned { [b, a] } else { [a, b] };
            format!("{a}{glue}{b}")
        };
        chosen.into_iter().map(&mut part).collect()
    }

    fn read(&self, _response: &str, parts: &[&str]) -> Option<String> {
        let found = read::every(parts, self.count, |part| {
            let (a, sign, b) = read::couple(part, &["and", "+", "&"])?;
            Some((sign, [read::number(a)?, read::number(b)?]))
        })?;
        let signs: Vec<&str> = found.iter().map(|(sign, _)| *sign).collect();
        let content: Vec<[i64; 2]> = found.iter().map(|(_, [a, b])| [*a.min(b), *a.max(b)]).collect();
        let right = content.iter().all(|[a, b]| if self.apart { b - a } else { a + b } == self.result);
        (right && read::uniform(&signs) && read::distinct(&content)).then(|| format!("{content:?}"))
    }
}

/// What follows from a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Image {
    /// So many times it.
    Times(i64),
    /// So much more.
    Plus(i64),
    /// So much less.
    Minus(i64),
    /// Its square.
    Square,
}

/// Numbers, each with what follows from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    count: usize,
    image: Image,
}

impl Image {
    fn of(self, x: i64) -> i64 {
        match self {
            Self::Times(k) => x * k,
            Self::Plus(k) => x + k,
            Self::Minus(k) => x - k,
            Self::Square => x * x,
        }
    }

    /// The numbers an answer may begin with.
    fn domain(self) -> std::ops::RangeInclusive<i64> {
        match self {
            Self::Times(k) => 1..=(199 / k).min(99),
            Self::Plus(_) => 1..=99,
            Self::Minus(k) => k..=99,
            Self::Square => 1..=14,
        }
    }

    /// "their doubles", "its double".
    fn words(self, rng: &mut Rng) -> [String; 2] {
        let forms = match self {
            Self::Times(2) => [
                "[their doubles|their doubles|twice their value|double the number]",
                "[its double|twice that number]",
            ],
            Self::Times(3) => [
                "[their triples|three times their value|triple the number]",
                "[its triple|three times that number]",
            ],
            Self::Times(_) => [
                "[{k} times their value|the number times {k}]",
                "[{k} times that number|the number times {k}]",
            ],
            Self::Plus(1) => [
                "[the next number|the number after it|the number plus 1]",
                "[the next number|the number after it]",
            ],
            Self::Plus(_) => [
                "[the number plus {k}|the number that is {k} more|what you get when you add {k}]",
                "[the number plus {k}|the number that is {k} more]",
            ],
            Self::Minus(_) => [
                "[the number minus {k}|the number that is {k} less|what you get when you subtract {k}]",
                "[the number minus {k}|the number that is {k} less]",
            ],
            Self::Square => {
                ["[their squares|their squares|the square of each]", "[its square|the square of it]"]
            }
        };
        let constant = match self {
            Self::Times(k) | Self::Plus(k) | Self::Minus(k) => k.to_string(),
            Self::Square => String::new(),
        };
        forms.map(|form| fill(&expand(rng, form), &[("k", &constant)]))
    }
}

impl Family for Rule {
    fn draw(rng: &mut Rng, wording: Wording) -> (Self, String) {
        let image = match rng.below(6) {
            0 | 1 => Image::Times(2),
            2 => Image::Times(rng.between(3, 12)),
            3 => Image::Plus(rng.between(1, 30)),
            4 => Image::Minus(rng.between(1, 30)),
            _ => Image::Square,
        };
        let rule = Self { count: rng.between(2, 6) as usize, image };
        let [their, its] = image.words(rng);
        let prompt = told(rng, wording, "rule", rule.count, &[("their", &their), ("its", &its)]);
        (rule, prompt)
    }

    fn key(&self) -> String {
        format!("{:?}:{}", self.image, self.count)
    }

    fn answer(&self, rng: &mut Rng, _wording: Wording) -> Vec<String> {
        let glue = if rng.below(8) > 0 { ": " } else { " -> " };
        let domain: Vec<i64> = self.image.domain().collect();
        let mut chosen = rng.sample(&domain, self.count);
        if in_order(rng) {
            chosen.sort_unstable();
        }
        chosen.iter().map(|x| format!("{x}{glue}{}", self.image.of(*x))).collect()
    }

    fn read(&self, _response: &str, parts: &[&str]) -> Option<String> {
        let found = read::every(parts, self.count, |part| {
            let (x, sign, y) = read::couple(part, &[":", "->", "and", "="])?;
            Some((sign, read::number(x)?, read::number(y)?))
        })?;
        let right = found.iter().all(|(_, x, y)| self.image.of(*x) == *y);
        let content: Vec<i64> = found.iter().map(|(_, x, _)| *x).collect();
        let signs: Vec<&str> = found.iter().map(|(sign, ..)| *sign).collect();
        (right && read::uniform(&signs) && read::distinct(&content)).then(|| format!("{content:?}"))
    }
}

/// Which order numbers are to stand in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Direction {
    /// The least first.
    Up,
    /// The greatest first.
    Down,
    /// As one likes.
    Any,
}

/// Different numbers of a range.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    count: usize,
    low: i64,
    high: i64,
    direction: Direction,
    /// The remainder they must leave when divided by two, where that is asked for.
    parity: Option<i64>,
}

impl Order {
    fn pool(&self) -> Vec<i64> {
        (self.low..=self.high)
            .filter(|number| self.parity.is_none_or(|parity| number % 2 == parity))
            .collect()
    }

    fn sorted(&self, numbers: &[i64]) -> bool {
        match self.direction {
            Direction::Up => numbers.is_sorted(),
            Direction::Down => numbers.is_sorted_by(|a, b| a >= b),
            Direction::Any => true,
        }
    }
}

impl Family for Order {
    fn draw(rng: &mut Rng, wording: Wording) -> (Self, String) {
        let order = loop {
            let (low, high) = (rng.between(0, 90), rng.between(9, 99));
            let order = Self {
                count: rng.between(2, 7) as usize,
                low,
                high,
                direction: *rng.pick(&[Direction::Up, Direction::Up, Direction::Down, Direction::Any]),
                parity: *rng.pick(&[None, None, Some(0), Some(1)]),
            };
            if order.pool().len() > 2 * order.count {
                break order;
            }
        };
        let which = order.parity.map_or("", |parity| if parity == 0 { "even " } else { "odd " });
        let range = expand(rng, "[between {low} and {high}|from {low} to {high}|between {low} and {high}]");
        let range = fill(&range, &[("low", &order.low.to_string()), ("high", &order.high.to_string())]);
        let (put, then) = match order.direction {
            Direction::Up => (
                " [in ascending order|in increasing order|in order|sorted|from smallest to largest|from small to large]",
                " and [sort them|put them in order|write them in ascending order|order them from smallest to largest]",
            ),
            Direction::Down => (
                " [in descending order|in decreasing order|from largest to smallest|from high to low]",
                " and [write them in descending order|order them from largest to smallest|sort them from high to low]",
            ),
            Direction::Any => ("[| in any order|]", "[| in any order]"),
        };
        let (put, then) = (expand(rng, put), expand(rng, then));
        let slots = [("which", which), ("range", &range), ("order", &put), ("then", &then)];
        let prompt = told(rng, wording, "order", order.count, &slots);
        (order, prompt)
    }

    fn key(&self) -> String {
        format!("{}:{}:{}:{:?}:{:?}", self.count, self.low, self.high, self.direction, self.parity)
    }

    fn answer(&self, rng: &mut Rng, _wording: Wording) -> Vec<String> {
        let mut chosen = rng.sample(&self.pool(), self.count);
        match self.direction {
            Direction::Up => chosen.sort_unstable(),
            Direction::Down => chosen.sort_unstable_by(|a, b| b.cmp(a)),
            Direction::Any if in_order(rng) => chosen.sort_unstable(),
            Direction::Any => {}
        }
        chosen.iter().map(ToString::to_string).collect()
    }

    fn read(&self, _response: &str, parts: &[&str]) -> Option<String> {
        let numbers = read::every(parts, self.count, read::number)?;
        let pool = self.pool();
        let right = numbers.iter().all(|number| pool.contains(number)) && self.sorted(&numbers);
        (right && read::distinct(&numbers)).then(|| format!("{numbers:?}"))
    }
}

/// True comparisons of two numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compare {
    count: usize,
    limit: Option<i64>,
}

impl Family for Compare {
    fn draw(rng: &mut Rng, wording: Wording) -> (Self, String) {
        let compare =
            Self { count: rng.between(2, 6) as usize, limit: (rng.below(4) > 0).then(|| rng.between(5, 99)) };
        let bound = match compare.limit {
            Some(limit) => {
                let words = *rng.pick(&[
                    " with numbers up to {}",
                    " of numbers up to {}",
                    " with numbers no bigger than {}",
                ]);
                words.replace("{}", &limit.to_string())
            }
            None => String::new(),
        };
        let prompt = told(rng, wording, "compare", compare.count, &[("limit", &bound)]);
        (compare, prompt)
    }

    fn key(&self) -> String {
        format!("{}:{:?}", self.count, self.limit)
    }

    fn answer(&self, rng: &mut Rng, _wording: Wording) -> Vec<String> {
        let most = self.limit.unwrap_or(99);
        let mut couples: Vec<(i64, i64)> = Vec::new();
        while couples.len() < self.count {
            let (a, b) = (rng.between(0, most), rng.between(0, most));
            if a != b && !couples.contains(&(a, b)) {
                couples.push((a, b));
            }
        }
        if in_order(rng) {
            couples.sort_unstable();
        }
        couples.iter().map(|(a, b)| format!("{a} {} {b}", if a < b { "<" } else { ">" })).collect()
    }

    fn read(&self, _response: &str, parts: &[&str]) -> Option<String> {
        let found = read::every(parts, self.count, |part| {
            let (a, sign, b) = read::couple(part, &["<", ">"])?;
            Some((read::number(a)?, sign, read::number(b)?))
        })?;
        let most = self.limit.unwrap_or(i64::MAX);
        let right =
            found.iter().all(|(a, sign, b)| if *sign == "<" { a < b } else { a > b } && *a.max(b) <= most);
        (right && read::distinct(&found)).then(|| format!("{found:?}"))
    }
}

/// A number of things shared among people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    total: i64,
    names: Vec<String>,
}

impl Family for Share {
    fn draw(rng: &mut Rng, wording: Wording) -> (Self, String) {
        // What is left for the last one is worked out in one pass, so the others are few.
        let count = rng.between(2, 3);
        let names: Vec<String> =
            lexicon::names(rng, wording, count as usize).into_iter().map(|name| name.text).collect();
        let things = lexicon::noun(rng, wording, &[NounKind::Food, NounKind::Thing]).many;
        let share = Self { total: rng.between(2 * count, if count == 2 { 60 } else { 30 }), names };
        let (last, before) = share.names.split_last().unwrap_or((&share.names[0], &[]));
        let people = format!("{} and {last}", before.join(", "));
        let slots = [("t", share.total.to_string()), ("things", things), ("names", people)];
        let slots: Vec<(&str, &str)> = slots.iter().map(|(slot, value)| (*slot, value.as_str())).collect();
        let prompt = told(rng, wording, "share", share.names.len(), &slots);
        (share, capital(&prompt))
    }

    fn key(&self) -> String {
        format!("{}:{}", self.total, self.names.join(","))
    }

    fn answer(&self, rng: &mut Rng, _wording: Wording) -> Vec<String> {
        // Cuts at different places: every way to share with nobody left empty-handed is equally likely.
        let places: Vec<i64> = (1..self.total).collect();
        let mut cuts = rng.sample(&places, self.names.len() - 1);
        cuts.extend([0, self.total]);
        cuts.sort_unstable();
        let glue = if rng.below(8) > 0 { ": " } else { " gets " };
        let parts = self.names.iter().zip(cuts.windows(2));
        parts.map(|(name, cut)| format!("{name}{glue}{}", cut[1] - cut[0])).collect()
    }

    fn read(&self, _response: &str, parts: &[&str]) -> Option<String> {
        let found = read::every(parts, self.names.len(), |part| {
            let (name, sign, number) = read::couple(part, &[":", " gets ", " "])?;
            Some((name, sign, read::number(number)?))
        })?;
        let signs: Vec<&str> = found.iter().map(|(_, sign, _)| *sign).collect();
        let everyone = self.names.iter().all(|name| found.iter().any(|(who, ..)| who == name));
        let total: i64 = found.iter().map(|(.., number)| number).sum();
        (everyone && read::uniform(&signs) && total == self.total).then(|| parts.join(", "))
    }
}
