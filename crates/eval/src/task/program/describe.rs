//! A function in English: as something done ("doubles a number and adds 3") or as a thing ("twice the number").
//!
//! Steps in a row are said in their order; a noun phrase inside another is used only where it cannot be misread.

mod grammar;
mod pipeline;
mod text;

use std::sync::LazyLock;

use self::grammar::{chain, conjugate, enumerate, superlative};
use self::pipeline::{list_steps, list_thing};
use self::text::{say_edit, text_thing};
use super::list::{Fold, Pipeline};
use super::number::{Join, Op, Test, UNITS};
use super::recipe::{Ask, Recipe};
use super::two::Two;
use super::words::WordStep;
use crate::task::Rng;
use crate::task::lexicon::{Wording, in_words};
use crate::task::phrase::{Phrases, fill};

pub(super) use self::grammar::Form;

static PHRASES: LazyLock<Phrases> =
    LazyLock::new(|| Phrases::parse(crate::task::wordings::text("program/phrases.txt")));

/// What the argument has been called so far.
#[derive(Clone)]
pub(super) enum Object {
    /// Nothing yet: "a number".
    New,
    /// "a number", so that now it is "it".
    Known,
    /// By these parameters.
    Params(Vec<String>),
}

/// Says what a recipe does, in a given form, of an object.
pub(super) fn doing(rng: &mut Rng, recipe: &Recipe, object: &Object, form: Form) -> String {
    if rng.below(6) == 0
        && let Some(thing) = thing(rng, recipe, object)
    {
        let verb =
            *rng.pick(&["return", "return", "return", "compute", "give", "give back", "find", "calculate"]);
        // A choice of two values is returned, not computed.
        let verb = if thing.starts_with(['T', '"', 'w', 'h']) { "return" } else { verb };
        return format!("{} {thing}", conjugate(verb, form));
    }
    let steps = match recipe {
        Recipe::Number(ops) => {
            let first = first_object(rng, recipe, object);
            let mut step = |(at, op)| {
                let it = later(rng, at, &first);
                say_op(rng, op, &it)
            };
            ops.iter().enumerate().map(&mut step).collect()
        }
        Recipe::Text(edits) => {
            let first = first_object(rng, recipe, object);
            let mut step = |(at, edit)| {
                let it = later(rng, at, &first);
                say_edit(rng, edit, "do", &it)
            };
            edits.iter().enumerate().map(&mut step).collect()
        }
        Recipe::Pair(join, count, op) => {
            let mut steps = vec![say_join(rng, *join, *count, object, "do")];
            let it = later(rng, 1, "");
            steps.extend(op.as_ref().map(|op| say_op(rng, op, &it)));
            steps
        }
        Recipe::List(pipeline) => {
            let list = first_object(rng, recipe, object);
            list_steps(rng, pipeline, &list)
        }
        Recipe::Asks(ask, test) => {
            let list = first_object(rng, recipe, object);
            vec![say_asks(rng, *ask, *test, "do", &list)]
        }
        Recipe::Words(step) => {
            let list = first_object(rng, recipe, object);
            vec![say_words(rng, step, "do", &list)]
        }
        Recipe::Two(two) => vec![say_two(rng, *two, "do", object)],
        Recipe::Series(series) => {
            let n = first_object(rng, recipe, object);
            vec![say(rng, &format!("{}.do", series.section()), series.constant(), &[("it", &n)])]
        }
    };
    chain(rng, steps.iter().map(|step| conjugate(step, form)).collect())
}

