//! Pure look-ups: which label an option has, and which option a label. What the other questions need after their finding.

use super::super::Rng;
use super::super::book::fill;
use super::super::lexicon::{self, NounKind, Wording, capital};
use super::draw::ask;
use super::layout::{self, Stem};
use super::{Problem, Question, problem};

/// The label of every option, in any order: as many look-ups as there are options in one answer.
pub(super) fn every(rng: &mut Rng, wording: Wording, count: usize) -> Problem {
    let (options, labels) = options(rng, wording, count);
    let stem = ask(rng, wording, "label of each", &[]);
    let mut order: Vec<usize> = (0..count).collect();
    rng.shuffle(&mut order);
    let wordings = [
        ("{v}, which is {l}", "; ", "."),
        ("{V} is option {l}.", " ", ""),
        ("{v}. The answer is {l}.", "\n", ""),
    ]
    .map(|(pattern, between, end)| {
        let one = |&at: &usize| {
            fill(pattern, &[("v", &options[at]), ("V", &capital(&options[at])), ("l", &labels[at])])
        };
        order.iter().map(one).collect::<Vec<_>>().join(between) + end
    });
    // The checker reads the last label of a response.
    let answer = order.last().copied().unwrap_or(0);
    let question = Question { options, labels: labels.clone(), answer, wordings: wordings.into() };
    finish(rng, wording, &stem, &labels, question)
}

/// Numbers or words, and their labels.
fn options(rng: &mut Rng, wording: Wording, count: usize) -> (Vec<String>, Vec<String>) {
    let numeric = rng.below(3) > 0;
    let options: Vec<String> = if numeric {
        let pool: Vec<i64> = (0..=if rng.coin() { 40 } else { 120 }).collect();
        rng.sample(&pool, count).iter().map(ToString::to_string).collect()
    } else {
        words(rng, wording, count)
    };
    let labels = layout::labels(rng, count, numeric);
    (options, labels)
}

/// One look-up among `count` options.
pub(super) fn draw(rng: &mut Rng, wording: Wording, count: usize) -> Problem {
    let (options, labels) = options(rng, wording, count);
    let at = rng.below(count);
    let (text, label) = (&options[at], &labels[at]);
    // A small "a" that is asked about reads as a word.
    if rng.coin() && label != "a" && label != "i" {
        let stem = ask(rng, wording, "text of", &[("x", label)]);
        let wordings =
            vec![format!("Option {label} is {text}."), format!("The answer is {text}."), capital(text)];
        // What is wanted is the option's text: for the checker these options have no labels.
        let question = Question { options, labels: Vec::new(), answer: at, wordings };
        return finish(rng, wording, &stem, &labels, question);
    }
    let stem = ask(rng, wording, "label of", &[("v", text)]);
    let wordings = vec![
        format!("{} is option {label}.", capital(text)),
        format!("{} is option {label}.", capital(text)),
        format!("{} is {label}. The answer is {label}.", capital(text)),
    ];
    let question = Question { options, labels: labels.clone(), answer: at, wordings };
    finish(rng, wording, &stem, &labels, question)
}

fn finish(rng: &mut Rng, wording: Wording, stem: &Stem, labels: &[String], question: Question) -> Problem {
    let prompt = layout::prompt(rng, wording, stem, labels, &question.options);
    let labelled = !question.labels.is_empty();
    let key = format!("choice/lookup:{labelled}:{}:{}", question.options.join(","), question.answer);
    problem(rng, prompt, "choice/lookup", key, question)
}

/// Different names or things.
fn words(rng: &mut Rng, wording: Wording, count: usize) -> Vec<String> {
    if rng.coin() {
        return lexicon::names(rng, wording, count).into_iter().map(|name| name.text).collect();
    }
    let mut found: Vec<String> = Vec::new();
    while found.len() < count {
        let noun = lexicon::noun(rng, wording, &NounKind::ALL).one;
        if !found.contains(&noun) {
            found.push(noun);
        }
    }
    found
}
