//! Functions of a count: sums, lists and products of the numbers up to it.

use serde::{Deserialize, Serialize};

use super::list::list;
use super::python::Value;
use crate::task::Rng;

/// What is made of the numbers from 1 to n.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Series {
    Sum,
    Up,
    Down,
    Evens,
    Squares,
    Factorial,
    /// The first n multiples of a number.
    Times(i64),
    /// A list of n equal numbers.
    Copies(i64),
}

impl Series {
    pub(super) fn draw(rng: &mut Rng) -> Self {
        let size = rng.between(2, 20);
        let all = [
            Self::Sum,
            Self::Up,
            Self::Down,
            Self::Evens,
            Self::Squares,
            Self::Factorial,
            Self::Times(size),
            Self::Times(size),
            Self::Copies(size),
        ];
        *rng.pick(&all)
    }

    pub(super) fn constant(self) -> Option<i64> {
        match self {
            Self::Times(k) | Self::Copies(k) => Some(k),
            _ => None,
        }
    }

    /// Its section among the phrases.
    pub(super) fn section(self) -> &'static str {
        match self {
            Self::Sum => "range.sum",
            Self::Up => "range.up",
            Self::Down => "range.down",
            Self::Evens => "range.evens",
            Self::Squares => "range.squares",
            Self::Factorial => "range.factorial",
            Self::Times(_) => "range.times",
            Self::Copies(_) => "range.copies",
        }
    }

    pub(super) fn apply(self, n: i64) -> Value {
        let numbers: Vec<i64> = (1..=n).collect();
        match self {
            Self::Sum => Value::Int(numbers.iter().sum()),
            Self::Factorial => Value::Int(numbers.iter().product()),
            Self::Up => list(&numbers),
            Self::Down => list(&numbers.into_iter().rev().collect::<Vec<_>>()),
            Self::Evens => list(&numbers.into_iter().filter(|number| number % 2 == 0).collect::<Vec<_>>()),
            Self::Squares => list(&numbers.iter().map(|number| number * number).collect::<Vec<_>>()),
            Self::Times(k) => list(&numbers.iter().map(|number| number * k).collect::<Vec<_>>()),
            Self::Copies(k) => list(&vec![k; numbers.len()]),
        }
    }

    /// The value as an expression; `function` is the name of the function it stands in.
    pub(super) fn code(self, function: &str, n: &str, element: &str) -> String {
        match self {
            Self::Sum => format!("sum(range(1, {n} + 1))"),
            Self::Factorial => format!("1 if {n} < 2 else {n} * {function}({n} - 1)"),
            Self::Up => format!("list(range(1, {n} + 1))"),
            Self::Down => format!("list(range({n}, 0, -1))"),
            Self::Evens => format!("list(range(2, {n} + 1, 2))"),
            Self::Squares => format!("[{element} ** 2 for {element} in range(1, {n} + 1)]"),
            Self::Times(k) => format!("[{element} * {k} for {element} in range(1, {n} + 1)]"),
            Self::Copies(k) => format!("[{k}] * {n}"),
        }
    }
}
