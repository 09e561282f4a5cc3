//! What a function must compute: its steps, its meaning and the inputs that tell it from every other function.

use serde::{Deserialize, Serialize};

use super::list::{Pipeline, list};
use super::number::{Join, Op, Test, UNITS};
use super::python::Value;
use super::series::Series;
use super::text::Edit;
use super::two::Two;
use super::words::{self, WordStep};
use crate::task::Rng;
use crate::task::lexicon::Wording;

/// A whole function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Recipe {
    Number(Vec<Op>),
    /// Two or three numbers, joined, and what is done to the result.
    Pair(Join, usize, Option<Op>),
    List(Pipeline),
    Text(Vec<Edit>),
    Series(Series),
    /// Whether all numbers of a list pass a test, or any.
    Asks(Ask, Test),
    /// A list of strings.
    Words(WordStep),
    /// Two arguments that need not be alike.
    Two(Two),
}

/// How many of a list must pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Ask {
    Any,
    All,
}

impl Recipe {
    /// Draws a function of the kind asked for.
    pub(super) fn draw(rng: &mut Rng, wording: Wording, kind: &str) -> Self {
        match kind {
            "program/number" => draw_chain(rng),
            "program/pair" => draw_join(rng),
            "program/list" if rng.below(8) == 0 => {
                Self::Asks(*rng.pick(&[Ask::Any, Ask::All]), Test::draw(rng))
            }
            "program/list" => Self::List(Pipeline::draw(rng)),
            "program/words" => Self::Words(WordStep::draw(rng)),
            "program/two" => Self::Two(Two::draw(rng)),
            "program/series" => Self::Series(Series::draw(rng)),
            _ => draw_text(rng, wording),
        }
    }

    /// Whether a number or a word in it could be another: such functions are many, the others are few and famous.
    pub(super) fn is_free(&self) -> bool {
        match self {
            Self::Number(ops) => ops.len() > 1 || ops.iter().any(Op::is_free),
            Self::Pair(_, _, op) => op.as_ref().is_some_and(Op::is_free),
            Self::List(pipeline) => {
                pipeline.steps() > 2
                    || pipeline.keep.is_some_and(|test| test.constant().is_some())
                    || pipeline.map.as_ref().is_some_and(Op::is_free)
                    || pipeline.fold.is_some_and(|fold| fold.constant().is_some())
                    || pipeline.then.is_some_and(|fold| fold.constant().is_some())
            }
            Self::Text(edits) => edits.iter().any(Edit::is_free),
            Self::Series(series) => series.constant().is_some(),
            Self::Words(step) => step.constant().is_some() || step.piece().is_some(),
            Self::Asks(_, test) => test.constant().is_some(),
            Self::Two(_) => false,
        }
    }

    /// Whether its argument must have a letter to be spoken of: "the first n multiples".
    pub(super) fn needs_letters(&self) -> bool {
        matches!(self, Self::Series(Series::Times(_) | Series::Copies(_)))
    }

    /// How many arguments it takes.
    pub(super) fn arity(&self) -> usize {
        match self {
            Self::Pair(_, count, _) => *count,
            Self::Two(_) => 2,
            _ => 1,
        }
    }

    /// The value for these arguments; nothing where it is undefined, such as the largest of no numbers.
    pub(super) fn apply(&self, args: &[Value]) -> Option<Value> {
        match (self, args) {
            (Self::Number(ops), [Value::Int(x)]) => {
                let (last, before) = ops.split_last()?;
                Some(last.apply(before.iter().fold(*x, |x, op| op.number(x))))
            }
            (Self::Pair(join, _, op), args) => {
                let numbers: Vec<i64> = args.iter().filter_map(|arg| arg.int().ok()).collect();
                let joined = join.apply(&numbers)?;
                Some(op.as_ref().map_or(Value::Int(joined), |op| op.apply(joined)))
            }
            (Self::List(pipeline), [Value::List(items)]) => {
                pipeline.apply(&items.iter().filter_map(|item| item.int().ok()).collect::<Vec<_>>())
            }
            (Self::Text(edits), [Value::Str(text)]) => {
                let (last, before) = edits.split_last()?;
                let mut text = text.clone();
                for edit in before {
                    let Value::Str(next) = edit.apply(&text)? else { return None };
                    text = next;
                }
                last.apply(&text)
            }
            (Self::Series(series), [Value::Int(n)]) => Some(series.apply(*n)),
            (Self::Asks(ask, test), [Value::List(items)]) => {
                let mut passes = items.iter().filter_map(|item| item.int().ok()).map(|item| test.holds(item));
                Some(Value::Bool(if *ask == Ask::Any { passes.any(|p| p) } else { passes.all(|p| p) }))
            }
            (Self::Words(step), [Value::List(items)]) => {
                let words: Vec<&str> = items
                    .iter()
                    .filter_map(|item| if let Value::Str(text) = item { Some(text.as_str()) } else { None })
                    .collect();
                step.apply(&words)
            }
            (Self::Two(two), [a, b]) => two.apply(a, b),
            _ => None,
        }
    }

