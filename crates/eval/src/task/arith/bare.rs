//! Bare sums: "What is 12 + 7?", "30 minus 8", "add 5 and 9", "12+7=".

use super::super::lexicon::{capital, in_words};
use super::story::{Op, Step, Story};
use super::teller::Teller;

/// Questions around a sum written in signs or words.
const ASKS: [&str; 34] = [
    "{e}",
    "{e}",
    "{e}",
    "{e} =",
    "{e} =",
    "{e} = ?",
    "{e}?",
    "what is {e}?",
    "what is {e}?",
    "what is {e}?",
    "what is {e}?",
    "what's {e}?",
    "calculate {e}.",
    "calculate {e}.",
    "compute {e}.",
    "how much is {e}?",
    "how much is {e}?",
    "what does {e} make?",
    "what does {e} equal?",
    "find {e}.",
    "solve {e}.",
    "solve: {e}",
    "tell me {e}.",
    "what is the result of {e}?",
    "what is the value of {e}?",
    "can you calculate {e}?",
    "please calculate {e}.",
    "can you tell me what {e} is?",
    "add this up: {e}",
    "what do you get for {e}?",
    "*what number is {e}?",
    "*do you know what {e} is?",
    "*the sum is {e}. What is the answer?",
    "*work out {e}, please.",
];
const TWO_SUMS: [&str; 20] = [
    "add {a} and {b}.",
    "add {a} and {b}.",
    "add {b} to {a}.",
    "add {a} to {b}.",
    "what is {b} more than {a}?",
    "what is the sum of {a} and {b}?",
    "sum of {a} and {b}",
    "find the sum of {a} and {b}.",
    "the sum of {a} and {b} is",
    "what do you get if you add {b} to {a}?",
    "what do you get when you add {a} and {b}?",
    "how much is {a} and {b}?",
    "{a} and {b} make how many?",
    "if you add {b} to {a}, what do you get?",
    "what number is {b} more than {a}?",
    "what is {a} increased by {b}?",
    "{a} and {b} together",
    "give me the sum of {a} and {b}.",
    "*put {a} and {b} together. What is the total?",
    "*start with {a} and add {b}.",
];
const TWO_DIFFERENCES: [&str; 20] = [
    "subtract {b} from {a}.",
    "subtract {b} from {a}.",
    "take {b} from {a}.",
    "take {b} away from {a}.",
    "what do you get if you take {b} from {a}?",
    "what do you get if you subtract {b} from {a}?",
    "{a} take away {b}",
    "what is {a} take away {b}?",
    "what is the difference between {a} and {b}?",
    "difference between {a} and {b}",
    "find the difference of {a} and {b}.",
    "what is {b} less than {a}?",
    "what is left if you take {b} from {a}?",
    "how much is left of {a} if you take away {b}?",
    "what number is {b} less than {a}?",
    "what is {a} decreased by {b}?",
    "if you take {b} from {a}, what is left?",
    "how much more is {a} than {b}?",
    "*remove {b} from {a}. What remains?",
    "*start with {a} and take away {b}.",
];
const TWO_PRODUCTS: [&str; 10] = [
    "multiply {a} by {b}.",
    "multiply {a} and {b}.",
    "what is {a} multiplied by {b}?",
    "what is the product of {a} and {b}?",
    "product of {a} and {b}",
    "{a} times {b}",
    "what is {a} times {b}?",
    "how much is {a} times {b}?",
    "find the product of {a} and {b}.",
    "*take {a} and multiply it by {b}.",
];
const SEVERAL: [&str; 10] = [
    "sum of {l}",
    "what is the sum of {l}?",
    "add {l}.",
    "add up {l}.",
    "find the sum of {l}.",
    "the sum of {l}",
    "add these numbers: {c}",
    "what is the total of {l}?",
    "*total of {l}, please",
    "*put {l} together.",
];
/// Instructions, step by step.
const STARTS: [&str; 5] =
    ["start with {a}", "take {a}", "begin with {a}", "start at {a}", "*you have the number {a}"];