/// Says what a recipe gives, where that can be said without being misread.
pub(super) fn thing(rng: &mut Rng, recipe: &Recipe, object: &Object) -> Option<String> {
    let x = first_object(rng, recipe, object);
    match recipe {
        Recipe::Number(ops) => match ops.as_slice() {
            [op] => Some(op_thing(rng, op, &x, false)),
            [inner, outer] => {
                let inner = closed(rng, inner, &x)?;
                Some(op_thing(rng, outer, &inner, true))
            }
            _ => None,
        },
        Recipe::Pair(join, count, op) => match op {
            None if rng.coin() && matches!(object, Object::Params(_)) => {
                Some(say_join(rng, *join, *count, object, "top"))
            }
            None => Some(say_join(rng, *join, *count, object, "np")),
            Some(op) => {
                let inner = say_join(rng, *join, *count, object, "np");
                Some(op_thing(rng, op, &inner, true))
            }
        },
        Recipe::List(pipeline) => list_thing(rng, pipeline, &x),
        Recipe::Asks(ask, test) => Some(say_asks(rng, *ask, *test, "top", &x)),
        Recipe::Words(step) => Some(say_words(rng, step, "top", &x)),
        Recipe::Two(two) => matches!(object, Object::Params(_)).then(|| say_two(rng, *two, "top", object)),
        Recipe::Text(edits) => text_thing(rng, edits, &x),
        Recipe::Series(series) => {
            Some(say(rng, &format!("{}.top", series.section()), series.constant(), &[("x", &x)]))
        }
    }
}

/// A function name that says what a recipe of one step does.
pub(super) fn telling_name(rng: &mut Rng, recipe: &Recipe) -> Option<String> {
    let (section, constant) = match recipe {
        Recipe::Number(ops) => match ops.as_slice() {
            [Op::Check(test)] => (test.section(), test.constant()),
            [Op::Label(..)] => return None,
            [Op::Convert(unit)] => {
                let (from, to, _) = UNITS[*unit % UNITS.len()];
                return Some(format!("{from}_to_{to}"));
            }
            [op] => (op.section(), op.constant()),
            _ => return None,
        },
        Recipe::Pair(join, 2, None) => (join.section(), None),
        Recipe::List(Pipeline { keep: None, map: None, fold: Some(fold), then: None, .. }) => {
            (fold.section(), fold.constant())
        }
        Recipe::List(Pipeline { keep: Some(test), map: None, fold: Some(fold), then: None, .. }) => {
            return fold_name(rng, *test, *fold);
        }
        Recipe::Text(edits) => match edits.as_slice() {
            [edit] => (edit.section(), edit.constant()),
            _ => return None,
        },
        Recipe::Series(series) => (series.section(), series.constant()),
        Recipe::Words(step) => (step.section(), step.constant()),
        Recipe::Two(two) => (two.section(), None),
        _ => return None,
    };
    let section = format!("{section}.name");
    PHRASES.has(&section).then(|| say(rng, &section, constant, &[]).replace('-', "_"))
}

/// "sum_even", "count_odd_numbers".
fn fold_name(rng: &mut Rng, test: Test, fold: Fold) -> Option<String> {
    let which = match test {
        Test::Even | Test::Odd | Test::Positive | Test::Negative => test.section(),
        _ => return None,
    };
    let verb = match fold {
        Fold::Sum => *rng.pick(&["sum", "total", "add"]),
        Fold::Count => "count",
        Fold::Largest => *rng.pick(&["max", "largest", "biggest"]),
        Fold::Smallest => *rng.pick(&["min", "smallest"]),
        _ => return None,
    };
    Some(format!("{verb}_{which}{}", rng.pick(&["", "_numbers", "s"])))
}

