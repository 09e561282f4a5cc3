//! What every task promises.

use std::collections::{HashMap, HashSet};

use super::*;

#[test]
fn a_seed_fixes_the_stream_and_an_index_its_item() {
    for task in all() {
        let first: Vec<Problem> = problems(task.as_ref(), Split::Train, 7).take(50).collect();
        let again: Vec<Problem> = problems(task.as_ref(), Split::Train, 7).take(50).collect();
        assert_eq!(first, again);
        assert_eq!(problems(task.as_ref(), Split::Train, 7).nth(31).as_ref(), Some(&first[31]));
        assert_ne!(first[0], problem_at(task.as_ref(), Split::Train, 8, 0));
    }
    let mixed: Vec<Problem> = mixture(&[], Split::Train, 3).take(60).collect();
    assert_eq!(mixture(&[], Split::Train, 3).nth(40).as_ref(), Some(&mixed[40]));
}

#[test]
fn a_mixture_follows_its_weights() {
    let weights = [("arith", 2.0), ("choice", 0.0)];
    let mut counts: HashMap<String, usize> = HashMap::new();
    for problem in mixture(&weights, Split::Train, 5).take(5000) {
        *counts.entry(problem.task).or_default() += 1;
    }
    assert!((1550..1800).contains(&counts["arith"]), "{counts:?}");
    assert!((740..930).contains(&counts["lines"]), "{counts:?}");
    assert!(!counts.contains_key("choice"));
    assert_eq!(
        mixture(&all().iter().map(|task| (task.name(), 0.0)).collect::<Vec<_>>(), Split::Train, 1).next(),
        None
    );
}

#[test]
fn no_held_out_problem_is_in_training() {
    for task in all() {
        let keys = |split, count| -> HashSet<String> {
            problems(task.as_ref(), split, 1).take(count).map(|p| p.key).collect()
        };
        let (train, validation, test) =
            (keys(Split::Train, 20_000), keys(Split::Validation, 2000), keys(Split::Test, 2000));
        assert!(train.is_disjoint(&test) && train.is_disjoint(&validation) && test.is_disjoint(&validation));
        assert!(train.len() > 2000, "{}: only {} training problems", task.name(), train.len());
    }
}

#[test]
fn no_held_out_prompt_is_in_training() {
    for task in all() {
        let prompts = |split, count| -> HashSet<String> {
            problems(task.as_ref(), split, 2).take(count).map(|p| p.prompt).collect()
        };
        assert!(prompts(Split::Train, 20_000).is_disjoint(&prompts(Split::Test, 2000)), "{}", task.name());
    }
}

#[test]
fn splits_have_their_share() {
    let mut counts: HashMap<Split, usize> = HashMap::new();
    for number in 0..32_000 {
        *counts.entry(Split::of("any", &number.to_string())).or_default() += 1;
    }
    assert!((1850..2150).contains(&counts[&Split::Test]), "{counts:?}");
    assert!((900..1100).contains(&counts[&Split::Validation]), "{counts:?}");
}

#[test]
fn the_test_set_is_fixed_and_has_no_problem_twice() {
    for task in all() {
        let set = test_set(task.as_ref(), 500);
        assert_eq!(set.len(), 500);
        assert_eq!(set[..100], test_set(task.as_ref(), 100)[..]);
        assert_eq!(set.iter().map(|problem| &problem.key).collect::<HashSet<_>>().len(), 500);
        assert!(set.iter().all(|problem| Split::of(task.name(), &problem.key) == Split::Test));
        let kinds: HashSet<&str> = set.iter().map(|problem| problem.kind.as_str()).collect();
        assert_eq!(kinds.len(), task.kinds().len(), "{kinds:?}");
        assert_eq!(validation_set(task.as_ref(), 200).len(), 200);
    }
}

#[test]
fn the_reference_answer_is_right_in_every_kind() {
    for task in all() {
        let mut left: HashMap<&str, usize> = task.kinds().iter().map(|kind| (*kind, 2000)).collect();
        for problem in problems(task.as_ref(), Split::Train, 4) {
            let Some(count) = left.get_mut(problem.kind.as_str()) else {
                panic!("unknown kind {}", problem.kind)
            };
            *count = count.saturating_sub(1);
            let score = task.score(&problem, &problem.response);
            assert!(score.correct && score.strict != Some(false), "{problem:#?}");
            if left.values().all(|count| *count == 0) {
                break;
            }
        }
    }
}

#[test]
fn a_problem_survives_serialisation() {
    for task in all() {
        for problem in problems(task.as_ref(), Split::Test, 6).take(200) {
            let text = serde_json::to_string(&problem).expect("a problem is plain data");
            assert_eq!(serde_json::from_str::<Problem>(&text).expect("it was just written"), problem);
        }
    }
}

