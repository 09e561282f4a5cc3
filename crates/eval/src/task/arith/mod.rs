//! `arith`, in the manner of GSM8K: word problems and bare sums of one to six steps, solved in written steps.
//!
//! A problem is a chain of equations ([`story`]); a [`teller`] puts it into words, as a story of somebody who has things
//! ([`owner`]), of things at a place ([`crowd`]), of amounts with a unit ([`measure`]), of money ([`money`]), of two heaps ([`pairs`]), of what
//! is missing ([`lacking`]), of equal groups ([`product`]), as somebody wrote it down whole ([`told`]), or bare ([`bare`]); [`chatter`] may stand around it. The response works the chain out in one wording of several and keeps it ([`answer`]).

mod answer;
mod bare;
mod chatter;
mod crowd;
mod drill;
mod lacking;
mod measure;
mod money;
mod owner;
mod pairs;
mod party;
mod product;
mod shape;
mod story;
mod teller;
mod told;
mod words;

use super::lexicon::untidy;
use super::{Facts, Problem, Rng, Score, Task, Wording};
pub use story::{Op, Step, Story};
use teller::Teller;

const KINDS: [&str; 11] = [
    "arith/1",
    "arith/2",
    "arith/3",
    "arith/4",
    "arith/5",
    "arith/6",
    "arith/bare",
    "arith/together",
    "arith/difference",
    "arith/product",
    "arith/told",
];
/// How often each number of steps is drawn, of 100.
const LENGTHS: [usize; 6] = [26, 28, 20, 12, 8, 6];
/// Per cent of the stories typed without any capital; their answers name nobody.
const SMALL_LETTERS: usize = 3;

/// The `arith` task.
pub(super) struct Arith;

impl Task for Arith {
    fn name(&self) -> &'static str {
        "arith"
    }

    fn version(&self) -> u32 {
        10
    }

    fn kinds(&self) -> &'static [&'static str] {
        &KINDS
    }

    fn generate(&self, rng: &mut Rng, wording: Wording) -> Problem {
        let Told { kind, prompt, story, key } = match rng.below(100) {
            0..26 => told_in_steps(rng, wording),
            26..38 => told_bare(rng, wording),
            38..43 => told_together(rng, wording),
            43..48 => told_as_difference(rng, wording),
            48..52 => told_as_product(rng, wording),
            _ => told_whole(rng, wording),
        };
        let small = rng.below(100) < SMALL_LETTERS;
        let prompt = chatter::around(&mut Teller::new(rng, wording), prompt);
        let prompt = if small { prompt.to_lowercase() } else { prompt };
        let prompt = untidy(rng, prompt);
        Problem {
            task: self.name().into(),
            kind: kind.into(),
            prompt,
            response: story.solve(rng, !small),
            key,
            facts: Facts::Arith(story),
        }
    }

    fn drill(&self, rng: &mut Rng) -> Option<Problem> {
        Some(drill::draw(rng, self.name()))
    }

    fn score(&self, problem: &Problem, response: &str) -> Score {
        let Facts::Arith(story) = &problem.facts else { return Score::default() };
        let found = answer::last_integer(response);
        Score {
            correct: found == Some(story.total()),
            strict: Some(story.is_worked_by(response.trim())),
            extracted: found.map(|n| n.to_string()),
        }
    }
}

/// A problem before its answer is worded.
struct Told {
    kind: &'static str,
    prompt: String,
    story: Story,
    key: String,
}

fn told_in_steps(rng: &mut Rng, wording: Wording) -> Told {
    let mut left = rng.below(LENGTHS.iter().sum());
    let at = LENGTHS.iter().position(|&share| {
        let here = left < share;
        left = left.wrapping_sub(share);
        here
    });
    let at = at.unwrap_or(0);
    let mut story = story::chain(rng, at + 1);
    let scene = rng.below(100);
    let mut teller = Teller::new(rng, wording);
    let tell = match scene {
        0..33 => crowd::tell,
        33..40 => measure::tell,
        40..46 => money::tell,
        _ => owner::tell,
    };
    let prompt = tell(&mut teller, &mut story);
    Told { kind: KINDS[at], prompt, key: story.key(), story }
}

