//! Sums, differences and products: with a given result, or with any.

use serde::{Deserialize, Serialize};

use super::demand::Family;
use super::{in_order, read, told};
use crate::task::{Rng, Wording};

/// What is done to the numbers of an equation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Sign {
    /// `+`
    Plus,
    /// `-`
    Minus,
    /// `*`
    Times,
}

/// Equations with a given result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sums {
    sign: Sign,
    terms: usize,
    count: usize,
    result: i64,
}

/// Equations with any result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Results {
    sign: Sign,
    count: usize,
    /// The greatest number in them, where one is given.
    limit: Option<i64>,
}

/// The greatest number anywhere.
const MOST: i64 = 99;

impl Sign {
    fn draw(rng: &mut Rng) -> Self {
        *rng.pick(&[Self::Plus, Self::Plus, Self::Plus, Self::Minus, Self::Times])
    }

    fn symbol(self) -> &'static str {
        match self {
            Self::Plus => "+",
            Self::Minus => "-",
            Self::Times => "*",
        }
    }

    fn of(self, numbers: &[i64]) -> Option<i64> {
        numbers.iter().copied().reduce(|a, b| match self {
            Self::Plus => a + b,
            Self::Minus => a - b,
            Self::Times => a * b,
        })
    }

    /// What such an equation is called, and what one does in it.
    fn words(self, rng: &mut Rng, terms: usize) -> (&'static str, &'static str) {
        let (names, deeds): (&[&str], &[&str]) = match (self, terms) {
            (Self::Plus, 3) => {
                (&["sums of three numbers", "additions of three numbers"], &["adding three numbers"])
            }
            (Self::Plus, _) => {
                (&["sums", "sums", "additions"], &["adding", "adding two numbers", "addition"])
            }
            (Self::Minus, _) => (
                &["subtractions", "differences", "minus sums", "subtraction problems", "subtraction sums"],
                &["subtracting", "subtraction", "taking one number from another"],
            ),
            (Self::Times, _) => (
                &["multiplications", "products", "times sums", "multiplication problems"],
                &["multiplying", "multiplying two numbers", "multiplication"],
            ),
        };
        (*rng.pick(names), *rng.pick(deeds))
    }

    /// The numbers of an equation, its sign and the result it states. A multiplication may be written with `x`.
    fn read(self, part: &str) -> Option<(Vec<i64>, Option<i64>)> {
        let (left, stated) = match part.split_once('=') {
            Some((left, right)) => (left, Some(read::number(right)?)),
            None => (part, None),
        };
        let signs: &[char] = if self == Self::Times { &['*', 'x', '×'] } else { &['+', '-'] };
        let wanted = self.symbol().chars().next();
        if self != Self::Times && left.chars().any(|c| signs.contains(&c) && Some(c) != wanted) {
            return None;
        }
        let numbers: Option<Vec<i64>> = left.split(signs).map(read::number).collect();
        numbers.filter(|numbers| numbers.len() > 1).map(|numbers| (numbers, stated))
    }

    /// The numbers of an equation such that two equations that say the same have the same ones.
    fn canonical(self, numbers: &[i64]) -> Vec<i64> {
        let mut numbers = numbers.to_vec();
        if self != Self::Minus {
            numbers.sort_unstable();
        }
        numbers
    }
}

fn write(sign: Sign, numbers: &[i64], result: i64) -> String {
    let terms: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    format!("{} = {result}", terms.join(&format!(" {} ", sign.symbol())))
}

impl Sums {
    /// Every equation that will do, as its numbers; of two that differ in order alone, one.
    fn all(&self) -> Vec<Vec<i64>> {
        let t = self.result;
        match (self.sign, self.terms) {
            (Sign::Plus, 2) => (0..=t / 2).map(|a| vec![a, t - a]).collect(),
            (Sign::Plus, _) => {
                (1..=t / 3).flat_map(|a| (a..=(t - a) / 2).map(move |b| vec![a, b, t - a - b])).collect()
            }
            (Sign::Minus, _) => (0..=MOST - t).map(|b| vec![t + b, b]).collect(),
            (Sign::Times, _) => {
                (1..=t).filter(|a| t % a == 0 && a * a <= t).map(|a| vec![a, t / a]).collect()
            }
        }
    }
}

