//! The content of an `arith` problem: a chain of equations, each from the result of the last; a number of the chain may be
//! the result of a chain of its own ("50 - (6 x 7)").

use serde::{Deserialize, Serialize};

use super::super::Rng;

/// The largest number a story begins with.
const LARGEST_START: i64 = 99;
/// The largest change of one step.
const LARGEST_CHANGE: i64 = 60;
/// The largest total on the way: the tokenizer has every number up to it as one token.
const LARGEST_TOTAL: i64 = 199;
/// The largest product of the tables, and of a number of two digits.
const LARGEST_PRODUCTS: [i64; 2] = [120, 196];

/// The content of an `arith` problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Story {
    /// The first number.
    pub first: i64,
    /// What happens to it, in order.
    pub steps: Vec<Step>,
    /// Conclusions that name who and what, beside those every story may have.
    pub endings: Vec<String>,
    /// Numbers that have to be worked out first: 0 is the first number, `n` that of step `n`; their totals stand in the chain.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inner: Vec<(usize, Self)>,
}

/// One step of a story.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Step {
    /// What is done.
    pub op: Op,
    /// With which number.
    pub by: i64,
}

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// Adds.
    Plus,
    /// Takes away.
    Minus,
    /// Multiplies; the first step, but where a problem is told whole.
    Times,
    /// Divides, with nothing left over; only where a problem is told whole, bare or drilled.
    Over,
}

impl Op {
    /// The result, where it exists.
    pub(super) fn apply(self, left: i64, right: i64) -> Option<i64> {
        match self {
            Self::Plus => left.checked_add(right),
            Self::Minus => left.checked_sub(right),
            Self::Times => left.checked_mul(right),
            Self::Over => {
                left.checked_rem(right).filter(|rest| *rest == 0).and_then(|_| left.checked_div(right))
            }
        }
    }

    fn sign(self) -> char {
        ['+', '-', 'x', '/'][self as usize]
    }
}

impl Step {
    pub(super) fn new(op: Op, by: i64) -> Self {
        Self { op, by }
    }

    /// Whether something is added.
    pub(super) fn gains(self) -> bool {
        !matches!(self.op, Op::Minus | Op::Over)
    }
}

impl Story {
    pub(super) fn new(first: i64, steps: Vec<Step>) -> Self {
        Self { first, steps, endings: Vec::new(), inner: Vec::new() }
    }

    /// The chain that gives number `at`, where it has to be worked out.
    pub(super) fn inner_at(&self, at: usize) -> Option<&Self> {
        self.inner.iter().find(|(place, _)| *place == at).map(|(_, story)| story)
    }

    /// The numbers that are told, in the order of the chain.
    pub(super) fn numbers(&self) -> Vec<i64> {
        let chain = std::iter::once(self.first).chain(self.steps.iter().map(|step| step.by));
        let told = chain.enumerate().map(|(at, number)| match self.inner_at(at) {
            Some(story) => story.numbers(),
            None => vec![number],
        });
        told.collect::<Vec<_>>().concat()
    }

    /// How many equations work it out.
    pub(super) fn equations(&self) -> usize {
        self.steps.len() + self.inner.iter().map(|(_, story)| story.equations()).sum::<usize>()
    }

    /// The answer.
    pub fn total(&self) -> i64 {
        // Who draws the numbers sees to it that every step has a result.
        self.steps.iter().fold(self.first, |total, step| step.op.apply(total, step.by).unwrap_or(total))
    }

    /// The chain of the problem, the same in every wording: "12+7-5".
    pub(super) fn key(&self) -> String {
        let number = |at: usize, number: i64| match self.inner_at(at) {
            Some(story) => format!("({})", story.key()),
            None => number.to_string(),
        };
        let steps = self.steps.iter().enumerate();
        let steps = steps.map(|(at, step)| format!("{}{}", step.op.sign(), number(at + 1, step.by)));
        std::iter::once(number(0, self.first)).chain(steps).collect()
    }

    /// Whether every number is one a problem may have, and no total is negative or above `most`.
    pub(super) fn is_within(&self, most: i64) -> bool {
        let mut total = self.first;
        let steps = self.steps.iter().all(|step| {
            total = step.op.apply(total, step.by).unwrap_or(-1);
            (0..=most).contains(&total)
        });
        let inner = self.inner.iter().all(|(_, story)| story.total() > 0 && story.is_within(most));
        steps && inner && self.numbers().iter().all(|number| (1..=most).contains(number))
    }

    /// Whether the last step takes something away.
    pub(super) fn ends_in_loss(&self) -> bool {
        self.steps.last().is_some_and(|step| !step.gains())
    }

    /// Whether every step adds.
    pub(super) fn only_gains(&self) -> bool {
        self.steps.iter().all(|step| step.gains())
    }
}

/// A first number: small ones are commoner, as they are in what people type.
pub(super) fn start(rng: &mut Rng) -> i64 {
    let most = *rng.pick(&[20, 20, 30, 50, 50, LARGEST_START, LARGEST_START]);
    rng.between(2, most)
}

/// A change: most are small.
pub(super) fn change(rng: &mut Rng) -> i64 {
    let most = *rng.pick(&[9, 9, 12, 12, 20, 20, 30, LARGEST_CHANGE]);
    rng.between(1, most)
}

/// This many additions and subtractions that keep every total within 0 and [`LARGEST_TOTAL`].
pub(super) fn steps(rng: &mut Rng, first: i64, count: usize) -> Vec<Step> {
    let mut total = first;
    let mut steps = Vec::with_capacity(count);
    while steps.len() < count {
        let step = Step::new(if rng.coin() { Op::Plus } else { Op::Minus }, change(rng));
        let after = if step.gains() { total + step.by } else { total - step.by };
        if (0..=LARGEST_TOTAL).contains(&after) {
            total = after;
            steps.push(step);
        }
    }
    steps
}

/// A chain of this many steps.
pub(super) fn chain(rng: &mut Rng, count: usize) -> Story {
    let first = start(rng);
    Story::new(first, steps(rng, first, count))
}

/// Two factors: of the tables, or one of them of two digits.
pub(super) fn factors(rng: &mut Rng) -> (i64, i64) {
    let wide = usize::from(rng.below(5) < 2);
    loop {
        let (mut a, mut b) = (rng.between(2, [12, 60][wide]), rng.between(2, 12));
        if rng.below(4) == 0 {
            (a, b) = (b, a);
        }
        if a * b <= LARGEST_PRODUCTS[wide] {
            return (a, b);
        }
    }
}
