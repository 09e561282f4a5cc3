//! Problems told whole: `told.txt` has a problem a line, `EXPRESSION || TEXT`, in the words of one who typed it.
//!
//! The expression is worked out from left to right: slots `A` to `G`, literal numbers or another expression in parentheses
//! with `+`, `-`, `*` and `/`; conditions such as `A<13` or `B>A` may follow it after commas. The text names its numbers by their slots, a hero (`{S}`, `{s}`,
//! `{Sub}`, `{obj}`, `{poss}`), others (`{x}`, `{y}`), things (`{many}`, `{one}`, `{kinds}`), `{people}` and `{animals}`;
//! `{s has/have}` agrees with the hero's pronoun, and `{Z}` is a number that nothing is done with.
//!
//! Invariant: a line that opens with `*` is told in fresh wording alone.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::super::lexicon::{self, NounKind, Wording, capital};
use super::party::Party;
use super::story::{Op, Step, Story, change, start};
use super::teller::Teller;

/// The greatest number on the way.
const MOST: i64 = 199;
/// The greatest factor or divisor, and the greatest number that is multiplied, now and then.
const FACTOR: i64 = 12;
const MULTIPLIED: i64 = 60;
/// Draws of numbers before another line is tried.
const TRIES: usize = 400;

static LINES: LazyLock<Vec<Line>> = LazyLock::new(|| {
    let lines = crate::task::wordings::text("arith/told.txt").lines().map(str::trim);
    let told = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    told.map(|line| Line::read(line).unwrap_or_else(|| panic!("told.txt: {line}"))).collect()
});

/// A number of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Operand {
    Slot(char),
    Literal(i64),
    Inner(Expression),
}

/// What is worked out, from left to right.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Expression {
    first: Box<Operand>,
    steps: Vec<(Op, Operand)>,
}

/// One problem of the file.
#[derive(Debug)]
struct Line {
    fresh: bool,
    expression: Expression,
    /// Left, whether it must be the smaller, right.
    conditions: Vec<(Operand, bool, Operand)>,
    text: &'static str,
}

/// Draws a line and its numbers.
pub(super) fn tell(teller: &mut Teller<'_>) -> (Story, String) {
    loop {
        let line = pick(teller);
        if let Some((mut story, numbers)) = line.story(teller) {
            let total = story.total();
            story.endings = vec![format!("The result is {total}."), format!("It is {total}.")];
            let text = line.told(teller, &numbers);
            return (story, text);
        }
    }
}

