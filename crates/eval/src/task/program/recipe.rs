//! What a function must compute: a short chain of operations, its inputs and its meaning.

use serde::{Deserialize, Serialize};

use super::python::Value;
use crate::task::Rng;
use crate::task::names::NAMES;

/// A function of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Op {
    Add(i64),
    Sub(i64),
    Mul(i64),
    Mod(i64),
    AtMost(i64),
    AtLeast(i64),
    Square,
    Abs,
    Negate,
    Above(i64),
    Below(i64),
    Even,
    Odd,
    Divisible(i64),
}

/// A function of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Join {
    Sum,
    Product,
    Difference,
    Larger,
    Smaller,
}

/// A function of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Fold {
    Sum,
    Largest,
    Smallest,
    Count,
    Sort,
    Reverse,
}

/// A function of a string.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Edit {
    Append(String),
    Prepend(String),
    Repeat(usize),
    First(usize),
    Last(usize),
    Skip(usize),
    Upper,
    Lower,
    Reverse,
}

/// A whole function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Recipe {
    Number(Vec<Op>),
    Pair(Join, Op),
    List { keep: Option<Op>, map: Option<Op>, fold: Option<Fold> },
    Text(Vec<Edit>),
}

impl Recipe {
    /// Draws a function of the kind asked for. Every one has a constant or a name in it, so that no whole
    /// family of problems falls into one split.
    pub(super) fn draw(rng: &mut Rng, kind: &str) -> Self {
        match kind {
            "program/number" => draw_chain(rng),
            "program/pair" => Self::Pair(
                *rng.pick(&[Join::Sum, Join::Product, Join::Difference, Join::Larger, Join::Smaller]),
                if rng.below(3) == 0 { Op::predicate(rng) } else { Op::arithmetic(rng) },
            ),
            "program/list" => draw_list(rng),
            _ => draw_text(rng),
        }
    }

    /// The value for these arguments; nothing where it is undefined, as the largest of no numbers.
    pub(super) fn apply(&self, args: &[Value]) -> Option<Value> {
        match (self, args) {
            (Self::Number(ops), [Value::Int(x)]) => chain(ops, *x),
            (Self::Pair(join, op), [Value::Int(a), Value::Int(b)]) => Some(op.apply(join.apply(*a, *b))),
            (Self::List { keep, map, fold }, [Value::List(items)]) => {
                let items: Vec<i64> = items.iter().filter_map(|item| item.int().ok()).collect();
                let kept = items.into_iter().filter(|&item| keep.is_none_or(|op| op.holds(item)));
                let mapped: Vec<i64> = kept.map(|item| map.map_or(item, |op| op.number(item))).collect();
                match fold {
                    None => Some(list(&mapped)),
                    Some(fold) => fold.apply(mapped),
                }
            }
            (Self::Text(edits), [Value::Str(text)]) => {
                Some(Value::Str(edits.iter().fold(text.clone(), |text, edit| edit.apply(&text))))
            }
            _ => None,
        }
    }

    /// The inputs of the tests.
    pub(super) fn inputs(&self) -> Vec<Vec<Value>> {
        match self {
            Self::Number(_) => (-12..=45).map(|x| vec![Value::Int(x)]).collect(),
            Self::Pair(..) => {
                let values = [-9, -4, -1, 0, 1, 2, 3, 5, 8, 10, 13, 20];
                values
                    .iter()
                    .flat_map(|&a| values.iter().map(move |&b| vec![Value::Int(a), Value::Int(b)]))
                    .collect()
            }
            Self::List { .. } => {
                // Fixed draws: the tests of a problem must not change.
                let mut rng = Rng::new(0x1157);
                let all: Vec<i64> = (-12..=45).collect();
                let mut lists: Vec<Vec<i64>> = (1..=10).map(|length| rng.sample(&all, length)).collect();
                lists.push(vec![]);
                lists.push((0..30).map(|_| rng.between(0, 24)).collect());
                lists.push(all);
                lists.iter().map(|items| vec![list(items)]).collect()
            }
            Self::Text(_) => ["", "a", "Hello", "abcdefghijkl", "Tom and Amy", "mIxEd CaSe", "xyz"]
                .map(|text| vec![Value::Str(text.into())])
                .to_vec(),
        }
    }
}

fn draw_chain(rng: &mut Rng) -> Recipe {
    loop {
        let last = if rng.below(3) == 0 { Op::predicate(rng) } else { Op::arithmetic(rng) };
        if rng.below(4) == 0 && last.constant().is_some() {
            return Recipe::Number(vec![last]);
        }
        let first = Op::arithmetic(rng);
        let both_shift = matches!(first, Op::Add(_) | Op::Sub(_)) && matches!(last, Op::Add(_) | Op::Sub(_));
        let same = std::mem::discriminant(&first) == std::mem::discriminant(&last);
        if !both_shift && !same && (first.constant().is_some() || last.constant().is_some()) {
            return Recipe::Number(vec![first, last]);
        }
    }
}

fn draw_list(rng: &mut Rng) -> Recipe {
    const FOLDS: [Fold; 6] =
        [Fold::Sum, Fold::Largest, Fold::Smallest, Fold::Count, Fold::Sort, Fold::Reverse];
    loop {
        let keep = rng.coin().then(|| Op::predicate(rng));
        let map = rng.coin().then(|| {
            let size = rng.between(1, 20);
            *rng.pick(&[Op::Add(size), Op::Sub(size), Op::Mul(2 + size % 8), Op::Square])
        });
        let fold = (rng.below(3) > 0).then(|| *rng.pick(&FOLDS));
        let constant =
            keep.is_some_and(|op| op.constant().is_some()) || map.is_some_and(|op| op.constant().is_some());
        let counted = fold == Some(Fold::Count) && map.is_some();
        let parts = usize::from(keep.is_some()) + usize::from(map.is_some()) + usize::from(fold.is_some());
        if constant && !counted && parts < 3 {
            return Recipe::List { keep, map, fold };
        }
    }
}

