//! Functions of a list of numbers: keep some, change each, fold them into one value.

use serde::{Deserialize, Serialize};

use super::code::{Code, Level};
use super::number::{Op, Test};
use super::python::Value;
use crate::task::Rng;

/// What becomes of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pipeline {
    pub(super) keep: Option<Test>,
    pub(super) map: Option<Op>,
    /// The numbers are changed first and those that pass are kept then.
    pub(super) late: bool,
    pub(super) fold: Option<Fold>,
    /// What is done to the list a fold has left.
    pub(super) then: Option<Fold>,
}

/// A function of a whole list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Fold {
    Sum,
    Largest,
    Smallest,
    Count,
    Sort,
    SortDown,
    Reverse,
    First,
    Last,
    Average,
    Take(i64),
    Skip(i64),
    Trim(i64),
    /// The largest less the smallest.
    Spread,
    /// The largest but one.
    Second,
}

impl Pipeline {
    /// Draws one to three steps.
    pub(super) fn draw(rng: &mut Rng) -> Self {
        loop {
            let keep = rng.coin().then(|| Test::draw(rng));
            let map = (rng.below(5) < 2).then(|| {
                let size = rng.between(1, 20);
                let factor = if rng.coin() { rng.between(2, 3) } else { rng.between(2, 10) };
                rng.pick(&[Op::Add(size), Op::Sub(size), Op::Mul(factor), Op::Mul(factor), Op::Square])
                    .clone()
            });
            let fold = (rng.below(4) > 0).then(|| Fold::draw(rng));
            let counted = fold == Some(Fold::Count) && map.is_some();
            // All equal numbers have one largest and one smallest; a list of them is hardly ever wanted.
            let equal = matches!(keep, Some(Test::Equal(_))) && (map.is_some() || fold != Some(Fold::Count));
            let late = keep.is_some() && map.is_some() && rng.below(3) == 0;
            let then = fold.filter(|fold| fold.gives_list() && keep.is_none() && map.is_none() && rng.coin());
            let then = then.and_then(|first| Fold::second(rng, first));
            if !counted && !equal && (keep.is_some() || map.is_some() || fold.is_some()) {
                return Self { keep, map, late, fold, then };
            }
        }
    }

    pub(super) fn steps(&self) -> usize {
        usize::from(self.keep.is_some())
            + usize::from(self.map.is_some())
            + usize::from(self.fold.is_some())
            + usize::from(self.then.is_some())
    }

    pub(super) fn apply(&self, items: &[i64]) -> Option<Value> {
        let change = |item: i64| self.map.as_ref().map_or(item, |op| op.number(item));
        let passes = |item: i64| self.keep.is_none_or(|test| test.holds(item));
        let kept: Vec<i64> = items
            .iter()
            .copied()
            .filter(|&item| passes(if self.late { change(item) } else { item }))
            .collect();
        let mapped: Vec<i64> = kept.into_iter().map(change).collect();
        let Some(fold) = self.fold else { return Some(list(&mapped)) };
        match (fold.apply(mapped)?, self.then) {
            (Value::List(items), Some(then)) => {
                then.apply(items.iter().filter_map(|item| item.int().ok()).collect())
            }
            (value, _) => Some(value),
        }
    }

    /// The comprehension that keeps and changes; the list itself where there is nothing to do.
    pub(super) fn comprehension(&self, element: &str, source: &str) -> Code {
        if self.keep.is_none() && self.map.is_none() {
            return Code::atom(source);
        }
        let item = Code::atom(element);
        let mapped = self.map.as_ref().map_or(item.clone(), |op| op.code(&item));
        let tested = if self.late { &mapped } else { &item };
        let condition = self.keep.map_or(String::new(), |test| format!(" if {}", test.code(tested).text));
        Code::atom(format!("[{} for {element} in {source}{condition}]", mapped.text))
    }
}

impl Fold {
    fn draw(rng: &mut Rng) -> Self {
        let count = rng.between(2, 6);
        let folds = [
            Self::Sum,
            Self::Sum,
            Self::Sum,
            Self::Largest,
            Self::Largest,
            Self::Smallest,
            Self::Smallest,
            Self::Count,
            Self::Count,
            Self::Sort,
            Self::SortDown,
            Self::Reverse,
            Self::Reverse,
            Self::First,
            Self::Last,
            Self::Average,
            Self::Take(count),
            Self::Skip(if rng.coin() { 1 } else { count }),
            Self::Trim(if rng.coin() { 1 } else { count }),
            Self::Spread,
            Self::Second,
        ];
        *rng.pick(&folds)
    }

