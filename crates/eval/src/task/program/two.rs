//! Functions of two arguments that need not be alike: two texts, a text and a number, a list and a value.

use serde::{Deserialize, Serialize};

use super::code::{Code, Level};
use super::list::list;
use super::python::Value;
use crate::task::Rng;

/// A function of two arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Two {
    // Two numbers.
    Greater,
    Less,
    Equal,
    Divides,
    Remainder,
    Power,
    Average,
    Gap,
    Area,
    Perimeter,
    // Two texts.
    Longer,
    SameLength,
    Concat,
    Spaced,
    Within,
    BothLengths,
    // A text and a number.
    Repeat,
    FirstLetters,
    // A list and a number.
    Member,
    Occurs,
    At,
    AddEach,
    Above,
}

const ALL: [Two; 23] = [
    Two::Greater,
    Two::Less,
    Two::Equal,
    Two::Divides,
    Two::Remainder,
    Two::Power,
    Two::Average,
    Two::Gap,
    Two::Area,
    Two::Perimeter,
    Two::Longer,
    Two::SameLength,
    Two::Concat,
    Two::Spaced,
    Two::Within,
    Two::BothLengths,
    Two::Repeat,
    Two::FirstLetters,
    Two::Member,
    Two::Occurs,
    Two::At,
    Two::AddEach,
    Two::Above,
];

/// What the two arguments are.
enum Sort {
    Numbers,
    Texts,
    TextNumber,
    ListNumber,
}

impl Two {
    pub(super) fn draw(rng: &mut Rng) -> Self {
        *rng.pick(&ALL)
    }

    fn sort(self) -> Sort {
        match self {
            Self::Greater | Self::Less | Self::Equal | Self::Divides => Sort::Numbers,
            Self::Remainder | Self::Power | Self::Average | Self::Gap => Sort::Numbers,
            Self::Area | Self::Perimeter => Sort::Numbers,
            Self::Longer
            | Self::SameLength
            | Self::Concat
            | Self::Spaced
            | Self::Within
            | Self::BothLengths => Sort::Texts,
            Self::Repeat | Self::FirstLetters => Sort::TextNumber,
            Self::Member | Self::Occurs | Self::At | Self::AddEach | Self::Above => Sort::ListNumber,
        }
    }