/// What a recipe takes: "a number", "two numbers", "a list of numbers", "a string".
pub(super) fn input(rng: &mut Rng, recipe: &Recipe) -> String {
    let pick = |rng: &mut Rng, options: &[&str]| (*rng.pick(options)).to_string();
    match recipe {
        Recipe::Number(_) => {
            pick(rng, &["a number", "a number", "a number", "an integer", "a whole number", "one number"])
        }
        Recipe::Series(_) => pick(rng, &["a number", "a number", "an integer", "a whole number"]),
        Recipe::Pair(_, 2, _) => {
            pick(rng, &["two numbers", "two numbers", "two integers", "a pair of numbers"])
        }
        Recipe::Pair(..) => pick(rng, &["three numbers", "three numbers", "three integers"]),
        Recipe::Words(_) => {
            pick(rng, &["a list of words", "a list of words", "a list of strings", "a list of names"])
        }
        Recipe::Two(two) => pick(rng, two.inputs_told()),
        Recipe::List(_) | Recipe::Asks(..) => {
            pick(rng, &["a list", "a list of numbers", "a list of integers", "a list of numbers"])
        }
        Recipe::Text(_) => pick(rng, &["a string", "a string", "a text", "a word", "some text"]),
    }
}

/// What the object is called where it is first spoken of.
fn first_object(rng: &mut Rng, recipe: &Recipe, object: &Object) -> String {
    let pick = |rng: &mut Rng, options: &[&str]| (*rng.pick(options)).to_string();
    match (object, recipe) {
        (Object::Params(params), _) => params.join(" and "),
        (Object::New, _) => input(rng, recipe),
        (Object::Known, Recipe::List(_) | Recipe::Words(_) | Recipe::Asks(..)) => {
            pick(rng, &["it", "the list", "that list"])
        }
        (Object::Known, Recipe::Text(_)) => pick(rng, &["it", "it", "that text", "the input"]),
        (Object::Known, _) => pick(rng, &["it", "the number", "that number", "it"]),
    }
}

/// What the object is called at step `at`.
fn later(rng: &mut Rng, at: usize, first: &str) -> String {
    if at == 0 { first.to_string() } else { (*rng.pick(&["it", "it", "it", "the result"])).to_string() }
}

fn say(rng: &mut Rng, section: &str, constant: Option<i64>, slots: &[(&str, &str)]) -> String {
    let text = PHRASES.draw(rng, Wording::Usual, section);
    let text = fill(&text, slots);
    match constant {
        Some(k) => {
            let digits =
                if rng.below(12) == 0 && section.ends_with("do") { in_words(k) } else { k.to_string() };
            fill(&text, &[("k", &digits), ("w", &in_words(k))])
        }
        None => text,
    }
}

fn say_test(rng: &mut Rng, test: Test) -> String {
    say(rng, &format!("{}.is", test.section()), test.constant(), &[])
}

fn say_op(rng: &mut Rng, op: &Op, it: &str) -> String {
    let section = format!("{}.do", op.section());
    match op {
        Op::Convert(unit) => say_units(rng, *unit, "do", it),
        Op::Check(test) => {
            let is = say_test(rng, *test);
            say(rng, &section, None, &[("is", &is), ("it", it)])
        }
        Op::Label(test, yes, no) => {
            let is = say_test(rng, *test);
            let (yes, no) = (quoted(yes), quoted(no));
            say(rng, &section, None, &[("is", &is), ("it", it), ("yes", &yes), ("no", &no)])
        }
        _ => {
            let text = say(rng, &section, op.constant(), &[]);
            // "adds 3" for "adds 3 to it".
            if matches!(op, Op::Add(_) | Op::Sub(_)) && it == "it" && rng.coin() {
                return fill(text.trim_end_matches(" to {it}").trim_end_matches(" from {it}"), &[("it", it)]);
            }
            fill(&text, &[("it", it)])
        }
    }
}

/// "converts hours to minutes"; where the number has a name, "converts x hours to minutes".
fn say_units(rng: &mut Rng, unit: usize, form: &str, x: &str) -> String {
    let (from, to, _) = UNITS[unit % UNITS.len()];
    let named = !x.contains(' ') && x != "it";
    let section = format!("convert.{form}{}", if named { ".named" } else { "" });
    say(rng, &section, None, &[("from", from), ("to", to), ("x", x)])
}