    /// A fold to follow one that has left a list.
    fn second(rng: &mut Rng, first: Self) -> Option<Self> {
        let count = rng.between(1, 5);
        let one = if rng.coin() { 1 } else { count };
        let all = [
            Self::Take(count.max(2)),
            Self::Skip(one),
            Self::Trim(one),
            Self::First,
            Self::Last,
            Self::Reverse,
            Self::Sort,
        ];
        let then = *rng.pick(&all);
        let sorted = |fold: Self| matches!(fold, Self::Sort | Self::SortDown | Self::Reverse);
        let same = std::mem::discriminant(&then) == std::mem::discriminant(&first);
        let twice = sorted(first) && sorted(then);
        (!same && !twice).then_some(then)
    }

    pub(super) fn constant(self) -> Option<i64> {
        match self {
            Self::Take(count) | Self::Skip(count) | Self::Trim(count) if count > 1 => Some(count),
            _ => None,
        }
    }

    /// The last word of its section.
    pub(super) fn short(self) -> &'static str {
        self.section().trim_start_matches("fold.")
    }

    /// Whether it gives a list again.
    pub(super) fn gives_list(self) -> bool {
        matches!(
            self,
            Self::Sort | Self::SortDown | Self::Reverse | Self::Take(_) | Self::Skip(_) | Self::Trim(_)
        )
    }

    /// Its section among the phrases.
    pub(super) fn section(self) -> &'static str {
        match self {
            Self::Sum => "fold.sum",
            Self::Largest => "fold.largest",
            Self::Smallest => "fold.smallest",
            Self::Count => "fold.count",
            Self::Sort => "fold.sort",
            Self::SortDown => "fold.sort_down",
            Self::Reverse => "fold.reverse",
            Self::First => "fold.first",
            Self::Last => "fold.last",
            Self::Average => "fold.average",
            Self::Take(_) => "fold.take",
            Self::Skip(1) => "fold.skip_one",
            Self::Skip(_) => "fold.skip",
            Self::Trim(1) => "fold.trim_one",
            Self::Trim(_) => "fold.trim",
            Self::Spread => "fold.spread",
            Self::Second => "fold.second",
        }
    }

    fn apply(self, mut items: Vec<i64>) -> Option<Value> {
        match self {
            Self::Sum => Some(Value::Int(items.iter().sum())),
            Self::Largest => items.iter().max().copied().map(Value::Int),
            Self::Smallest => items.iter().min().copied().map(Value::Int),
            Self::Count => Some(Value::Int(items.len() as i64)),
            Self::First => items.first().copied().map(Value::Int),
            Self::Last => items.last().copied().map(Value::Int),
            Self::Average => {
                let count = i64::try_from(items.len()).ok().filter(|count| *count > 0)?;
                Some(Value::Int(items.iter().sum::<i64>().div_euclid(count)))
            }
            Self::Take(count) => Some(list(&items[..items.len().min(count as usize)])),
            Self::Skip(count) => Some(list(&items[items.len().min(count as usize)..])),
            Self::Trim(count) => Some(list(&items[..items.len().saturating_sub(count as usize)])),
            Self::Spread => Some(Value::Int(items.iter().max()? - items.iter().min()?)),
            Self::Second => {
                items.sort_unstable();
                items.iter().rev().nth(1).copied().map(Value::Int)
            }
            Self::Sort => {
                items.sort_unstable();
                Some(list(&items))
            }
            Self::SortDown => {
                items.sort_unstable_by(|a, b| b.cmp(a));
                Some(list(&items))
            }
            Self::Reverse => {
                items.reverse();
                Some(list(&items))
            }
        }
    }

    pub(super) fn code(self, list: &Code) -> Code {
        let (inside, atom) = (&list.text, list.within(Level::Atom));
        match self {
            Self::Sum => Code::atom(format!("sum({inside})")),
            Self::Largest => Code::atom(format!("max({inside})")),
            Self::Smallest => Code::atom(format!("min({inside})")),
            Self::Count => Code::atom(format!("len({inside})")),
            Self::Sort => Code::atom(format!("sorted({inside})")),
            Self::SortDown => Code::atom(format!("sorted({inside})[::-1]")),
            Self::Reverse => Code::atom(format!("{atom}[::-1]")),
            Self::First => Code::atom(format!("{atom}[0]")),
            Self::Last => Code::atom(format!("{atom}[-1]")),
            Self::Average => Code::new(Level::Product, format!("sum({inside}) // len({inside})")),
            Self::Take(count) => Code::atom(format!("{atom}[:{count}]")),
            Self::Skip(count) => Code::atom(format!("{atom}[{count}:]")),
            Self::Trim(count) => Code::atom(format!("{atom}[:-{count}]")),
            Self::Spread => Code::new(Level::Sum, format!("max({inside}) - min({inside})")),
            Self::Second => Code::atom(format!("sorted({inside})[-2]")),
        }
    }
}

/// A list of numbers as a value.
pub(super) fn list(items: &[i64]) -> Value {
    Value::List(items.iter().copied().map(Value::Int).collect())
}