fn told_bare(rng: &mut Rng, wording: Wording) -> Told {
    let count = *rng.pick(&[1, 1, 1, 1, 2, 2, 2, 3, 3, 4, 5]);
    let known = rng.below(20);
    let mut story = match known {
        0..4 => {
            let (a, b) = story::factors(rng);
            if rng.below(5) < 2 {
                Story::new(a * b, vec![Step::new(Op::Over, b)])
            } else {
                Story::new(a, vec![Step::new(Op::Times, b)])
            }
        }
        4..6 if count > 1 => with_product(rng, count.min(3)),
        6..8 => with_inner(rng),
        _ => story::chain(rng, count),
    };
    let prompt = bare::tell(&mut Teller::new(rng, wording), &mut story);
    // A product cannot be worked out, only known: it is the wording that is held out.
    let key = if known < 4 { format!("{}:{prompt}", story.key()) } else { story.key() };
    Told { kind: "arith/bare", prompt, key, story }
}

/// Products within sums, and sums within products: "6 + 4 x 5", "(7 - 2) x 3".
fn with_inner(rng: &mut Rng) -> Story {
    loop {
        let (a, b) = story::factors(rng);
        let product = if rng.below(4) == 0 {
            Story::new(a * b, vec![Step::new(Op::Over, b)])
        } else {
            Story::new(a, vec![Step::new(Op::Times, b)])
        };
        let op = if rng.coin() { Op::Plus } else { Op::Minus };
        let story = match rng.below(3) {
            0 => {
                let (c, d) = story::factors(rng);
                let mut story = product;
                story.steps.push(Step::new(op, c * d));
                story.inner = vec![(2, Story::new(c, vec![Step::new(Op::Times, d)]))];
                story
            }
            1 => {
                let first = Story::new(story::start(rng), vec![Step::new(op, story::change(rng))]);
                let by = Step::new(Op::Times, rng.between(2, 12));
                Story::new(first.first, first.steps.into_iter().chain([by]).collect())
            }
            _ => {
                let by = Step::new(op, product.total());
                Story { inner: vec![(1, product)], ..Story::new(story::start(rng), vec![by]) }
            }
        };
        if story.is_within(199) {
            return story;
        }
    }
}

fn told_together(rng: &mut Rng, wording: Wording) -> Told {
    let way = rng.below(100);
    let first = story::start(rng).min(79);
    let count = if way >= 70 && rng.below(4) == 0 { 2 } else { 1 };
    let steps: Vec<Step> = (0..count).map(|_| Step::new(Op::Plus, story::start(rng).min(60))).collect();
    let mut story = Story::new(first, steps);
    let tell = match way {
        0..10 => {
            // One has so many, the other so many more or fewer: the second heap is the first one changed.
            let change = story::steps(rng, first, 1);
            story.steps = change.into_iter().chain([Step::new(Op::Plus, first)]).collect();
            pairs::changed
        }
        10..25 => {
            story.steps.extend(story::steps(rng, story.total(), 1));
            pairs::mixed
        }
        _ => pairs::together,
    };
    let prompt = tell(&mut Teller::new(rng, wording), &mut story);
    Told { kind: "arith/together", prompt, key: story.key(), story }
}

fn told_as_difference(rng: &mut Rng, wording: Wording) -> Told {
    let mut story = loop {
        let story = story::chain(rng, 1);
        // Mostly differences; a relative may also have more. Nothing is told of nothing or of one.
        if story.total() > 1 && story.steps[0].by > 1 && (story.ends_in_loss() || rng.below(4) == 0) {
            break story;
        }
    };
    let compared = rng.below(100) < 45;
    let mut teller = Teller::new(rng, wording);
    let prompt = if compared {
        pairs::difference(&mut teller, &mut story)
    } else {
        lacking::tell(&mut teller, &mut story)
    };
    Told { kind: "arith/difference", prompt, key: story.key(), story }
}

fn told_as_product(rng: &mut Rng, wording: Wording) -> Told {
    let count = if rng.below(3) == 0 { 2 } else { 1 };
    let mut story = with_product(rng, count);
    let (prompt, content) = product::tell(&mut Teller::new(rng, wording), &mut story);
    // A product cannot be worked out, only known: the table must be in training, so the things counted are part of a problem's key.
    Told { kind: "arith/product", prompt, key: format!("{}:{content}", story.key()), story }
}

fn told_whole(rng: &mut Rng, wording: Wording) -> Told {
    let (story, prompt) = told::tell(&mut Teller::new(rng, wording));
    Told { kind: "arith/told", prompt, key: story.key(), story }
}

/// A product, and sums after it, up to this many steps in all.
fn with_product(rng: &mut Rng, count: usize) -> Story {
    let (groups, each) = story::factors(rng);
    let mut steps = vec![Step::new(Op::Times, each)];
    steps.extend(story::steps(rng, groups * each, count - 1));
    Story::new(groups, steps)
}

#[cfg(test)]
mod tests;