/// Any line of the wording.
fn pick(teller: &mut Teller<'_>) -> &'static Line {
    let fresh = teller.wording == Wording::Fresh && teller.coin();
    let fitting: Vec<&Line> = LINES.iter().filter(|line| line.fresh == fresh).collect();
    teller.rng.pick::<&Line>(&fitting)
}

impl Operand {
    fn read(text: &str) -> Option<Self> {
        let text = text.trim();
        match text.parse() {
            Ok(number) => Some(Self::Literal(number)),
            Err(_) => {
                text.chars().next().filter(|c| text.len() == 1 && c.is_ascii_uppercase()).map(Self::Slot)
            }
        }
    }

    fn value(&self, numbers: &BTreeMap<char, i64>) -> i64 {
        match self {
            Self::Literal(number) => *number,
            Self::Slot(slot) => numbers.get(slot).copied().unwrap_or(0),
            Self::Inner(expression) => expression.story(numbers).total(),
        }
    }
}

impl Expression {
    /// Reads up to the end or a closing parenthesis; what is left comes beside it.
    fn read<'a>(mut words: &'a [&'a str]) -> Option<(Self, &'a [&'a str])> {
        let operand = |words: &'a [&'a str]| -> Option<(Operand, &'a [&'a str])> {
            let (word, rest) = words.split_first()?;
            if *word != "(" {
                return Some((Operand::read(word)?, rest));
            }
            let (inner, rest) = Self::read(rest)?;
            Some((Operand::Inner(inner), rest.strip_prefix(&[")"])?))
        };
        let (first, rest) = operand(words)?;
        words = rest;
        let mut steps = Vec::new();
        while let Some((sign, rest)) = words.split_first().filter(|(sign, _)| **sign != ")") {
            let op = match *sign {
                "+" => Op::Plus,
                "-" => Op::Minus,
                "*" => Op::Times,
                "/" => Op::Over,
                _ => return None,
            };
            let (by, rest) = operand(rest)?;
            steps.push((op, by));
            words = rest;
        }
        (!steps.is_empty()).then_some((Self { first: Box::new(first), steps }, words))
    }

    /// The chain with these numbers; a step that has no result is left to [`Story::is_within`].
    fn story(&self, numbers: &BTreeMap<char, i64>) -> Story {
        let operands = std::iter::once(&*self.first).chain(self.steps.iter().map(|(_, by)| by));
        let inner = operands.enumerate().filter_map(|(at, operand)| match operand {
            Operand::Inner(expression) => Some((at, expression.story(numbers))),
            _ => None,
        });
        let steps = self.steps.iter().map(|(op, by)| Step::new(*op, by.value(numbers)));
        Story { inner: inner.collect(), ..Story::new(self.first.value(numbers), steps.collect()) }
    }

    /// Gives every slot a number that suits its place.
    fn draw(&self, teller: &mut Teller<'_>, numbers: &mut BTreeMap<char, i64>) {
        let operands = std::iter::once(&*self.first).chain(self.steps.iter().map(|(_, by)| by));
        let op = |at: usize| self.steps.get(at).map(|(op, _)| *op);
        for (at, operand) in operands.enumerate() {
            let slot = match operand {
                Operand::Literal(_) => continue,
                Operand::Inner(expression) => {
                    expression.draw(teller, numbers);
                    continue;
                }
                Operand::Slot(slot) => *slot,
            };
            let factor = at > 0 && matches!(op(at - 1), Some(Op::Times | Op::Over));
            let multiplied = at == 0 && op(0) == Some(Op::Times);
            if numbers.contains_key(&slot) && !factor && !multiplied {
                continue;
            }
            let drawn = match at {
                _ if factor => teller.rng.between(2, FACTOR),
                0 if multiplied => {
                    let most = if teller.rng.below(3) == 0 { MULTIPLIED } else { FACTOR };
                    teller.rng.between(2, most)
                }
                0 | 1 => start(teller.rng),
                // Changes are small, or few chains would stay within bounds.
                _ => change(teller.rng).max(2),
            };
            numbers.insert(slot, drawn);
        }
    }
}

impl Line {
    fn read(line: &'static str) -> Option<Self> {
        let (head, text) = line.split_once("||")?;
        let fresh = head.starts_with('*');
        let mut parts = head.trim_start_matches('*').split(',');
        let spaced = parts.next()?.replace('(', " ( ").replace(')', " ) ");
        let words: Vec<&str> = spaced.split_whitespace().collect();
        let (expression, rest) = Expression::read(&words)?;
        let condition = |part: &str| {
            let (at, smaller) =
                part.find('<').map(|at| (at, true)).or(part.find('>').map(|at| (at, false)))?;
            Some((Operand::read(&part[..at])?, smaller, Operand::read(&part[at + 1..])?))
        };
        let conditions = parts.map(condition).collect::<Option<_>>()?;
        rest.is_empty().then_some(Self { fresh, expression, conditions, text: text.trim() })
    }

    /// Numbers that suit the expression, if any are found.
    fn story(&self, teller: &mut Teller<'_>) -> Option<(Story, BTreeMap<char, i64>)> {
        for _ in 0..TRIES {
            let mut numbers = BTreeMap::from([('Z', teller.rng.between(2, 30))]);
            self.expression.draw(teller, &mut numbers);
            let story = self.expression.story(&numbers);
            let holds = |(left, smaller, right): &(Operand, bool, Operand)| {
                let (left, right) = (left.value(&numbers), right.value(&numbers));
                if *smaller { left < right } else { left > right }
            };
            if self.conditions.iter().all(holds) && story.is_within(MOST) {
                return Some((story, numbers));
            }
        }
        None
    }