    /// The inputs of the tests.
    pub(super) fn inputs(&self) -> Vec<Vec<Value>> {
        match self {
            Self::Number(_) => (-15..=102).map(|x| vec![Value::Int(x)]).collect(),
            Self::Series(_) => (0..=12).map(|x| vec![Value::Int(x)]).collect(),
            Self::Words(_) => words::inputs(),
            Self::Two(two) => two.inputs(),
            Self::Pair(_, 2, _) => {
                let values = [-9, -4, -1, 0, 1, 2, 3, 5, 8, 10, 13, 20, 47];
                let pairs = values.iter().flat_map(|&a| values.iter().map(move |&b| [a, b]));
                pairs.map(|pair| pair.map(Value::Int).to_vec()).collect()
            }
            Self::Pair(..) => {
                let mut rng = Rng::new(0x3a11);
                (0..80).map(|_| (0..3).map(|_| Value::Int(rng.between(-9, 30))).collect()).collect()
            }
            Self::List(_) | Self::Asks(..) => {
                // Fixed draws: the tests of a problem must not change.
                let mut rng = Rng::new(0x1157);
                let all: Vec<i64> = (-12..=102).collect();
                let mut lists: Vec<Vec<i64>> = (1..=10).map(|length| rng.sample(&all, length)).collect();
                lists.push(vec![]);
                lists.push((0..30).map(|_| rng.between(0, 24)).collect());
                lists.push(all);
                // Lists of like numbers, for what asks whether all of them are so.
                lists.extend((-6..=102).map(|number| vec![number, number]));
                lists.extend([vec![2, 4, 6], vec![1, 3, 5], vec![-1, -2], vec![30, 60]]);
                lists.iter().map(|items| vec![list(items)]).collect()
            }
            Self::Text(edits) => {
                let mut texts: Vec<String> = [
                    "",
                    "a",
                    "Hello",
                    "abcdefghijkl",
                    "Tom and Amy",
                    "mIxEd CaSe",
                    "xyz",
                    "level",
                    " two  words ",
                    "banana bread is not on the list",
                    "noon",
                ]
                .map(String::from)
                .to_vec();
                for (piece, _) in edits.iter().filter_map(Edit::piece) {
                    texts.extend([
                        format!("{piece}way"),
                        format!("far{piece}"),
                        format!("un{piece}ed{piece}s"),
                    ]);
                }
                texts.into_iter().map(|text| vec![Value::Str(text)]).collect()
            }
        }
    }
}

fn draw_join(rng: &mut Rng) -> Recipe {
    let join = *rng.pick(&Join::ALL);
    let op = match rng.below(5) {
        0 | 1 => None,
        2 => Some(Op::verdict(rng)),
        _ => Some(Op::arithmetic(rng)),
    };
    let count = if join != Join::Difference && rng.below(5) == 0 { 3 } else { 2 };
    Recipe::Pair(join, count, op)
}

fn draw_chain(rng: &mut Rng) -> Recipe {
    if rng.below(16) == 0 {
        return Recipe::Number(vec![Op::Convert(rng.below(UNITS.len()))]);
    }
    let count = *rng.pick(&[1, 1, 1, 1, 2, 2, 2, 2, 3, 3]);
    loop {
        let mut ops: Vec<Op> = (0..count).map(|_| Op::arithmetic(rng)).collect();
        if rng.below(3) == 0 {
            ops[count - 1] = Op::verdict(rng);
        }
        let shifts = |op: &Op| matches!(op, Op::Add(_) | Op::Sub(_));
        let powers = ops.iter().filter(|op| matches!(op, Op::Square | Op::Cube)).count();
        let clumsy = ops.windows(2).any(|pair| {
            std::mem::discriminant(&pair[0]) == std::mem::discriminant(&pair[1])
                || (shifts(&pair[0]) && shifts(&pair[1]))
        });
        if !clumsy && powers < 2 {
            return Recipe::Number(ops);
        }
    }
}

fn draw_text(rng: &mut Rng, wording: Wording) -> Recipe {
    let count = *rng.pick(&[1, 1, 1, 2, 2, 2, 3]);
    loop {
        let mut edits: Vec<Edit> = (0..count).map(|_| Edit::step(rng, wording)).collect();
        if rng.below(3) == 0 {
            edits[count - 1] = Edit::verdict(rng, wording);
        }
        let mut sections: Vec<&str> = edits.iter().map(Edit::section).collect();
        sections.sort_unstable();
        sections.dedup();
        let cases = edits.contains(&Edit::Upper) && edits.contains(&Edit::Lower);
        if sections.len() == count && !cases {
            return Recipe::Text(edits);
        }
    }
}
