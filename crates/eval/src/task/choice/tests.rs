//! What the `choice` task promises.

use std::collections::HashSet;

use super::super::lexicon::{fresh_names, fresh_nouns};
use super::super::{Split, problems};
use super::*;

fn asked(options: &[&str], labels: &[&str], answer: usize) -> Problem {
    let own = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
    let question = Question {
        options: own(options),
        labels: own(labels),
        answer,
        wordings: vec!["So it stays.".into()],
    };
    problem(&mut Rng::new(1), String::new(), "", String::new(), question)
}

#[test]
fn a_label_is_read_after_the_last_word_that_announces_one() {
    let upper = asked(&["plum", "apple", "19", "an owl"], &["A", "B", "C", "D"], 1);
    for (text, expected) in [
        ("Plum is a fruit, so the answer is (C).", Some("C")),
        ("the answer is B", Some("B")),
        ("The answer is b.", Some("B")),
        ("the answer is (A). no, the answer is (D)", Some("D")),
        ("12 + 7 = 19, which is C.", Some("C")),
        ("19 is option C.", Some("C")),
        ("12 + 7 = 19. Answer: C) 19", Some("C")),
        ("B) apple", Some("B")),
        ("(b)", Some("B")),
        ("the answer is (K)", None),
        ("the answer is Apple", None),
        ("the answer is a plum", None),
        ("the answer is", None),
        ("A plum it is", None),
        ("plum", None),
    ] {
        assert_eq!(Choice.score(&upper, text).extracted.as_deref(), expected, "{text}");
        assert_eq!(Choice.score(&upper, text).correct, expected == Some("B"), "{text}");
    }
}

#[test]
fn an_option_without_a_label_is_read_by_its_text() {
    let bare = asked(&["14", "41", "plum"], &[], 1);
    for (text, expected) in [
        ("41 is the larger one.", Some("41")),
        ("The larger number is 41.", Some("41")),
        ("14 + 27 = 41.", Some("41")),
        ("14 is small, so the answer is 41.", Some("41")),
        ("141", None),
        ("Plum", Some("plum")),
        ("", None),
    ] {
        assert_eq!(Choice.score(&bare, text).extracted.as_deref(), expected, "{text}");
    }
}

#[test]
fn options_differ_and_stand_in_the_prompt() {
    for split in [Split::Train, Split::Fresh] {
        for problem in problems(&Choice, split, 5).take(5000) {
            let Facts::Choice(question) = &problem.facts else { panic!("not a choice problem") };
            let unique: HashSet<_> = question.options.iter().collect();
            assert_eq!(unique.len(), question.options.len(), "{}", problem.prompt);
            assert!((2..=10).contains(&unique.len()), "{}", problem.prompt);
            assert!(
                !problem.prompt.contains(['{', '}']) && !problem.response.contains('{'),
                "{}",
                problem.prompt
            );
            assert!(!problem.prompt.contains("  ") || problem.prompt.len() < 600, "{}", problem.prompt);
            assert!(problem.prompt.split_whitespace().count() <= 90, "{}", problem.prompt);
            if problem.kind != "choice/yes" {
                assert!(
                    question.options.iter().all(|option| problem.prompt.contains(option.as_str())),
                    "{}",
                    problem.prompt
                );
            }
        }
    }
}

#[test]
fn every_other_label_or_option_is_wrong() {
    for problem in problems(&Choice, Split::Train, 7).take(3000) {
        let Facts::Choice(question) = &problem.facts else { panic!("not a choice problem") };
        let names = if question.labels.is_empty() { &question.options } else { &question.labels };
        for (at, name) in names.iter().enumerate() {
            let score = Choice.score(&problem, &format!("The answer is {name}."));
            assert_eq!(score.correct, at == question.answer, "{}\n{name}", problem.prompt);
        }
    }
}

#[test]
fn prompts_vary_and_keep_fresh_words_for_the_fresh_split() {
    let fresh: HashSet<&str> = fresh_names().chain(fresh_nouns()).collect();
    let words = |text: &str| -> Vec<String> {
        text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(String::from).collect()
    };
    let mut shapes: HashSet<String> = HashSet::new();
    for (number, problem) in problems(&Choice, Split::Train, 6).take(20_000).enumerate() {
        assert!(
            !words(&problem.prompt).iter().any(|word| fresh.contains(word.as_str())),
            "{}",
            problem.prompt
        );
        if number < 5000 {
            let Facts::Choice(question) = &problem.facts else { panic!("not a choice problem") };
            let mut shape = problem.prompt.clone();
            for option in &question.options {
                shape = shape.replace(option.as_str(), "*");
            }
            shapes.insert(shape.chars().map(|c| if c.is_ascii_digit() { '9' } else { c }).collect());
        }
    }
    assert!(shapes.len() > 3500, "only {} shapes of prompts in 5000", shapes.len());
}

#[test]
fn a_finding_that_is_a_number_is_true() {
    for problem in problems(&Choice, Split::Test, 9)
        .filter(|p| p.kind == "choice/sum" || p.kind == "choice/story")
        .take(2000)
    {
        for part in problem.response.split([',', '.']).filter(|part| part.contains('=')) {
            for equation in part.split(" and ") {
                let parts: Vec<&str> = equation.split_whitespace().collect();
                let [left, sign, right, "=", result] = parts[..] else { panic!("{}", problem.response) };
                let number = |text: &str| text.parse::<i64>().expect("a number");
                let value = match sign {
                    "+" => number(left) + number(right),
                    "-" => number(left) - number(right),
                    _ => number(left) * number(right),
                };
                assert_eq!(value, number(result), "{}\n{}", problem.prompt, problem.response);
            }
        }
    }
}

/// Whether a number has the property a response states of the right one; nothing where it states none of these.
fn holds(response: &str, number: i64, all: &[i64]) -> Option<bool> {
    let after = |mark: &str| -> Option<i64> {
        let rest = response.split_once(mark)?.1;
        rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    };
    if response.contains("the largest") || response.contains("The largest") {
        return Some(all.iter().all(|&other| other <= number));
    }
    if response.contains("the smallest") || response.contains("The smallest") {
        return Some(all.iter().all(|&other| other >= number));
    }
    None.or_else(|| after(" is divisible by ").map(|of| number % of == 0))
        .or_else(|| after(" is not divisible by ").map(|of| number % of != 0))
        .or_else(|| response.contains(" is even").then_some(number % 2 == 0))
        .or_else(|| response.contains(" is odd").then_some(number % 2 == 1))
        .or_else(|| after(" > ").or_else(|| after(" larger than ")).map(|bound| number > bound))
        .or_else(|| after(" < ").or_else(|| after(" smaller than ")).map(|bound| number < bound))
}

#[test]
fn a_property_of_numbers_is_the_right_options_alone() {
    let wanted = ["choice/bound", "choice/extreme", "choice/multiple"];
    let mut checked = 0;
    for problem in
        problems(&Choice, Split::Train, 12).filter(|p| wanted.contains(&p.kind.as_str())).take(3000)
    {
        let Facts::Choice(question) = &problem.facts else { panic!("not a choice problem") };
        let numbers: Vec<i64> =
            question.options.iter().map(|option| option.parse().expect("a number")).collect();
        for (at, &number) in numbers.iter().enumerate() {
            let Some(has) = holds(&problem.response, number, &numbers) else { continue };
            assert_eq!(has, at == question.answer, "{}\n{}", problem.prompt, problem.response);
            checked += 1;
        }
    }
    assert!(checked > 5000, "{checked}");
}
