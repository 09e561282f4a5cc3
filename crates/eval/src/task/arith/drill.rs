//! Many sums at once: what a chain of equations needs in every step and shows one at a time.

use super::super::book::{expand, fill};
use super::super::{Facts, Problem, Rng, Split};
use super::story::{Op, Step, Story, factors};

/// Greatest number of a sum.
const MOST: i64 = 99;

/// One drill: a list of sums and their results. The problem is the last of them; none is held out.
pub(super) fn draw(rng: &mut Rng, task: &str) -> Problem {
    let count = 4 + rng.below(9);
    let stories: Vec<Story> = (0..count).map(|_| train(rng, task)).collect();
    let equations: Vec<[String; 2]> = stories.iter().map(told).collect();
    let sums: Vec<&str> = equations.iter().map(|[sum, _]| sum.as_str()).collect();
    let pattern = expand(
        rng,
        "<<Work out|Calculate|Compute|Solve>: {l}|<Work these out|What are these|Results, please>: {l}|{l}|What are {l}?|Give the results of {l}.>",
    );
    let separator = *rng.pick(&[", ", ", ", "\n", "; "]);
    let prompt = fill(&pattern, &[("l", &sums.join(separator))]);
    let whole = rng.below(3) > 0;
    let results: Vec<String> = equations
        .iter()
        .map(|[sum, result]| if whole { format!("{sum} = {result}") } else { result.clone() })
        .collect();
    let response = results.join(if rng.coin() { ", " } else { "\n" });
    let story = stories.into_iter().next_back().expect("there are at least four");
    let key = story.key();
    Problem {
        task: task.into(),
        kind: "arith/drill".into(),
        prompt,
        response,
        key,
        facts: Facts::Arith(story),
    }
}

/// A sum that is not held out, or any product: one cannot be worked out, only known.
fn train(rng: &mut Rng, task: &str) -> Story {
    loop {
        let story = match rng.below(20) {
            0..7 => Story::new(rng.between(1, MOST), vec![Step::new(Op::Plus, rng.between(1, MOST))]),
            7..13 => {
                let (a, b) = (rng.between(1, MOST), rng.between(1, MOST));
                Story::new(a.max(b), vec![Step::new(Op::Minus, a.min(b))])
            }
            kind => {
                let (a, b) = factors(rng);
                return match kind {
                    13..17 => Story::new(a, vec![Step::new(Op::Times, b)]),
                    _ => Story::new(a * b, vec![Step::new(Op::Over, b)]),
                };
            }
        };
        if Split::of(task, &story.key()) == Split::Train {
            return story;
        }
    }
}

/// A sum of one step, and its result.
fn told(story: &Story) -> [String; 2] {
    let Step { op, by } = story.steps[0];
    let sign = match op {
        Op::Plus => '+',
        Op::Minus => '-',
        Op::Times => 'x',
        Op::Over => '/',
    };
    [format!("{} {sign} {by}", story.first), story.total().to_string()]
}