#[test]
fn a_corrupted_answer_is_wrong() {
    type Corruption = fn(&mut Rng, &str) -> Option<String>;
    let corruptions: [Corruption; 4] = [change_number, change_letter, drop_word, repeat_word];
    for task in all() {
        let mut rng = Rng::new(21);
        for problem in problems(task.as_ref(), Split::Train, 8).take(2000) {
            for corrupt in corruptions {
                let Some(text) = corrupt(&mut rng, &problem.response) else { continue };
                let score = task.score(&problem, &text);
                // A program or an open grid may be changed and still be right; a text judged strictly may not.
                assert_ne!(score.strict, Some(true), "{}\n{}\n{text}", problem.prompt, problem.response);
                let whole = matches!(problem.kind.as_str(), "grid/sudoku" | "grid/latin");
                assert!(!(score.correct && whole), "{}\n{text}", problem.prompt);
            }
        }
    }
}

#[test]
fn a_wrong_final_answer_is_wrong() {
    let task = by_name("arith").expect("there is such a task");
    let mut rng = Rng::new(23);
    for problem in problems(task.as_ref(), Split::Train, 8).take(2000) {
        // The conclusion is the last sentence.
        let at = problem.response.rfind(". ").expect("a conclusion follows the reasoning");
        let (reasoning, conclusion) = problem.response.split_at(at);
        let wrong = change_number(&mut rng, conclusion).expect("a conclusion names the answer");
        assert!(!task.score(&problem, &format!("{reasoning}{wrong}")).correct, "{reasoning}{wrong}");
    }
}

#[test]
fn a_problem_of_another_task_scores_wrong() {
    let tasks = all();
    for (at, task) in tasks.iter().enumerate() {
        let stranger = problem_at(tasks[(at + 1) % tasks.len()].as_ref(), Split::Test, 0, 0);
        assert!(!task.score(&stranger, &stranger.response).correct);
    }
}

#[test]
fn any_text_can_be_scored() {
    for task in all() {
        for problem in problems(task.as_ref(), Split::Test, 10).take(50) {
            for text in [
                "",
                " ",
                "\n",
                "é",
                "answer is",
                "answer is (",
                "-",
                "```",
                "```python",
                ":",
                " is ",
                "<|mask|>",
                "١٢",
                "4001 4002\n",
            ] {
                assert!(!task.score(&problem, text).correct, "{text:?} to {}", problem.prompt);
            }
        }
    }
}

fn words(text: &str) -> Vec<&str> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect()
}

/// Replaces one word of those `accept` picks by what `replace` gives.
fn swap(
    rng: &mut Rng,
    text: &str,
    accept: impl Fn(&str) -> bool,
    replace: impl Fn(&mut Rng, &str) -> String,
) -> Option<String> {
    let places: Vec<&str> = words(text).into_iter().filter(|word| accept(word)).collect();
    if places.is_empty() {
        return None;
    }
    let word = *rng.pick(&places);
    let at = word.as_ptr() as usize - text.as_ptr() as usize;
    Some(format!("{}{}{}", &text[..at], replace(rng, word), &text[at + word.len()..]))
}

fn change_number(rng: &mut Rng, text: &str) -> Option<String> {
    swap(
        rng,
        text,
        |word| word.parse::<i64>().is_ok(),
        |rng, word| (word.parse::<i64>().unwrap_or(0) + rng.between(1, 3)).to_string(),
    )
}

fn change_letter(rng: &mut Rng, text: &str) -> Option<String> {
    let is_letter = |word: &str| word.len() == 1 && word.as_bytes()[0].is_ascii_uppercase();
    swap(rng, text, is_letter, |_, word| {
        if word == "J" { "A".into() } else { char::from(word.as_bytes()[0] + 1).into() }
    })
}

fn drop_word(rng: &mut Rng, text: &str) -> Option<String> {
    swap(rng, text, |_| true, |_, _| String::new())
}

fn repeat_word(rng: &mut Rng, text: &str) -> Option<String> {
    swap(rng, text, |_| true, |_, word| format!("{word} {word}"))
}

#[test]
fn drills_are_right_answers_of_their_task_and_never_held_out() {
    let weights: Vec<(&str, f64)> = all().iter().map(|task| (task.name(), 0.0)).collect();
    let drilled: Vec<_> = all().into_iter().filter(|task| task.drill(&mut Rng::new(1)).is_some()).collect();
    assert!(!drilled.is_empty());
    for task in drilled {
        let name = drill_name(task.as_ref());
        let mut weights = weights.clone();
        weights.push((&name, 1.0));
        for problem in mixture(&weights, Split::Train, 7).take(300) {
            assert_eq!(
                (problem.task.as_str(), Split::of(task.name(), &problem.key)),
                (task.name(), Split::Train)
            );
            assert!(task.score(&problem, &problem.response).correct, "{}", problem.prompt);
        }
    }
}