    /// Its section among the phrases.
    pub(super) fn section(self) -> &'static str {
        match self {
            Self::Greater => "two.greater",
            Self::Less => "two.less",
            Self::Equal => "two.equal",
            Self::Divides => "two.divides",
            Self::Remainder => "two.remainder",
            Self::Power => "two.power",
            Self::Average => "two.average",
            Self::Gap => "two.gap",
            Self::Area => "two.area",
            Self::Perimeter => "two.perimeter",
            Self::Longer => "two.longer",
            Self::SameLength => "two.same_length",
            Self::Concat => "two.concat",
            Self::Spaced => "two.spaced",
            Self::Within => "two.within",
            Self::BothLengths => "two.both_lengths",
            Self::Repeat => "two.repeat",
            Self::FirstLetters => "two.first_letters",
            Self::Member => "two.member",
            Self::Occurs => "two.occurs",
            Self::At => "two.at",
            Self::AddEach => "two.add_each",
            Self::Above => "two.above",
        }
    }

    /// Pairs of parameters that suit.
    pub(super) fn parameters(self) -> &'static [&'static str] {
        match self.sort() {
            Sort::Numbers if matches!(self, Self::Area | Self::Perimeter) => {
                &["a b", "a b", "width height", "w h", "length width"]
            }
            Sort::Numbers => &["a b", "a b", "x y", "n m", "p q", "num1 num2", "first second"],
            Sort::Texts => {
                &["a b", "a b", "s t", "x y", "s1 s2", "word1 word2", "text1 text2", "first second"]
            }
            Sort::TextNumber => &["s n", "s n", "text n", "word k", "s k", "text count"],
            Sort::ListNumber => &["xs x", "xs n", "nums n", "lst x", "numbers k", "items x", "values n"],
        }
    }

    /// What the arguments are called in words.
    pub(super) fn inputs_told(self) -> &'static [&'static str] {
        match self.sort() {
            Sort::Numbers => &["two numbers", "two numbers", "two integers"],
            Sort::Texts => &["two strings", "two texts", "two words"],
            Sort::TextNumber => &["a text and a number", "a string and a number", "a word and a number"],
            Sort::ListNumber => &["a list and a number", "a list of numbers and a number"],
        }
    }

    pub(super) fn apply(self, a: &Value, b: &Value) -> Option<Value> {
        match (a, b) {
            (Value::Int(a), Value::Int(b)) => self.numbers(*a, *b),
            (Value::Str(a), Value::Str(b)) => self.texts(a, b),
            (Value::Str(text), Value::Int(n)) => {
                let count = usize::try_from(*n).ok()?;
                match self {
                    Self::Repeat => Some(Value::Str(text.repeat(count))),
                    _ => Some(Value::Str(text.chars().take(count).collect())),
                }
            }
            (Value::List(items), Value::Int(n)) => {
                let items: Vec<i64> = items.iter().filter_map(|item| item.int().ok()).collect();
                match self {
                    Self::Member => Some(Value::Bool(items.contains(n))),
                    Self::Occurs => Some(Value::Int(items.iter().filter(|item| *item == n).count() as i64)),
                    Self::At => items.get(usize::try_from(*n).ok()?).copied().map(Value::Int),
                    Self::AddEach => Some(list(&items.iter().map(|item| item + n).collect::<Vec<_>>())),
                    _ => Some(list(&items.into_iter().filter(|item| item > n).collect::<Vec<_>>())),
                }
            }
            _ => None,
        }
    }

    fn numbers(self, a: i64, b: i64) -> Option<Value> {
        match self {
            Self::Greater => Some(Value::Bool(a > b)),
            Self::Less => Some(Value::Bool(a < b)),
            Self::Equal => Some(Value::Bool(a == b)),
            Self::Divides => (b > 0).then(|| Value::Bool(a.rem_euclid(b) == 0)),
            Self::Remainder => (b > 0).then(|| Value::Int(a.rem_euclid(b))),
            Self::Power => u32::try_from(b).ok().and_then(|b| a.checked_pow(b)).map(Value::Int),
            Self::Average => Some(Value::Int((a + b).div_euclid(2))),
            Self::Area => Some(Value::Int(a * b)),
            Self::Perimeter => Some(Value::Int(2 * (a + b))),
            _ => Some(Value::Int((a - b).abs())),
        }
    }

    fn texts(self, a: &str, b: &str) -> Option<Value> {
        let (one, two) = (a.chars().count(), b.chars().count());
        match self {
            Self::Longer => Some(Value::Bool(one > two)),
            Self::SameLength => Some(Value::Bool(one == two)),
            Self::Concat => Some(Value::Str(format!("{a}{b}"))),
            Self::Spaced => Some(Value::Str(format!("{a} {b}"))),
            Self::Within => Some(Value::Bool(b.contains(a))),
            _ => Some(Value::Int((one + two) as i64)),
        }
    }

    pub(super) fn code(self, a: &str, b: &str) -> Code {
        let text = match self {
            Self::Greater => format!("{a} > {b}"),
            Self::Less => format!("{a} < {b}"),
            Self::Equal => format!("{a} == {b}"),
            Self::Divides => format!("{a} % {b} == 0"),
            Self::Remainder => format!("{a} % {b}"),
            Self::Power => format!("{a} ** {b}"),
            Self::Average => format!("({a} + {b}) // 2"),
            Self::Gap => format!("abs({a} - {b})"),
            Self::Area => format!("{a} * {b}"),
            Self::Perimeter => format!("2 * ({a} + {b})"),
            Self::Longer => format!("len({a}) > len({b})"),
            Self::SameLength => format!("len({a}) == len({b})"),
            Self::Concat => format!("{a} + {b}"),
            Self::Spaced => format!("{a} + \" \" + {b}"),
            Self::Within => format!("{a} in {b}"),
            Self::BothLengths => format!("len({a}) + len({b})"),
            Self::Repeat => format!("{a} * {b}"),
            Self::FirstLetters => format!("{a}[:{b}]"),
            Self::Member => format!("{b} in {a}"),
            Self::Occurs => format!("{a}.count({b})"),
            Self::At => format!("{a}[{b}]"),
            Self::AddEach => format!("[v + {b} for v in {a}]"),
            Self::Above => format!("[v for v in {a} if v > {b}]"),
        };
        Code::new(Level::Choice, text)
    }

    /// The inputs of the tests.
    pub(super) fn inputs(self) -> Vec<Vec<Value>> {
        let numbers = |values: &[i64]| values.iter().copied().map(Value::Int).collect::<Vec<_>>();
        let texts =
            |values: &[&str]| values.iter().map(|value| Value::Str((*value).into())).collect::<Vec<_>>();
        let lists = [list(&[4, 7, 4, 1]), list(&[9, 2, 0, 5, 12, 3]), list(&[3]), list(&[1, 1, 1, 2])];
        let (first, second) = match self.sort() {
            Sort::Numbers => (numbers(&[-4, 0, 1, 2, 5, 9, 12, 20]), numbers(&[-3, 0, 1, 2, 3, 5, 9])),
            Sort::Texts => {
                let words = texts(&["", "a", "cat", "dog", "catalog", "hello there", "log"]);
                (words.clone(), words)
            }
            Sort::TextNumber => (texts(&["", "ab", "Hello", "two words"]), numbers(&[0, 1, 2, 3, 5])),
            Sort::ListNumber => (lists.to_vec(), numbers(&[0, 1, 2, 3, 4, 9])),
        };
        first.iter().flat_map(|a| second.iter().map(move |b| vec![a.clone(), b.clone()])).collect()
    }
}
