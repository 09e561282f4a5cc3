//! A function of a list in English: "sums the squares of the even numbers in a list".

use super::super::list::{Fold, Pipeline};
use super::super::number::{Op, Test};
use super::{PHRASES, say};
use crate::task::Rng;

/// Its steps in their order; or one verb for the whole.
pub(super) fn list_steps(rng: &mut Rng, pipeline: &Pipeline, list: &str) -> Vec<String> {
    let Pipeline { keep, map, late, fold, then } = pipeline;
    if let (Some(fold), None, false) = (fold, then, late)
        && rng.coin()
    {
        return vec![fold_verb(rng, *fold, pipeline, list)];
    }
    let mut steps = Vec::new();
    if let (Some(op), true) = (map, late) {
        steps.push(say_map(rng, op, true, list));
    }
    if let Some(test) = keep {
        let those = if *late { those(rng, *test) } else { set(rng, Some(*test), list) };
        steps.push(say(rng, "keep.do", None, &[("set", &those)]));
    }
    if let (Some(op), false) = (map, late) {
        let first = steps.is_empty();
        steps.push(say_map(rng, op, first, list));
    }
    for fold in fold.iter().chain(then) {
        if steps.is_empty() {
            steps.push(fold_verb(rng, *fold, pipeline, list));
        } else {
            let kept = pipeline.then.is_some();
            let them =
                *rng.pick(if kept { &["it", "the result", "it"] } else { &["them", "them", "the results"] });
            let section = format!("whole.{}.do", fold.short());
            if kept && PHRASES.has(&section) {
                steps.push(say(rng, &section, fold.constant(), &[("list", them)]));
            } else {
                steps.push(say(rng, &format!("{}.do", fold.section()), fold.constant(), &[("them", them)]));
            }
        }
    }
    steps
}

fn say_map(rng: &mut Rng, op: &Op, first: bool, list: &str) -> String {
    const ALL: [&str; 7] = [
        "each number in",
        "every number in",
        "every element of",
        "each element of",
        "each item in",
        "all numbers in",
        "each number of",
    ];
    let each = if first {
        format!("{} {list}", rng.pick(&ALL))
    } else {
        (*rng.pick(&["each", "each of them", "each one", "every one of them"])).to_string()
    };
    say(rng, &format!("map.{}", op.section()), op.constant(), &[("each", &each)])
}

/// "sums the squares of the even numbers in a list".
fn fold_verb(rng: &mut Rng, fold: Fold, pipeline: &Pipeline, list: &str) -> String {
    if fold == Fold::Count && pipeline.keep.is_none() {
        return say(rng, "fold.length.do", None, &[("list", list)]);
    }
    let section = format!("whole.{}.do", fold.short());
    if is_whole(pipeline) && PHRASES.has(&section) {
        return say(rng, &section, fold.constant(), &[("list", list)]);
    }
    let set = mapped(rng, pipeline, list).replacen("only the", "the", 1);
    say(rng, &format!("{}.do", fold.section()), fold.constant(), &[("them", &set)])
}

/// "the sum of the squares of the even numbers in a list", where it can be said in one.
pub(super) fn list_thing(rng: &mut Rng, pipeline: &Pipeline, list: &str) -> Option<String> {
    if pipeline.late || pipeline.then.is_some() {
        return None;
    }
    let Some(fold) = pipeline.fold else { return Some(mapped(rng, pipeline, list)) };
    if fold == Fold::Count && pipeline.keep.is_none() {
        return Some(say(rng, "fold.length.np", None, &[("list", list)]));
    }
    let section = format!("whole.{}.np", fold.short());
    if is_whole(pipeline) && PHRASES.has(&section) {
        return Some(say(rng, &section, fold.constant(), &[("list", list)]));
    }
    let section = format!("kept.{}", fold.short());
    if let (Some(which), true, true) = (kind(pipeline), PHRASES.has(&section), rng.coin()) {
        return Some(say(rng, &section, None, &[("which", which), ("list", list)]));
    }
    let set = mapped(rng, pipeline, list).replacen("only the", "the", 1);
    let bare =
        set.trim_start_matches("only ").trim_start_matches("all ").trim_start_matches("the ").to_string();
    Some(say(rng, &format!("{}.np", fold.section()), fold.constant(), &[("set", &set), ("bare", &bare)]))
}

fn is_whole(pipeline: &Pipeline) -> bool {
    pipeline.keep.is_none() && pipeline.map.is_none()
}

/// What one of the kept numbers is called, where there is a word for it and nothing is done to them.
fn kind(pipeline: &Pipeline) -> Option<&'static str> {
    match (pipeline.keep, &pipeline.map) {
        (Some(Test::Even), None) => Some("even number"),
        (Some(Test::Odd), None) => Some("odd number"),
        (Some(Test::Positive), None) => Some("positive number"),
        (Some(Test::Negative), None) => Some("negative number"),
        _ => None,
    }
}

/// "the squares of the even numbers in a list".
fn mapped(rng: &mut Rng, pipeline: &Pipeline, list: &str) -> String {
    let set = if is_whole(pipeline) { list.to_string() } else { set(rng, pipeline.keep, list) };
    match &pipeline.map {
        Some(op) => say(rng, &format!("mapped.{}", op.section()), op.constant(), &[("set", &set)]),
        None => set,
    }
}

/// "the even numbers in a list".
fn set(rng: &mut Rng, keep: Option<Test>, list: &str) -> String {
    let which = match keep {
        Some(test) => say(rng, &format!("set.{}", test.section()), test.constant(), &[]),
        None => (*rng.pick(&["numbers", "numbers", "elements", "items"])).to_string(),
    };
    let all = *rng.pick(&["the", "the", "all", "all the", "only the"]);
    let all = if keep.is_none() && all == "only the" { "the" } else { all };
    match rng.below(6) {
        0 | 1 if list == "it" => format!("its {which}"),
        // What the list is called has been said: "and returns only the even ones".
        2 | 3 if keep.is_some() && ["it", "the list", "that list"].contains(&list) => {
            format!("{all} {which}")
        }
        4 => format!("{all} {which} of {list}"),
        5 => format!("{all} {which} from {list}"),
        _ => format!("{all} {which} in {list}"),
    }
}

/// "those that are even".
fn those(rng: &mut Rng, test: Test) -> String {
    let is = say(rng, &format!("{}.is", test.section()), test.constant(), &[]);
    let are = is.strip_prefix("is an ").or_else(|| is.strip_prefix("is a ")).map_or_else(
        || is.replacen("is ", "are ", 1).replacen("exceeds", "exceed", 1).replacen("equals", "equal", 1),
        |rest| format!("are {}", rest.replace("number", "numbers").replacen("multiple", "multiples", 1)),
    );
    let lead = *rng.pick(&["those that", "the ones that", "only those that", "the results that"]);
    format!("{lead} {are}")
}
