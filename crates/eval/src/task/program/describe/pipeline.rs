//! A function of a list in English: "sums the squares of the even numbers in a list".

use super::super::list::{Fold, Pipeline};
use super::super::number::Test;
use super::say;
use crate::task::Rng;

pub(super) fn list_steps(rng: &mut Rng, pipeline: &Pipeline, list: &str) -> Vec<String> {
    let Pipeline { keep, map, fold } = pipeline;
    let merged = fold.is_some() && rng.coin();
    if let (Some(fold), true) = (fold, merged) {
        return vec![fold_verb(rng, *fold, pipeline, list)];
    }
    let mut steps = Vec::new();
    if let Some(test) = keep {
        let set = set(rng, Some(*test), list);
        steps.push(say(rng, "keep.do", None, &[("set", &set)]));
    }
    if let Some(op) = map {
        let each = if steps.is_empty() {
            let of = *rng.pick(&[
                "each number in",
                "every number in",
                "every element of",
                "each element of",
                "each item in",
                "all numbers in",
            ]);
            format!("{of} {list}")
        } else {
            (*rng.pick(&["each", "each of them", "each one", "every one of them"])).to_string()
        };
        steps.push(say(rng, &format!("map.{}", op.section()), op.constant(), &[("each", &each)]));
    }
    if let Some(fold) = fold {
        if steps.is_empty() {
            steps.push(fold_verb(rng, *fold, pipeline, list));
        } else {
            let them = *rng.pick(&["them", "them", "the results"]);
            steps.push(say(rng, &format!("{}.do", fold.section()), fold.constant(), &[("them", them)]));
        }
    }
    steps
}

/// "sums the squares of the even numbers in a list".
fn fold_verb(rng: &mut Rng, fold: Fold, pipeline: &Pipeline, list: &str) -> String {
    if fold == Fold::Count && pipeline.keep.is_none() {
        return say(rng, "fold.length.do", None, &[("list", list)]);
    }
    let set = mapped(rng, pipeline, list, fold);
    say(rng, &format!("{}.do", fold.section()), fold.constant(), &[("them", &set)])
}

pub(super) fn list_thing(rng: &mut Rng, pipeline: &Pipeline, list: &str) -> String {
    match pipeline.fold {
        None => mapped(rng, pipeline, list, Fold::Sort),
        Some(Fold::Count) if pipeline.keep.is_none() => say(rng, "fold.length.np", None, &[("list", list)]),
        Some(fold) => {
            let set = mapped(rng, pipeline, list, fold);
            let bare = set.trim_start_matches("the ").trim_start_matches("all ").replacen("of the ", "", 1);
            let bare = bare.as_str();
            say(rng, &format!("{}.np", fold.section()), fold.constant(), &[("set", &set), ("bare", bare)])
        }
    }
}

/// "the squares of the even numbers in a list".
fn mapped(rng: &mut Rng, pipeline: &Pipeline, list: &str, fold: Fold) -> String {
    let whole = pipeline.keep.is_none() && pipeline.map.is_none();
    // A list itself can be sorted or turned; its numbers are summed or compared.
    let set = if whole && (fold.gives_list() || rng.coin()) {
        list.to_string()
    } else {
        set(rng, pipeline.keep, list)
    };
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
    let all = *rng.pick(&["the", "the", "all", "all the"]);
    match rng.below(6) {
        0 if list == "it" => format!("its {which}"),
        1 => format!("{all} {which} of {list}"),
        2 => format!("{all} {which} from {list}"),
        _ => format!("{all} {which} in {list}"),
    }
}