fn draw_text(rng: &mut Rng) -> Recipe {
    loop {
        let count = 1 + rng.below(2);
        let edits: Vec<Edit> = (0..count).map(|_| Edit::draw(rng)).collect();
        let plain = edits.iter().all(|edit| matches!(edit, Edit::Upper | Edit::Lower | Edit::Reverse));
        let same =
            edits.windows(2).any(|pair| std::mem::discriminant(&pair[0]) == std::mem::discriminant(&pair[1]));
        if !plain && !same {
            return Recipe::Text(edits);
        }
    }
}

fn chain(ops: &[Op], x: i64) -> Option<Value> {
    let (last, before) = ops.split_last()?;
    Some(last.apply(before.iter().fold(x, |x, op| op.number(x))))
}

fn list(items: &[i64]) -> Value {
    Value::List(items.iter().copied().map(Value::Int).collect())
}

impl Op {
    fn arithmetic(rng: &mut Rng) -> Self {
        let (size, factor) = (rng.between(1, 20), rng.between(2, 9));
        let ops = [
            Self::Add(size),
            Self::Sub(size),
            Self::Mul(factor),
            Self::Mod(factor),
            Self::AtMost(size),
            Self::AtLeast(size),
            Self::Square,
            Self::Abs,
            Self::Negate,
        ];
        *rng.pick(&ops)
    }

    fn predicate(rng: &mut Rng) -> Self {
        let (size, factor) = (rng.between(1, 20), rng.between(3, 9));
        *rng.pick(&[Self::Above(size), Self::Below(size), Self::Even, Self::Odd, Self::Divisible(factor)])
    }

    fn constant(self) -> Option<i64> {
        match self {
            Self::Add(k)
            | Self::Sub(k)
            | Self::Mul(k)
            | Self::Mod(k)
            | Self::AtMost(k)
            | Self::AtLeast(k) => Some(k),
            Self::Above(k) | Self::Below(k) | Self::Divisible(k) => Some(k),
            Self::Square | Self::Abs | Self::Negate | Self::Even | Self::Odd => None,
        }
    }

    fn apply(self, x: i64) -> Value {
        match self {
            Self::Above(_) | Self::Below(_) | Self::Even | Self::Odd | Self::Divisible(_) => {
                Value::Bool(self.holds(x))
            }
            _ => Value::Int(self.number(x)),
        }
    }

    fn holds(self, x: i64) -> bool {
        match self {
            Self::Above(k) => x > k,
            Self::Below(k) => x < k,
            Self::Even => x.rem_euclid(2) == 0,
            Self::Odd => x.rem_euclid(2) == 1,
            Self::Divisible(k) => x.rem_euclid(k) == 0,
            _ => self.number(x) != 0,
        }
    }

    fn number(self, x: i64) -> i64 {
        match self {
            Self::Add(k) => x + k,
            Self::Sub(k) => x - k,
            Self::Mul(k) => x * k,
            Self::Mod(k) => x.rem_euclid(k),
            Self::AtMost(k) => x.min(k),
            Self::AtLeast(k) => x.max(k),
            Self::Square => x * x,
            Self::Abs => x.abs(),
            Self::Negate => -x,
            _ => i64::from(self.holds(x)),
        }
    }
}

impl Join {
    fn apply(self, a: i64, b: i64) -> i64 {
        match self {
            Self::Sum => a + b,
            Self::Product => a * b,
            Self::Difference => a - b,
            Self::Larger => a.max(b),
            Self::Smaller => a.min(b),
        }
    }
}

impl Fold {
    fn apply(self, mut items: Vec<i64>) -> Option<Value> {
        match self {
            Self::Sum => Some(Value::Int(items.iter().sum())),
            Self::Largest => items.iter().max().copied().map(Value::Int),
            Self::Smallest => items.iter().min().copied().map(Value::Int),
            Self::Count => Some(Value::Int(items.len() as i64)),
            Self::Sort => {
                items.sort_unstable();
                Some(list(&items))
            }
            Self::Reverse => {
                items.reverse();
                Some(list(&items))
            }
        }
    }
}

impl Edit {
    fn draw(rng: &mut Rng) -> Self {
        let word = rng.pick(&NAMES).to_string();
        let count = rng.between(2, 9) as usize;
        let edits = [
            Self::Append(word.clone()),
            Self::Prepend(word),
            Self::Repeat(count),
            Self::First(count),
            Self::Last(count),
            Self::Skip(count),
            Self::Upper,
            Self::Lower,
            Self::Reverse,
        ];
        rng.pick(&edits).clone()
    }

    fn apply(&self, text: &str) -> String {
        let letters = text.chars();
        match self {
            Self::Append(word) => format!("{text}{word}"),
            Self::Prepend(word) => format!("{word}{text}"),
            Self::Repeat(count) => text.repeat(*count),
            Self::First(count) => letters.take(*count).collect(),
            Self::Last(count) => letters.clone().skip(letters.count().saturating_sub(*count)).collect(),
            Self::Skip(count) => letters.skip(*count).collect(),
            Self::Upper => text.to_uppercase(),
            Self::Lower => text.to_lowercase(),
            Self::Reverse => letters.rev().collect(),
        }
    }
}