/// Asks for the chain without a story.
pub(super) fn tell(teller: &mut Teller<'_>, story: &mut Story) -> String {
    let total = story.total();
    story.endings = vec![format!("The result is {total}."), format!("It is {total}.")];
    let (a, step) = (story.first, story.steps[0]);
    if story.steps.len() == 1 && teller.chance(35) {
        let patterns: &[&str] = match step.op {
            Op::Plus => &TWO_SUMS,
            Op::Minus => &TWO_DIFFERENCES,
            Op::Times => &TWO_PRODUCTS,
        };
        let pattern = teller.pick(patterns);
        let (a, b) = (teller.number(a), teller.number(step.by));
        return capital_mostly(teller, &pattern.replace("{a}", &a).replace("{b}", &b));
    }
    if story.steps.len() > 1 && story.only_gains() && step.op == Op::Plus && teller.chance(30) {
        return several(teller, story);
    }
    if story.steps.len() > 1 && teller.chance(15) {
        return instructions(teller, story);
    }
    let sum = expression(teller, story);
    let pattern = teller.pick(&ASKS);
    let pattern = if pattern.starts_with("add") && !story.only_gains() { "what is {e}?" } else { pattern };
    capital_mostly(teller, &pattern.replace("{e}", &sum))
}

/// The sum in signs, with and without spaces, or in words.
fn expression(teller: &mut Teller<'_>, story: &Story) -> String {
    let (plus, minus, times) = match teller.rng.below(20) {
        0..12 => (" + ", " - ", *teller.rng.pick(&[" x ", " * ", " × "])),
        12..15 => ("+", "-", *teller.rng.pick(&["x", "*"])),
        15..19 => (" plus ", " minus ", " times "),
        _ => (" and ", " minus ", " times "),
    };
    let words = plus == " plus " && teller.chance(12);
    let shown = |n: i64| if words { in_words(n) } else { teller.number(n) };
    let sign = |op: Op| match op {
        Op::Plus => plus,
        Op::Minus => minus,
        Op::Times => times,
    };
    let mut text = shown(story.first);
    for step in &story.steps {
        text += &format!("{}{}", sign(step.op), shown(step.by));
    }
    text
}

fn several(teller: &mut Teller<'_>, story: &Story) -> String {
    let numbers: Vec<i64> =
        std::iter::once(story.first).chain(story.steps.iter().map(|step| step.by)).collect();
    let texts: Vec<String> = numbers.iter().map(|n| teller.number(*n)).collect();
    let (last, rest) = texts.split_last().map_or(("", &[][..]), |(last, rest)| (last.as_str(), rest));
    let list = format!("{} and {last}", rest.join(", "));
    let pattern = teller.pick(&SEVERAL);
    capital_mostly(teller, &pattern.replace("{l}", &list).replace("{c}", &texts.join(", ")))
}

/// "Start with 12. Add 7. Take away 5. What do you get?"
fn instructions(teller: &mut Teller<'_>, story: &Story) -> String {
    let first = teller.number(story.first);
    let mut parts = vec![teller.pick(&STARTS).replace("{a}", &first)];
    for step in &story.steps {
        parts.push(command(teller, *step));
    }
    let question = teller.pick(&[
        "What do you get?",
        "What is the result?",
        "What is the answer?",
        "What number is it now?",
        "",
        "*Where do you end?",
    ]);
    let told = match teller.rng.below(3) {
        0 => parts.iter().map(|part| capital(part)).collect::<Vec<_>>().join(". "),
        1 => capital(&parts.join(", ")),
        _ => capital(&parts.join(", then ")),
    };
    format!("{told}. {question}").trim_end().to_owned()
}

fn command(teller: &mut Teller<'_>, step: Step) -> String {
    let patterns: &[&str] = match step.op {
        Op::Plus => &["add {n}", "add {n}", "plus {n}", "then add {n}", "*put {n} on top"],
        Op::Minus => &[
            "subtract {n}",
            "take away {n}",
            "minus {n}",
            "take off {n}",
            "then subtract {n}",
            "*remove {n}",
        ],
        Op::Times => &["multiply by {n}", "times {n}"],
    };
    let n = teller.number(step.by);
    teller.pick(patterns).replace("{n}", &n).replace("then ", "")
}

/// People who type a bare sum often leave out the capital.
fn capital_mostly(teller: &mut Teller<'_>, text: &str) -> String {
    if teller.chance(12) { text.to_owned() } else { capital(text) }
}