    fn told(&self, teller: &mut Teller<'_>, numbers: &BTreeMap<char, i64>) -> String {
        let hero = Party::person(&lexicon::name(teller.rng, teller.wording));
        let names = lexicon::names(teller.rng, teller.wording, 3);
        let others: Vec<&str> =
            names.iter().map(|name| name.text.as_str()).filter(|name| *name != hero.first).collect();
        let things = [NounKind::Thing, NounKind::Thing, NounKind::Food];
        let noun = lexicon::noun(teller.rng, teller.wording, &things);
        let other = loop {
            let other = lexicon::noun(teller.rng, teller.wording, &things);
            if other.one != noun.one {
                break other;
            }
        };
        let people = lexicon::noun(teller.rng, teller.wording, &[NounKind::Person]).many;
        let animals = lexicon::noun(teller.rng, teller.wording, &[NounKind::Animal, NounKind::Bird]).many;
        let mut text = String::new();
        let mut rest = self.text;
        while let Some((before, after)) = rest.split_once('{') {
            let (slot, after) = after.split_once('}').unwrap_or((after, ""));
            text += before;
            let (name, forms) = slot.split_once(' ').unwrap_or((slot, ""));
            let filled = match name {
                "S" => hero.first.clone(),
                "s" => hero.sub.clone(),
                "Sub" => capital(&hero.sub),
                "obj" => hero.obj.clone(),
                "poss" => hero.poss.clone(),
                "x" => others[0].to_owned(),
                "y" => others[1].to_owned(),
                "many" => noun.many.clone(),
                "one" => noun.one.clone(),
                "kinds" => other.many.clone(),
                "people" => people.clone(),
                "animals" => animals.clone(),
                number => match number.chars().next().and_then(|slot| numbers.get(&slot)) {
                    Some(number) => teller.number(*number),
                    None => panic!("told.txt: no slot {slot} in {}", self.text),
                },
            };
            text += &filled;
            if let Some((one, many)) = forms.split_once('/') {
                text.push(' ');
                text += if hero.sub_plural { many } else { one };
            }
            rest = after;
        }
        text += rest;
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::Rng;

    #[test]
    fn every_line_can_be_told_with_its_numbers() {
        let mut rng = Rng::new(1);
        assert!(LINES.len() > 500, "{} lines", LINES.len());
        for line in LINES.iter() {
            let mut teller = Teller::new(&mut rng, Wording::Usual);
            let Some((story, numbers)) = line.story(&mut teller) else {
                panic!("no numbers suit {}", line.text)
            };
            let text = line.told(&mut teller, &numbers);
            assert!(!text.contains(['{', '}']) && story.is_within(MOST), "{text}");
        }
    }

    #[test]
    fn a_line_says_what_is_worked_out() {
        let line = Line::read("A - B * 2, A>60 || {S} had {A}. {Sub has/have} {B} left.").expect("a line");
        let steps = [(Op::Minus, Operand::Slot('B')), (Op::Times, Operand::Literal(2))];
        assert_eq!(line.expression.steps, steps);
        let mut rng = Rng::new(2);
        for _ in 0..100 {
            let (story, numbers) = line.story(&mut Teller::new(&mut rng, Wording::Usual)).expect("numbers");
            assert_eq!(story.total(), (numbers[&'A'] - numbers[&'B']) * 2);
            assert!(numbers[&'A'] > 60);
        }
        for wrong in ["A % B || no", "A || no", "A - (B || no", "A - B) || no", "A - (B) || no"] {
            assert!(Line::read(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn parentheses_are_worked_out_first() {
        let line = Line::read("A * B - (C * 3), A<9 || {S}: {A}, {B}, {C}.").expect("a line");
        let mut rng = Rng::new(3);
        for _ in 0..100 {
            let (story, numbers) = line.story(&mut Teller::new(&mut rng, Wording::Usual)).expect("numbers");
            let [a, b, c] = ['A', 'B', 'C'].map(|slot| numbers[&slot]);
            assert_eq!(story.total(), a * b - c * 3);
            assert_eq!((story.numbers(), story.equations()), (vec![a, b, c, 3], 3));
            assert_eq!(story.key(), format!("{a}x{b}-({c}x3)"));
        }
    }
}
