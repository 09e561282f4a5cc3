//! What the `lines` task promises.

use std::collections::HashSet;

use super::super::lexicon::{fresh_names, fresh_nouns};
use super::super::{Split, problems};
use super::*;

fn given(list: &[&str], expected: &[&str], wanted: Wanted) -> Problem {
    let own = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
    let queue = Queue {
        given: own(list),
        expected: own(expected),
        wanted,
        asked: own(&["Zoe"]),
        wordings: vec!["{l}".into(), "Line: {l}.".into()],
    };
    problem(&mut Rng::new(1), String::new(), "", String::new(), queue)
}

#[test]
fn order_is_judged_only_where_it_matters() {
    let names = ["Amy", "Bob", "Cal"];
    let kept = given(&names, &names, Wanted::Order);
    let free = given(&["Amy", "Cal", "Bob"], &names, Wanted::Shuffle);
    for (text, in_order, shuffled) in [
        ("The line is Amy, Bob, Cal.", true, true),
        ("The line is now Amy, Bob and Cal.", true, true),
        ("Names:\n1. Amy\n2. Bob\n3. Cal", true, true),
        ("[\"Amy\", \"Bob\", \"Cal\"]", true, true),
        ("Here it is: Cal, Bob, Amy.", false, true),
        ("Amy, Bob, Cal", true, true),
        ("amy; bob; cal", true, true),
        ("Amy, Cal, Bob", false, false),
        ("The line is Amy, Bob, Bob.", false, false),
        ("The line is Amy, Bob.", false, false),
        ("The line is Amy, Bob, Cal, Dan.", false, false),
        ("The line is Amy, Bob, Cal, Cal.", false, false),
        ("", false, false),
    ] {
        assert_eq!(Lines.score(&kept, text).correct, in_order, "{text}");
        assert_eq!(Lines.score(&free, text).correct, shuffled, "{text}");
    }
    assert_eq!(Lines.score(&kept, "Amy, Bob, Cal").strict, Some(true));
    assert_eq!(Lines.score(&kept, "Amy,Bob, Cal").strict, Some(false));
}

#[test]
fn one_member_is_one_member_and_a_count_one_number() {
    let one = given(&["Amy", "Zoe", "Cal"], &["Cal"], Wanted::One);
    for (text, right) in [
        ("Cal", true),
        ("Cal is after Zoe.", true),
        ("Amy", false),
        ("Cal or Amy", false),
        ("", false),
        ("Cal 7", false),
    ] {
        assert_eq!(Lines.score(&one, text).correct, right, "{text}");
    }
    let count = given(&["Amy", "Zoe", "Cal"], &["3"], Wanted::Count);
    for (text, right) in [("3", true), ("There are 3 names.", true), ("1 2 3", false), ("13", false)] {
        assert_eq!(Lines.score(&count, text).correct, right, "{text}");
    }
}

#[test]
fn prompts_are_whole_and_name_every_item() {
    for split in [Split::Train, Split::Fresh] {
        for problem in problems(&Lines, split, 3).take(5000) {
            assert!(!problem.prompt.contains(['{', '}', '<']), "{}", problem.prompt);
            assert!(problem.prompt.split_whitespace().count() <= 60, "{}", problem.prompt);
            assert!(!problem.prompt.contains(" ,") && !problem.prompt.contains(".."), "{}", problem.prompt);
            let Facts::Lines(queue) = &problem.facts else { panic!("not a lines problem") };
            assert!((2..=8).contains(&queue.given.len()));
            let unique: HashSet<&String> = queue.given.iter().collect();
            assert_eq!(unique.len(), queue.given.len(), "{}", problem.prompt);
            for item in queue.given.iter().chain(&queue.expected).filter(|_| queue.wanted != Wanted::Count) {
                // An untidy prompt may have two spaces within an item of two words.
                let told = problem.prompt.replace("  ", " ").to_lowercase().contains(&item.to_lowercase());
                assert!(told, "{item} is not in {}", problem.prompt);
            }
        }
    }
}

