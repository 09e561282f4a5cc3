//! What `open` accepts and refuses, and that its answers are broad.

use std::collections::{HashMap, HashSet};

use super::*;
use crate::task::{Split, problems};

fn of_kind(kind: &str, count: usize) -> Vec<Problem> {
    problems(&Open, Split::Train, 3).filter(|problem| problem.kind == kind).take(count).collect()
}

#[test]
fn every_kind_has_patterns_of_its_own_for_fresh_wording() {
    for section in [
        "sums",
        "results",
        "pairs",
        "rule",
        "count.free",
        "count.free.down",
        "count.from",
        "count.from.down",
        "order",
        "compare",
        "share",
        "letters",
        "list",
        "shuffle",
        "records",
        "square",
    ] {
        assert!(PATTERNS.fresh_share(section) > 0.0, "{section}");
    }
}

#[test]
fn any_other_answer_drawn_is_right_too() {
    let mut rng = Rng::new(5);
    for problem in problems(&Open, Split::Test, 1).take(2000) {
        let Facts::Open(wish) = &problem.facts else { panic!("not open") };
        for layout in [Layout::Lines, Layout::Commas] {
            let parts = wish.demand.answer(&mut rng, Wording::Usual);
            let text = if wish.demand.has_parts() { layout.set(&parts) } else { parts.join("\n") };
            let right = wish.layout.is_none_or(|asked| asked == layout || !wish.demand.has_parts());
            assert_eq!(Open.score(&problem, &text).correct, right, "{}\n{text}", problem.prompt);
        }
    }
}

#[test]
fn a_part_twice_or_left_out_is_wrong() {
    for problem in problems(&Open, Split::Train, 2).take(3000) {
        let parts: Vec<&str> = read::parts(&problem.response);
        let Facts::Open(wish) = &problem.facts else { panic!("not open") };
        if !wish.demand.has_parts() || parts.len() < 2 {
            continue;
        }
        let separator = if problem.response.contains('\n') { "\n" } else { ", " };
        let mut twice = parts.clone();
        twice[1] = twice[0];
        let fewer = &parts[1..];
        for text in [twice.join(separator), fewer.join(separator)] {
            assert!(!Open.score(&problem, &text).correct, "{}\n{text}", problem.prompt);
        }
    }
}

#[test]
fn what_does_not_follow_is_wrong() {
    let mut rng = Rng::new(6);
    for kind in
        ["open/sums", "open/results", "open/pairs", "open/rule", "open/share", "open/count", "open/records"]
    {
        for problem in of_kind(kind, 300) {
            let numbers: Vec<(usize, usize)> = digits(&problem.response);
            // An age or a price alone follows from nothing.
            let free = kind == "open/records" && !problem.key.contains("total");
            if numbers.is_empty() || free {
                continue;
            }
            let (from, to) = *rng.pick(&numbers);
            let number: i64 = problem.response[from..to].parse().unwrap_or(0);
            let text = format!("{}{}{}", &problem.response[..from], number + 1, &problem.response[to..]);
            assert!(!Open.score(&problem, &text).correct, "{}\n{text}", problem.prompt);
        }
    }
}

fn digits(text: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut start = None;
    for (at, byte) in text.bytes().chain([b' ']).enumerate() {
        match (byte.is_ascii_digit(), start) {
            (true, None) => start = Some(at),
            (false, Some(from)) => {
                found.push((from, at));
                start = None;
            }
            _ => {}
        }
    }
    found
}

#[test]
fn answers_are_spread_evenly() {
    // The sums of an answer, wherever they stand in it: none may be much likelier than another.
    let problem = of_kind("open/sums", 200)
        .into_iter()
        .find(|problem| problem.key.starts_with("open/sums:Plus:2:2:"))
        .expect("such a sum is drawn");
    let Facts::Open(wish) = &problem.facts else { panic!("not open") };
    let mut rng = Rng::new(7);
    let mut counts: HashMap<String, usize> = HashMap::new();
    for _ in 0..20_000 {
        for part in wish.demand.answer(&mut rng, Wording::Usual) {
            let mut numbers: Vec<&str> = part.split([' ', '+', '=']).filter(|n| !n.is_empty()).collect();
            numbers.sort_unstable();
            *counts.entry(numbers.join(" ")).or_default() += 1;
        }
    }
    let (least, most) =
        (counts.values().min().copied().unwrap_or(0), counts.values().max().copied().unwrap_or(0));
    assert!(most < 3 * least, "{counts:?}");
}

#[test]
fn variety_counts_what_is_valid_and_new() {
    let problem = of_kind("open/sums", 1).remove(0);
    let Facts::Open(wish) = &problem.facts else { panic!("not open") };
    let mut rng = Rng::new(8);
    let layout = wish.layout.unwrap_or(Layout::Lines);
    let mut answers: Vec<String> = Vec::new();
    while answers.iter().collect::<HashSet<_>>().len() < 2 {
        answers = (0..2).map(|_| layout.set(&wish.demand.answer(&mut rng, Wording::Usual))).collect();
    }
    let [first, second] = [answers[0].clone(), answers[1].clone()];
    let scores = [&*first, &second, &first, "no sums"].map(|answer| Open.score(&problem, answer));
    let found = Variety::of(scores.iter().map(|score| (score.correct, score.extracted.as_deref())));
    assert_eq!(found, Variety { answers: 4, valid: 3, distinct: 2 });
    assert_eq!(found.share(), Some(0.5));
    assert_eq!(Variety::of([]).share(), None);
}

#[test]
fn prompts_and_answers_are_short() {
    for problem in problems(&Open, Split::Train, 4).take(5000) {
        assert!(problem.prompt.split_whitespace().count() <= 110, "{}", problem.prompt);
        assert!(problem.response.len() <= 320, "{}", problem.response);
    }
}

#[test]
fn fresh_patterns_never_train_and_prompts_are_many() {
    let mut prompts: HashSet<String> = HashSet::new();
    for problem in problems(&Open, Split::Train, 11).take(20_000) {
        assert!(!PATTERNS.is_fresh(&problem.prompt), "{}", problem.prompt);
        if prompts.len() < 5000 {
            prompts.insert(skeleton(&problem.prompt));
        }
    }
    assert!(prompts.len() > 4000, "{} different prompts", prompts.len());
}

/// A prompt without its numbers.
fn skeleton(prompt: &str) -> String {
    prompt.chars().filter(|c| !c.is_ascii_digit()).collect()
}

#[test]
fn a_list_may_be_led_up_to_and_end_as_a_sentence() {
    for response in [
        "cyan, pink, red",
        "Here it is: cyan, pink, red.",
        "The new order is cyan, pink, red.",
        "cyan, pink and red",
        "cyan\npink\nred",
        "Line:\ncyan\npink\nred",
    ] {
        assert_eq!(read::listed(response), ["cyan", "pink", "red"], "{response}");
    }
    // What leads up to it is no licence for more words.
    assert_ne!(read::listed("cyan, the new order is pink, red"), ["cyan", "pink", "red"]);
}