impl Family for Sums {
    fn draw(rng: &mut Rng, wording: Wording) -> (Self, String) {
        let sums = loop {
            let sign = Sign::draw(rng);
            let terms = if sign == Sign::Plus && rng.below(5) == 0 { 3 } else { 2 };
            let result = if sign == Sign::Minus { rng.between(1, 60) } else { rng.between(4, MOST) };
            let sums = Self { sign, terms, count: rng.between(2, 5) as usize, result };
            if sums.all().len() >= sums.count {
                break sums;
            }
        };
        let (name, deed) = sums.sign.words(rng, sums.terms);
        let slots = [("sums", name), ("adding", deed), ("t", &sums.result.to_string())];
        let prompt = told(rng, wording, "sums", sums.count, &slots);
        (sums, prompt)
    }

    fn key(&self) -> String {
        format!("{:?}:{}:{}:{}", self.sign, self.terms, self.count, self.result)
    }

    fn answer(&self, rng: &mut Rng, _wording: Wording) -> Vec<String> {
        let mut chosen = rng.sample(&self.all(), self.count);
        let ordered = in_order(rng);
        if ordered {
            chosen.sort_unstable();
        }
        let reversed = rng.below(3) == 0;
        for numbers in &mut chosen {
            match self.sign {
                Sign::Minus => {}
                _ if !ordered => rng.shuffle(numbers),
                _ if reversed => numbers.reverse(),
                _ => {}
            }
        }
        chosen.iter().map(|numbers| write(self.sign, numbers, self.result)).collect()
    }

    fn read(&self, _response: &str, parts: &[&str]) -> Option<String> {
        let found = read::every(parts, self.count, |part| self.sign.read(part))?;
        let right = found.iter().all(|(numbers, stated)| {
            numbers.len() == self.terms
                && self.sign.of(numbers) == Some(self.result)
                && stated.is_none_or(|stated| stated == self.result)
        });
        let content: Vec<Vec<i64>> = found.iter().map(|(numbers, _)| self.sign.canonical(numbers)).collect();
        (right && read::distinct(&content)).then(|| format!("{content:?}"))
    }
}

impl Results {
    /// The greatest number an answer may use.
    fn most(&self) -> i64 {
        self.limit.unwrap_or(if self.sign == Sign::Times { 12 } else { MOST })
    }
}

impl Family for Results {
    fn draw(rng: &mut Rng, wording: Wording) -> (Self, String) {
        let sign = Sign::draw(rng);
        let greatest = if sign == Sign::Times { 14 } else { MOST };
        let limit = rng.coin().then(|| rng.between(6, greatest));
        let results = Self { sign, count: rng.between(2, 5) as usize, limit };
        let (name, _) = sign.words(rng, 2);
        let bound = match limit {
            Some(limit) => {
                let words = *rng.pick(&[
                    " with numbers up to {}",
                    " with numbers no bigger than {}",
                    " using numbers up to {}",
                ]);
                words.replace("{}", &limit.to_string())
            }
            None => String::new(),
        };
        let prompt = loop {
            // Not every pattern has a place for the bound.
            let prompt = told(rng, wording, "results", results.count, &[("sums", name), ("limit", &bound)]);
            if limit.is_none() || prompt.contains(&bound) {
                break prompt;
            }
        };
        (results, prompt)
    }

    fn key(&self) -> String {
        format!("{:?}:{}:{:?}", self.sign, self.count, self.limit)
    }

    fn answer(&self, rng: &mut Rng, _wording: Wording) -> Vec<String> {
        let mut seen: Vec<Vec<i64>> = Vec::new();
        while seen.len() < self.count {
            let [a, b] = [rng.between(1, self.most()), rng.between(1, self.most())];
            let numbers = if self.sign == Sign::Minus { vec![a.max(b), a.min(b)] } else { vec![a, b] };
            let same = |other: &Vec<i64>| self.sign.canonical(other) == self.sign.canonical(&numbers);
            if !seen.iter().any(same) {
                seen.push(numbers);
            }
        }
        if in_order(rng) {
            seen.sort_unstable();
        }
        seen.iter().map(|numbers| write(self.sign, numbers, self.sign.of(numbers).unwrap_or(0))).collect()
    }

    fn read(&self, _response: &str, parts: &[&str]) -> Option<String> {
        let found = read::every(parts, self.count, |part| self.sign.read(part))?;
        let right = found.iter().all(|(numbers, stated)| {
            let bounded = self.limit.is_none_or(|limit| numbers.iter().all(|number| *number <= limit));
            bounded && stated.is_some() && self.sign.of(numbers) == *stated
        });
        let content: Vec<Vec<i64>> = found.iter().map(|(numbers, _)| self.sign.canonical(numbers)).collect();
        (right && read::distinct(&content)).then(|| format!("{content:?}"))
    }
}