#[test]
fn prompts_vary_and_keep_fresh_words_for_the_fresh_split() {
    let fresh: HashSet<&str> = fresh_names().chain(fresh_nouns()).collect();
    let mut shapes: HashSet<String> = HashSet::new();
    for (number, problem) in problems(&Lines, Split::Train, 5).take(20_000).enumerate() {
        let Facts::Lines(queue) = &problem.facts else { panic!("not a lines problem") };
        assert!(!words(&problem.prompt).any(|word| fresh.contains(word)), "{}", problem.prompt);
        if number < 5000 {
            let mut shape = problem.prompt.clone();
            for item in queue.given.iter().chain(&queue.expected) {
                shape = shape.replace(item.as_str(), "*");
            }
            shapes.insert(shape);
        }
    }
    assert!(shapes.len() > 3500, "only {} shapes of prompts in 5000", shapes.len());
    let shown = problems(&Lines, Split::Fresh, 5).take(500);
    let with = shown.filter(|problem| words(&problem.prompt).any(|word| fresh.contains(word))).count();
    assert!(with > 350, "{with}");
}

#[test]
fn a_list_to_be_sorted_mostly_differs_in_its_first_letters() {
    let initial = |item: &String| item.to_lowercase().chars().next();
    let sorted: Vec<Problem> =
        problems(&Lines, Split::Train, 6).filter(|problem| problem.kind == "lines/sort").take(2000).collect();
    let plain = sorted.iter().filter(|problem| {
        let Facts::Lines(queue) = &problem.facts else { return false };
        queue.given.iter().map(initial).collect::<HashSet<_>>().len() == queue.given.len()
    });
    let plain = plain.count();
    assert!((1400..1950).contains(&plain), "{plain}");
}

#[test]
fn a_name_changed_for_another_is_wrong() {
    for problem in problems(&Lines, Split::Train, 8).take(3000) {
        let Facts::Lines(queue) = &problem.facts else { panic!("not a lines problem") };
        let mut wrong = queue.expected.clone();
        let last = wrong.len() - 1;
        wrong[last] = if last > 0 { wrong[0].clone() } else { "Nobody".into() };
        let text = fill(&queue.wordings[queue.wordings.len() - 1], &[("l", &wrong.join(", "))]);
        assert!(!Lines.score(&problem, &text).correct, "{}\n{text}", problem.prompt);
    }
}

#[test]
fn what_comes_back_is_what_was_ordered() {
    let by_value = |item: &String| (item.parse::<i64>().unwrap_or(0), item.to_lowercase());
    for problem in problems(&Lines, Split::Train, 13).take(5000) {
        let Facts::Lines(queue) = &problem.facts else { panic!("not a lines problem") };
        let (given, back) = (&queue.given, &queue.expected);
        let right = match problem.kind.as_str() {
            "lines/copy" => back == given,
            "lines/reverse" => back.iter().rev().eq(given),
            "lines/sort" => {
                let up = back.is_sorted_by_key(by_value);
                let down = back.iter().rev().is_sorted_by_key(by_value);
                let asked_down = problem.key.ends_with(":descend");
                back.len() == given.len() && if asked_down { down } else { up }
            }
            "lines/remove" => back.len() < given.len() && back.iter().all(|item| given.contains(item)),
            "lines/add" => back[1..] == given[..] || back[..given.len()] == given[..],
            "lines/insert" => {
                let old: Vec<&String> = back.iter().filter(|item| given.contains(item)).collect();
                back.len() == given.len() + 1 && old.into_iter().eq(given)
            }
            "lines/replace" => back.iter().zip(given).filter(|(new, old)| new != old).count() == 1,
            "lines/swap" => back.iter().zip(given).filter(|(new, old)| new != old).count() == 2,
            "lines/count" => back[0] == given.len().to_string(),
            "lines/pick" => given.contains(&back[0]),
            _ => true,
        };
        assert!(right, "{}\n{}", problem.prompt, problem.response);
    }
}
