//! What the stories promise.

use std::collections::HashSet;

use super::super::lexicon::{fresh_names, fresh_nouns};
use super::super::{Problem, Split, problems};
use super::*;

fn draw(split: Split, seed: u64, count: usize) -> Vec<Problem> {
    problems(&Arith, split, seed).take(count).collect()
}

/// A prompt without its names, nouns and numbers: what is left is its pattern.
fn skeleton(prompt: &str) -> String {
    let common: HashSet<&str> = include_str!("../lexicon/common.txt").split_whitespace().collect();
    let word = |word: &str| {
        let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
        match bare {
            _ if bare.chars().all(|c| c.is_ascii_digit()) && !bare.is_empty() => word.replace(bare, "N"),
            _ if common.contains(bare.to_lowercase().as_str()) => word.to_owned(),
            _ => "_".to_owned(),
        }
    };
    prompt.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}

#[test]
fn every_split_has_answers_its_checker_accepts() {
    for split in [Split::Train, Split::Validation, Split::Test, Split::Fresh] {
        for problem in draw(split, 3, 2000) {
            let score = Arith.score(&problem, &problem.response);
            assert!(score.correct && score.strict == Some(true), "{}\n{}", problem.prompt, problem.response);
        }
    }
}

#[test]
fn fresh_words_are_never_in_training() {
    let fresh: HashSet<&str> = fresh_names().chain(fresh_nouns()).collect();
    let seen = |problem: &Problem| {
        problem.prompt.split(|c: char| !c.is_alphanumeric() && c != '-').any(|word| fresh.contains(word))
    };
    let train = draw(Split::Train, 5, 20_000);
    if let Some(problem) = train.iter().find(|problem| seen(problem)) {
        panic!("{}", problem.prompt);
    }
    // Many problems told whole name nobody.
    let named = |problem: &Problem| !["arith/bare", "arith/told"].contains(&problem.kind.as_str());
    let told = draw(Split::Fresh, 5, 1000).into_iter().filter(named);
    let (with, all) = told.fold((0, 0), |(with, all), problem| (with + usize::from(seen(&problem)), all + 1));
    assert!(with * 10 > all * 8, "{with} of {all} fresh problems have a fresh word");
}

#[test]
fn prompts_are_many_and_of_many_patterns() {
    let problems = draw(Split::Train, 6, 5000);
    let prompts: HashSet<&str> = problems.iter().map(|problem| problem.prompt.as_str()).collect();
    let skeletons: HashSet<String> = prompts.iter().map(|prompt| skeleton(prompt)).collect();
    assert!(prompts.len() > 4850, "{} prompts", prompts.len());
    assert!(skeletons.len() > 3500, "{} patterns", skeletons.len());
    let fresh: HashSet<String> = draw(Split::Fresh, 6, 1000).iter().map(|p| skeleton(&p.prompt)).collect();
    assert!(fresh.difference(&skeletons).count() > 600);
}

#[test]
fn prompts_and_numbers_stay_within_bounds() {
    for problem in draw(Split::Train, 7, 20_000) {
        let words = problem.prompt.split_whitespace().count();
        assert!(words <= 110, "{words}: {}", problem.prompt);
        let Facts::Arith(story) = &problem.facts else { panic!("not a story") };
        let mut total = story.first;
        for step in &story.steps {
            total = step.op.apply(total, step.by).expect("small numbers");
            assert!((0..=199).contains(&total), "{}", problem.key);
        }
        assert!(story.numbers().iter().all(|number| (1..=196).contains(number)), "{}", problem.key);
        assert!(story.equations() <= 6, "{}", problem.key);
        for leftover in ['{', '}', '*'] {
            let sum = leftover == '*' && ["arith/bare", "arith/told"].contains(&problem.kind.as_str());
            assert!(sum || !problem.prompt.contains(leftover), "{}", problem.prompt);
        }
        assert!(
            !problem.prompt.contains(" the the ") && !problem.prompt.replace("...", "").contains(".."),
            "{}",
            problem.prompt
        );
    }
}

/// Every number of the story is in the prompt, in digits or in words: nothing was left out of the telling.
#[test]
fn every_number_of_a_story_is_told() {
    use super::super::lexicon::in_words;
    for problem in draw(Split::Train, 8, 20_000) {
        let Facts::Arith(story) = &problem.facts else { panic!("not a story") };
        let text = problem.prompt.to_lowercase();
        let mut words: Vec<&str> = text.split(|c: char| !c.is_alphanumeric() && c != '-').collect();
        words.extend(text.split(|c: char| !c.is_alphanumeric()));
        words.extend(text.split(|c: char| !c.is_ascii_digit()));
        for n in story.numbers() {
            let told = words.contains(&n.to_string().as_str())
                || text.contains(&in_words(n))
                || words.contains(&"another")
                || (text.contains("dozen") && (n == 12 || n == 6))
                // "twice", "a third", "one more", "a week", the legs of a spider, an hour.
                || (["arith/told", "arith/bare"].contains(&problem.kind.as_str()) && (1..=12).contains(&n))
                || (problem.kind == "arith/told" && [20, 24, 60].contains(&n))
                || (text.contains("hundred") && n == 100);
            assert!(told, "{n} of {} is not in {}", problem.key, problem.prompt);
        }
    }
}
