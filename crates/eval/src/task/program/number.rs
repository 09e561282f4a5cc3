//! Functions of one number and of two or three.

use serde::{Deserialize, Serialize};

use super::code::{Code, Level};
use super::python::Value;
use crate::task::Rng;

/// A function of a number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Op {
    Add(i64),
    Sub(i64),
    From(i64),
    Mul(i64),
    Div(i64),
    Mod(i64),
    AtMost(i64),
    AtLeast(i64),
    Square,
    Cube,
    Abs,
    Negate,
    /// From one unit to a smaller one, by number among [`UNITS`].
    Convert(usize),
    Check(Test),
    /// One word where the test holds, another where it does not.
    Label(Test, String, String),
}

/// A question about a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Test {
    Above(i64),
    Below(i64),
    Even,
    Odd,
    Divisible(i64),
    Equal(i64),
    Positive,
    Negative,
}

/// A function of two or three numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Join {
    Sum,
    Product,
    Difference,
    Larger,
    Smaller,
}

/// How many of the second are in one of the first.
pub(super) const UNITS: [(&str, &str, i64); 12] = [
    ("hours", "minutes", 60),
    ("minutes", "seconds", 60),
    ("days", "hours", 24),
    ("weeks", "days", 7),
    ("years", "months", 12),
    ("euros", "cents", 100),
    ("dollars", "cents", 100),
    ("metres", "centimetres", 100),
    ("meters", "centimeters", 100),
    ("kilometers", "meters", 1000),
    ("kilograms", "grams", 1000),
    ("feet", "inches", 12),
];

const LABELS: [(&str, &str); 8] = [
    ("yes", "no"),
    ("big", "small"),
    ("even", "odd"),
    ("ok", "bad"),
    ("high", "low"),
    ("hot", "cold"),
    ("good", "wrong"),
    ("win", "lose"),
];

impl Op {
    /// A step from a number to a number.
    pub(super) fn arithmetic(rng: &mut Rng) -> Self {
        let size = if rng.below(4) == 0 { rng.between(1, 99) } else { rng.between(1, 20) };
        let factor = if rng.below(3) == 0 { rng.between(2, 3) } else { rng.between(2, 12) };
        let divisor = if rng.below(4) == 0 { 2 } else { rng.between(2, 10) };
        match rng.below(17) {
            0..=2 => Self::Add(size),
            3..=5 => Self::Sub(size),
            6 => Self::From(size),
            7..=9 => Self::Mul(factor),
            10 => Self::Div(divisor),
            11 => Self::Mod(divisor),
            12 => Self::AtMost(size),
            13 => Self::AtLeast(size),
            14 => rng.pick(&[Self::Square, Self::Square, Self::Cube]).clone(),
            15 => Self::Abs,
            _ => Self::Negate,
        }
    }

    /// A last step: a truth value or one of two words.
    pub(super) fn verdict(rng: &mut Rng) -> Self {
        let test = Test::draw(rng);
        if rng.below(4) > 0 {
            return Self::Check(test);
        }
        let (yes, no) = match test {
            Test::Even => ("even", "odd"),
            Test::Odd => ("odd", "even"),
            Test::Positive if rng.coin() => ("positive", "negative"),
            _ => loop {
                let (yes, no) = *rng.pick(&LABELS);
                if yes != "even" {
                    break (yes, no);
                }
            },
        };
        Self::Label(test, yes.into(), no.into())
    }

    /// Whether there is a number or a word in it that could be another.
    pub(super) fn is_free(&self) -> bool {
        match self {
            Self::Square | Self::Cube | Self::Abs | Self::Negate | Self::Convert(_) => false,
            Self::Mul(k) => *k > 3,
            Self::Div(k) => *k > 2,
            Self::Check(test) => test.constant().is_some(),
            _ => true,
        }
    }

    pub(super) fn constant(&self) -> Option<i64> {
        match self {
            Self::Add(k) | Self::Sub(k) | Self::From(k) | Self::Mul(k) | Self::Div(k) | Self::Mod(k) => {
                Some(*k)
            }
            Self::AtMost(k) | Self::AtLeast(k) => Some(*k),
            Self::Check(test) | Self::Label(test, ..) => test.constant(),
            Self::Square | Self::Cube | Self::Abs | Self::Negate | Self::Convert(_) => None,
        }
    }

