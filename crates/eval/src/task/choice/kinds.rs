//! What each of several words is: "crow: bird, plum: fruit". Half a dozen memberships in one answer, for drills; what the other
//! questions take for known.

use super::super::Rng;
use super::super::book::{expand, fill};
use super::super::lexicon::{self, Wording, categories};
use super::{Problem, Question, problem};

const ASKS: &str = "<What is each of these? {l}|Say what each one is: {l}|{l} - what are they?|Give the category of each: {l}|Name the kind of each word: {l}|{l}. What kind of thing is each?|Sort into kinds: {l}>";

/// One drill; the words are of different kinds, so that the last of them is told apart.
pub(super) fn draw(rng: &mut Rng) -> Problem {
    let count = 3 + rng.below(6);
    let mut drawn: Vec<(String, &str)> = Vec::new();
    while drawn.len() < count {
        // Every category alike here: the drill is for what the questions show seldom, too.
        let category =
            if rng.coin() { rng.pick(categories()) } else { lexicon::category(rng, Wording::Usual) };
        if drawn.iter().all(|(_, title)| *title != category.one()) {
            drawn.push((category.member(rng).to_owned(), category.one()));
        }
    }
    let words: Vec<&str> = drawn.iter().map(|(word, _)| word.as_str()).collect();
    let prompt = fill(&expand(rng, ASKS), &[("l", &words.join(", "))]);
    let told = |(word, title): &(String, &str)| format!("{word}: {title}");
    let between = if rng.coin() { ", " } else { "\n" };
    let answer = drawn.iter().map(told).collect::<Vec<_>>().join(between);
    // The checker reads the first option that a response names; it is the first word's kind.
    let options = drawn.iter().map(|(_, title)| (*title).to_owned()).collect();
    let question = Question { options, labels: Vec::new(), answer: 0, wordings: vec![answer] };
    let key = format!("choice/kinds:{}", words.join(","));
    problem(rng, prompt, "choice/kinds", key, question)
}
