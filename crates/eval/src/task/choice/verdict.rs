//! Questions to be answered by yes or no: "Is 14 larger than 9?"

use super::super::Rng;
use super::super::book::{expand, fill};
use super::super::lexicon::{self, Wording, a, capital, categories, untidy};
use super::draw::{outside, with_article};
use super::{Problem, Question, problem};

/// What is asked, the statement it is about and its denial.
struct Claim {
    ask: String,
    holds: bool,
    says: String,
    denies: String,
    content: String,
}

/// One such question.
pub(super) fn draw(rng: &mut Rng, wording: Wording) -> Problem {
    let claim = match rng.below(4) {
        0 => membership(rng, wording),
        1 => divisible(rng, wording),
        _ => comparison(rng, wording),
    };
    let wordings = if claim.holds {
        vec!["Yes".into(), format!("Yes, {}.", claim.says)]
    } else {
        vec!["No".into(), format!("No, {}.", claim.denies)]
    };
    let lead = match wording {
        Wording::Fresh if rng.coin() => "<Would you say so: |Quick one: >",
        _ => "<||||||Tell me: |Yes or no: |Question: |True or false: >",
    };
    let lead = expand(rng, lead).replace("True or false: ", "Yes or no? ");
    let prompt = untidy(rng, if lead.is_empty() { capital(&claim.ask) } else { lead + &claim.ask });
    let question = Question {
        options: vec!["Yes".into(), "No".into()],
        labels: Vec::new(),
        answer: usize::from(!claim.holds),
        wordings,
    };
    problem(rng, prompt, "choice/yes", format!("choice/yes:{}", claim.content), question)
}

fn comparison(rng: &mut Rng, wording: Wording) -> Claim {
    let (x, y) = (rng.between(1, 99), rng.between(1, 99));
    let larger = rng.coin();
    let words: &[&str] = match (wording, larger) {
        (Wording::Fresh, true) => &["larger than", "greater than", "above"],
        (Wording::Fresh, false) => &["smaller than", "less than", "below"],
        (_, true) => &["larger than", "bigger than", "greater than", "more than", "higher than"],
        (_, false) => &["smaller than", "less than", "lower than"],
    };
    let word = *rng.pick::<&str>(words);
    let said = if larger { "larger" } else { "smaller" };
    Claim {
        ask: fill("is {x} {w} {y}?", &[("x", &x.to_string()), ("w", word), ("y", &y.to_string())]),
        holds: if larger { x > y } else { x < y },
        says: format!("{x} is {said} than {y}"),
        denies: format!("{x} is not {said} than {y}"),
        content: format!("{x} {said} {y}"),
    }
}

fn divisible(rng: &mut Rng, _wording: Wording) -> Claim {
    let of = *rng.pick(&[2, 2, 3, 5, 5, 10]);
    let x = if rng.coin() { of * rng.between(1, 99 / of) } else { rng.between(1, 99) };
    let parity = of == 2 && rng.coin();
    let ask = if parity {
        format!("is {x} {}?", rng.pick(&["even", "an even number"]))
    } else {
        let pattern = *rng.pick(&[
            "is {x} divisible by {n}?",
            "can {x} be divided by {n}?",
            "is {x} a multiple of {n}?",
        ]);
        fill(pattern, &[("x", &x.to_string()), ("n", &of.to_string())])
    };
    let said = if parity { "even".into() } else { format!("divisible by {of}") };
    Claim {
        ask,
        holds: x % of == 0,
        says: format!("{x} is {said}"),
        denies: format!("{x} is not {said}"),
        content: format!("{x} divisible by {of}"),
    }
}

fn membership(rng: &mut Rng, wording: Wording) -> Claim {
    let category = lexicon::category(rng, wording);
    let holds = rng.coin();
    let word =
        if holds { category.member(rng).to_owned() } else { outside(rng, wording, category, 1).remove(0) };
    let listed = categories().iter().find(|other| other.members.contains(&word));
    let word = listed.map_or_else(|| a(&word), |home| with_article(&word, home));
    let title = a(&rng.pick(&category.titles).one);
    Claim {
        ask: format!("is {word} {title}?"),
        holds,
        says: format!("{word} is {title}"),
        denies: format!("{word} is not {title}"),
        content: format!("{word} {}", category.one()),
    }
}