    /// Its section among the phrases.
    pub(super) fn section(&self) -> &'static str {
        match self {
            Self::Add(_) => "add",
            Self::Sub(_) => "sub",
            Self::From(_) => "from",
            Self::Mul(2) => "double",
            Self::Mul(3) => "triple",
            Self::Mul(_) => "mul",
            Self::Div(2) => "half",
            Self::Div(_) => "div",
            Self::Mod(_) => "mod",
            Self::AtMost(_) => "atmost",
            Self::AtLeast(_) => "atleast",
            Self::Square => "square",
            Self::Cube => "cube",
            Self::Abs => "abs",
            Self::Negate => "negate",
            Self::Convert(_) => "convert",
            Self::Check(_) => "check",
            Self::Label(..) => "label",
        }
    }

    pub(super) fn apply(&self, x: i64) -> Value {
        match self {
            Self::Check(test) => Value::Bool(test.holds(x)),
            Self::Label(test, yes, no) => Value::Str(if test.holds(x) { yes.clone() } else { no.clone() }),
            _ => Value::Int(self.number(x)),
        }
    }

    pub(super) fn number(&self, x: i64) -> i64 {
        match self {
            Self::Add(k) => x + k,
            Self::Sub(k) => x - k,
            Self::From(k) => k - x,
            Self::Mul(k) => x * k,
            Self::Div(k) => x.div_euclid(*k),
            Self::Mod(k) => x.rem_euclid(*k),
            Self::AtMost(k) => x.min(*k),
            Self::AtLeast(k) => x.max(*k),
            Self::Square => x * x,
            Self::Cube => x * x * x,
            Self::Abs => x.abs(),
            Self::Negate => -x,
            Self::Convert(unit) => x * UNITS[*unit % UNITS.len()].2,
            Self::Check(test) | Self::Label(test, ..) => i64::from(test.holds(x)),
        }
    }

    pub(super) fn code(&self, x: &Code) -> Code {
        use Level::{Atom, Choice, Power, Product, Sign, Sum};
        match self {
            Self::Add(k) => Code::new(Sum, format!("{} + {k}", x.within(Sum))),
            Self::Sub(k) => Code::new(Sum, format!("{} - {k}", x.within(Sum))),
            Self::From(k) => Code::new(Sum, format!("{k} - {}", x.within(Product))),
            Self::Mul(k) => Code::new(Product, format!("{} * {k}", x.within(Product))),
            Self::Div(k) => Code::new(Product, format!("{} // {k}", x.within(Product))),
            Self::Mod(k) => Code::new(Product, format!("{} % {k}", x.within(Product))),
            Self::AtMost(k) => Code::atom(format!("min({}, {k})", x.text)),
            Self::AtLeast(k) => Code::atom(format!("max({}, {k})", x.text)),
            Self::Square => Code::new(Power, format!("{} ** 2", x.within(Atom))),
            Self::Cube => Code::new(Power, format!("{} ** 3", x.within(Atom))),
            Self::Abs => Code::atom(format!("abs({})", x.text)),
            Self::Negate => Code::new(Sign, format!("-{}", x.within(Power))),
            Self::Convert(unit) => {
                Code::new(Product, format!("{} * {}", x.within(Product), UNITS[*unit % UNITS.len()].2))
            }
            Self::Check(test) => test.code(x),
            Self::Label(test, yes, no) => {
                Code::new(Choice, format!("\"{yes}\" if {} else \"{no}\"", test.code(x).text))
            }
        }
    }
}

impl Test {
    pub(super) fn draw(rng: &mut Rng) -> Self {
        let size = if rng.below(4) == 0 { rng.between(1, 99) } else { rng.between(1, 20) };
        match rng.below(12) {
            0 | 1 => Self::Above(size),
            2 | 3 => Self::Below(size),
            4 | 5 => Self::Even,
            6 | 7 => Self::Odd,
            8 | 9 => Self::Divisible(rng.between(3, 12)),
            10 => Self::Equal(rng.between(0, 20)),
            _ => *rng.pick(&[Self::Positive, Self::Negative]),
        }
    }

    pub(super) fn constant(self) -> Option<i64> {
        match self {
            Self::Above(k) | Self::Below(k) | Self::Divisible(k) | Self::Equal(k) => Some(k),
            Self::Even | Self::Odd | Self::Positive | Self::Negative => None,
        }
    }

    /// Its section among the phrases.
    pub(super) fn section(self) -> &'static str {
        match self {
            Self::Above(_) => "above",
            Self::Below(_) => "below",
            Self::Even => "even",
            Self::Odd => "odd",
            Self::Divisible(_) => "divisible",
            Self::Equal(_) => "equal",
            Self::Positive => "positive",
            Self::Negative => "negative",
        }
    }

    pub(super) fn holds(self, x: i64) -> bool {
        match self {
            Self::Above(k) => x > k,
            Self::Below(k) => x < k,
            Self::Even => x.rem_euclid(2) == 0,
            Self::Odd => x.rem_euclid(2) == 1,
            Self::Divisible(k) => x.rem_euclid(k) == 0,
            Self::Equal(k) => x == k,
            Self::Positive => x > 0,
            Self::Negative => x < 0,
        }
    }

    pub(super) fn code(self, x: &Code) -> Code {
        let (sum, product) = (x.within(Level::Sum), x.within(Level::Product));
        let text = match self {
            Self::Above(k) => format!("{sum} > {k}"),
            Self::Below(k) => format!("{sum} < {k}"),
            Self::Even => format!("{product} % 2 == 0"),
            Self::Odd => format!("{product} % 2 == 1"),
            Self::Divisible(k) => format!("{product} % {k} == 0"),
            Self::Equal(k) => format!("{sum} == {k}"),
            Self::Positive => format!("{sum} > 0"),
            Self::Negative => format!("{sum} < 0"),
        };
        Code::new(Level::Comparison, text)
    }
}

impl Join {
    pub(super) const ALL: [Self; 5] =
        [Self::Sum, Self::Product, Self::Difference, Self::Larger, Self::Smaller];

    /// Its section among the phrases.
    pub(super) fn section(self) -> &'static str {
        match self {
            Self::Sum => "join.sum",
            Self::Product => "join.product",
            Self::Difference => "join.difference",
            Self::Larger => "join.larger",
            Self::Smaller => "join.smaller",
        }
    }

    pub(super) fn apply(self, numbers: &[i64]) -> Option<i64> {
        numbers.iter().copied().reduce(|a, b| match self {
            Self::Sum => a + b,
            Self::Product => a * b,
            Self::Difference => a - b,
            Self::Larger => a.max(b),
            Self::Smaller => a.min(b),
        })
    }

    pub(super) fn code(self, params: &[String]) -> Code {
        match self {
            Self::Sum => Code::new(Level::Sum, params.join(" + ")),
            Self::Product => Code::new(Level::Product, params.join(" * ")),
            Self::Difference => Code::new(Level::Sum, params.join(" - ")),
            Self::Larger => Code::atom(format!("max({})", params.join(", "))),
            Self::Smaller => Code::atom(format!("min({})", params.join(", "))),
        }
    }
}
