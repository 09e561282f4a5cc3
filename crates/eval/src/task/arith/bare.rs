//! Bare sums: "What is 12 + 7?", "30 minus 8", "add 5 and 9", "12+7=", "half of 18", "6 + 4 x 5".

use super::super::lexicon::{capital, in_words};
use super::story::{Op, Step, Story};
use super::teller::Teller;

/// Asks for the chain without a story.
pub(super) fn tell(teller: &mut Teller<'_>, story: &mut Story) -> String {
    let total = story.total();
    story.endings = vec![format!("The result is {total}."), format!("It is {total}.")];
    let (a, step) = (story.first, story.steps[0]);
    if let Some(section) = multiple(story).filter(|_| teller.chance(50)) {
        let pattern = teller.draw(section);
        let a = teller.number(a);
        return capital_mostly(teller, &pattern.replace("{a}", &a));
    }
    if story.equations() == 1 && teller.chance(35) {
        let section = match step.op {
            Op::Plus => "bare/two sums",
            Op::Minus => "bare/two differences",
            Op::Times => "bare/two products",
            Op::Over => "bare/two quotients",
        };
        let pattern = teller.draw(section);
        let (a, b) = (teller.number(a), teller.number(step.by));
        return capital_mostly(teller, &pattern.replace("{a}", &a).replace("{b}", &b));
    }
    let only_sums = story.steps.iter().all(|step| step.op == Op::Plus) && story.inner.is_empty();
    if story.steps.len() > 1 && only_sums && teller.chance(30) {
        return several(teller, story);
    }
    if story.steps.len() > 1 && story.inner.is_empty() && teller.chance(15) {
        return instructions(teller, story);
    }
    let sum = expression(teller, story);
    let pattern = teller.draw("bare/asks");
    let pattern = if pattern.starts_with("add") && !story.only_gains() { "what is {e}?" } else { pattern };
    capital_mostly(teller, &pattern.replace("{e}", &sum))
}

/// Where twice, half and the like are said of a number.
fn multiple(story: &Story) -> Option<&'static str> {
    match story.steps[..] {
        _ if !story.inner.is_empty() => None,
        [Step { op: Op::Times, by: 2 }] => Some("bare/double"),
        [Step { op: Op::Times, by: 3 }] => Some("bare/triple"),
        [Step { op: Op::Over, by: 2 }] => Some("bare/half"),
        [Step { op: Op::Over, by: 3 }] => Some("bare/third"),
        [Step { op: Op::Over, by: 4 }] => Some("bare/quarter"),
        _ => None,
    }
}

/// The sum in signs, with and without spaces, or in words.
fn expression(teller: &mut Teller<'_>, story: &Story) -> String {
    let (plus, minus, times, over) = match teller.rng.below(20) {
        0..12 => {
            (" + ", " - ", *teller.rng.pick(&[" x ", " * ", " × "]), *teller.rng.pick(&[" / ", " / ", " ÷ "]))
        }
        12..15 => ("+", "-", *teller.rng.pick(&["x", "*"]), "/"),
        15..19 => (" plus ", " minus ", " times ", " divided by "),
        _ => (" and ", " minus ", " times ", " over "),
    };
    let words = plus == " plus " && teller.chance(12);
    // Words would run into one another where signs have no spaces.
    let close = plus == "+";
    let mut shown = |n: i64| match (words, close) {
        (true, _) => in_words(n),
        (_, true) => n.to_string(),
        _ => teller.number(n),
    };
    let sign = |op: Op| match op {
        Op::Plus => plus,
        Op::Minus => minus,
        Op::Times => times,
        Op::Over => over,
    };
    written(story, &mut shown, &sign)
}

/// The chain as it is typed: products before sums, parentheses where that is not meant.
fn written(story: &Story, shown: &mut dyn FnMut(i64) -> String, sign: &dyn Fn(Op) -> &'static str) -> String {
    let binds = |op: Op| matches!(op, Op::Times | Op::Over);
    let mut number = |at: usize, n: i64, beside: Option<Op>| match story.inner_at(at) {
        None => shown(n),
        Some(inner) => {
            let text = written(inner, shown, sign);
            let clear = inner.steps.iter().all(|step| binds(step.op)) && !beside.is_some_and(binds);
            if clear { text } else { format!("({text})") }
        }
    };
    let mut text = number(0, story.first, story.steps.first().map(|step| step.op));
    for (at, step) in story.steps.iter().enumerate() {
        if binds(step.op) && at > 0 && !binds(story.steps[at - 1].op) {
            text = format!("({text})");
        }
        text += &format!("{}{}", sign(step.op), number(at + 1, step.by, Some(step.op)));
    }
    text
}

fn several(teller: &mut Teller<'_>, story: &Story) -> String {
    let numbers: Vec<i64> =
        std::iter::once(story.first).chain(story.steps.iter().map(|step| step.by)).collect();
    let texts: Vec<String> = numbers.iter().map(|n| teller.number(*n)).collect();
    let (last, rest) = texts.split_last().map_or(("", &[][..]), |(last, rest)| (last.as_str(), rest));
    let list = format!("{} and {last}", rest.join(", "));
    let pattern = teller.draw("bare/several");
    capital_mostly(teller, &pattern.replace("{l}", &list).replace("{c}", &texts.join(", ")))
}

/// "Start with 12. Add 7. Take away 5. What do you get?"
fn instructions(teller: &mut Teller<'_>, story: &Story) -> String {
    let first = teller.number(story.first);
    let mut parts = vec![teller.draw("bare/starts").replace("{a}", &first)];
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
        Op::Over => &["divide by {n}", "divide it by {n}"],
    };
    let n = teller.number(step.by);
    teller.pick(patterns).replace("{n}", &n).replace("then ", "")
}

/// People who type a bare sum often leave out the capital.
fn capital_mostly(teller: &mut Teller<'_>, text: &str) -> String {
    if teller.chance(12) { text.to_owned() } else { capital(text) }
}