/// The result of an operation as a noun phrase; `nested` where its input is one too.
fn op_thing(rng: &mut Rng, op: &Op, x: &str, nested: bool) -> String {
    match op {
        Op::Convert(unit) => say_units(rng, *unit, "top", x),
        Op::Check(test) => {
            let is = say_test(rng, *test);
            say(rng, "check.top", None, &[("is", &is), ("x", x)])
        }
        Op::Label(test, yes, no) => {
            let is = say_test(rng, *test);
            let (yes, no) = (quoted(yes), quoted(no));
            say(rng, "label.top", None, &[("is", &is), ("x", x), ("yes", &yes), ("no", &no)])
        }
        _ => {
            let form = if nested || rng.coin() { "np" } else { "top" };
            say(rng, &format!("{}.{form}", op.section()), op.constant(), &[("x", x)])
        }
    }
}

/// A noun phrase that ends where it seems to end: "the sum of x and 3", not "3 more than x".
fn closed(rng: &mut Rng, op: &Op, x: &str) -> Option<String> {
    if matches!(op, Op::Div(_)) {
        return None;
    }
    let clear =
        |text: &String| ["the ", "twice ", "three times ", "two times "].iter().any(|s| text.starts_with(s));
    (0..8).map(|_| say(rng, &format!("{}.np", op.section()), op.constant(), &[("x", x)])).find(clear)
}

fn say_join(rng: &mut Rng, join: Join, count: usize, object: &Object, form: &str) -> String {
    let (them, names) = match object {
        Object::Params(params) => (enumerate(params), params.clone()),
        _ => {
            let them = match (object, count) {
                (Object::Known, _) => (*rng.pick(&["them", "the two", "both"])).to_string(),
                (_, 2) => (*rng.pick(&["two numbers", "two numbers", "two integers", "its two arguments"]))
                    .to_string(),
                _ => (*rng.pick(&["three numbers", "three integers"])).to_string(),
            };
            let them = if count == 3 && matches!(object, Object::Known) { "them".to_string() } else { them };
            (them, vec!["the first number".to_string(), "the second number".to_string()])
        }
    };
    let written = |sign: &str, word: &str, rng: &mut Rng| {
        names.join(&if rng.coin() { format!(" {sign} ") } else { format!(" {word} ") })
    };
    let (sum, difference, product) =
        (written("+", "plus", rng), written("-", "minus", rng), written("*", "times", rng));
    let second = names.get(1).map_or("", String::as_str);
    let slots = [
        ("them", them.as_str()),
        ("a", names[0].as_str()),
        ("b", second),
        ("ab+", &sum),
        ("ab-", &difference),
        ("ab*", &product),
    ];
    let text = PHRASES.draw(rng, Wording::Usual, &format!("{}.{form}", join.section()));
    let text = if count > 2 { superlative(&text) } else { text };
    fill(&text, &slots)
}

/// "checks if all numbers in a list are even".
fn say_asks(rng: &mut Rng, ask: Ask, test: Test, form: &str, list: &str) -> String {
    let is = say_test(rng, test);
    let (section, is) = match ask {
        Ask::Any => ("any", is),
        Ask::All => ("all", is),
    };
    say(rng, &format!("asks.{section}.{form}"), None, &[("is", &is), ("list", list)])
}

fn say_words(rng: &mut Rng, step: &WordStep, form: &str, list: &str) -> String {
    let piece = step.piece().map_or(String::new(), quoted);
    let text = say(rng, &format!("{}.{form}", step.section()), step.constant(), &[("list", list)]);
    fill(&text, &[("q", &piece)])
}

fn say_two(rng: &mut Rng, two: Two, form: &str, object: &Object) -> String {
    match object {
        Object::Params(params) => {
            let slots = [("a", params[0].as_str()), ("b", params[1].as_str())];
            say(rng, &format!("{}.{form}", two.section()), None, &slots)
        }
        _ => say(rng, &format!("{}.new", two.section()), None, &[]),
    }
}

fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}
