//! The prompt: a function asked for in free wording, with its name and its arguments given or not.

use std::sync::LazyLock;

use super::Case;
use super::describe::{self, Form, Object};
use super::number::Op;
use super::recipe::Recipe;
use crate::task::Rng;
use crate::task::lexicon::{Wording, capital, in_words, untidy};
use crate::task::phrase::{Phrases, chatter, fill};

static FRAMES: LazyLock<Phrases> =
    LazyLock::new(|| Phrases::parse(crate::task::wordings::text("program/frames.txt")));

/// A prompt and what it lays down about the answer.
pub(super) struct Exercise {
    pub(super) prompt: String,
    /// The name the function must have.
    pub(super) function: Option<String>,
    /// The parameters named in the prompt.
    pub(super) params: Option<Vec<String>>,
}

/// Gives a function a name.
pub(super) type Namer = fn(&mut Rng, Wording) -> String;

/// Asks for a recipe, under a name of the namer if under any.
pub(super) fn ask(
    rng: &mut Rng,
    wording: Wording,
    recipe: &Recipe,
    cases: &[Case],
    namer: Namer,
) -> Exercise {
    let telling = describe::telling_name(rng, recipe);
    let section = match rng.below(20) {
        0..=7 => "plain",
        8..=11 => "named",
        12 | 13 if telling.is_some() => "bare",
        _ => "signature",
    };
    let pattern = loop {
        let pattern = FRAMES.draw(rng, wording, section);
        let params = Object::Params(vec!["x".into(); recipe.arity()]);
        let object = if pattern.contains("{in}") { &Object::Known } else { &params };
        let cramped = pattern.contains("{np}") && describe::thing(rng, recipe, object).is_none();
        let letterless = recipe.needs_letters() && pattern.contains("{in}");
        if !cramped && !letterless {
            break pattern;
        }
    };
    let function = match telling {
        Some(name) if section == "bare" || (section != "plain" && rng.below(3) == 0) => name,
        _ => namer(rng, wording),
    };
    let params = parameters(rng, recipe);
    let shown = pattern.contains("{sig}") || pattern.contains("{def}");
    let named = if shown { rng.below(3) > 0 } else { rng.below(4) == 0 };
    let unsaid = pattern.contains("{np}") && describe::thing(rng, recipe, &Object::New).is_none();
    let lettered = !pattern.contains("{in}") && (named || unsaid || recipe.needs_letters());
    let object = match (pattern.contains("{in}"), lettered) {
        (true, _) => Object::Known,
        (_, true) => Object::Params(params.clone()),
        _ => Object::New,
    };
    let mut prompt = describe_in(rng, &pattern, recipe, &object);
    let signature = format!("{function}({})", params.join(", "));
    let slots = [("def", "def {sig}:"), ("sig", signature.as_str()), ("name", &function)];
    prompt = fill(&prompt, &slots);
    if section != "plain" && !pattern.contains("{def}") && rng.below(12) == 0 {
        prompt = with_example(rng, wording, prompt, &function, cases);
    }
    Exercise {
        prompt: if pattern.contains("{def}") {
            prompt
        } else {
            let prompt = chatter(rng, wording, "program", prompt);
            untidy(rng, prompt)
        },
        function: (section != "plain").then_some(function),
        params: (shown || lettered).then_some(params),
    }
}

/// Fills the slots of a pattern that say what the function does.
fn describe_in(rng: &mut Rng, pattern: &str, recipe: &Recipe, object: &Object) -> String {
    let mut prompt = pattern.to_string();
    for (slot, form) in [("do3", Form::Third), ("do", Form::Plain), ("doing", Form::Gerund)] {
        for (slot, upper) in [(slot.to_string(), false), (capital(slot), true)] {
            if prompt.contains(&format!("{{{slot}}}")) {
                let done = describe::doing(rng, recipe, object, form);
                prompt = fill(&prompt, &[(&slot, &if upper { capital(&done) } else { done })]);
            }
        }
    }
    if prompt.contains("{np}") {
        let thing = describe::thing(rng, recipe, object).unwrap_or_default();
        prompt = fill(&prompt, &[("np", &thing)]);
    }
    let taken = describe::input(rng, recipe);
    let arity = recipe.arity() as i64;
    let word = *rng.pick(&["argument", "parameter"]);
    let count = format!("{} {word}{}", in_words(arity), if arity > 1 { "s" } else { "" });
    fill(&prompt, &[("in", &taken), ("count", &count)])
}

/// The prompt with one of the test cases told.
fn with_example(rng: &mut Rng, wording: Wording, prompt: String, function: &str, cases: &[Case]) -> String {
    let short: Vec<&Case> = cases
        .iter()
        .filter(|(args, value)| {
            let told = args.iter().chain([value]).map(ToString::to_string).collect::<String>();
            told.len() < 20 && !told.contains('-')
        })
        .collect();
    if short.is_empty() {
        return prompt;
    }
    let (args, value) = *rng.pick(&short);
    let args = args.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let example = FRAMES.draw(rng, wording, "example");
    let call = format!("{function}({args})");
    format!("{prompt} {}", fill(&example, &[("call", &call), ("value", &value.to_string())]))
}

/// Parameters that suit a recipe.
pub(super) fn parameters(rng: &mut Rng, recipe: &Recipe) -> Vec<String> {
    let names: &[&str] = match recipe {
        Recipe::Number(ops) if matches!(ops.as_slice(), [Op::Convert(_)]) => {
            &["x", "n", "value", "amount", "number", "x", "n"]
        }
        Recipe::Number(_) => {
            &["x", "x", "x", "n", "n", "num", "number", "a", "y", "value", "m", "k", "z", "val"]
        }
        Recipe::Series(_) => &["n", "n", "n", "x", "num", "k", "m", "number", "end"],
        Recipe::Pair(_, 2, _) => &[
            "a b",
            "a b",
            "a b",
            "x y",
            "x y",
            "n m",
            "p q",
            "first second",
            "num1 num2",
            "x1 x2",
            "m n",
            "width height",
            "left right",
            "price count",
            "total parts",
            "length width",
            "u v",
            "i j",
        ],
        Recipe::Pair(..) => &["a b c", "a b c", "x y z", "p q r"],
        Recipe::List(_) | Recipe::Asks(..) => &[
            "xs", "xs", "nums", "nums", "numbers", "lst", "items", "values", "data", "arr", "a", "l",
            "my_list", "seq", "list1", "vals", "scores", "prices",
        ],
        Recipe::Words(_) => {
            &["words", "words", "words", "xs", "names", "items", "lst", "texts", "ws", "strings"]
        }
        Recipe::Two(two) => two.parameters(),
        Recipe::Text(_) => &[
            "s", "s", "s", "t", "text", "text", "word", "string", "name", "msg", "line", "txt", "phrase",
            "title", "sentence",
        ],
    };
    rng.pick(names).split(' ').map(String::from).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Program;
    use super::*;
    use crate::task::{Split, problems};

    #[test]
    fn every_way_of_asking_has_patterns_of_its_own_for_fresh_wording() {
        for section in ["plain", "named", "signature", "bare", "example"] {
            assert!(FRAMES.fresh_share(section) > 0.0, "{section}");
        }
    }

    #[test]
    fn fresh_patterns_never_train_and_prompts_are_many() {
        let mut prompts = std::collections::HashSet::new();
        for problem in problems(&Program, Split::Train, 11).take(20_000) {
            assert!(!FRAMES.is_fresh(&problem.prompt), "{}", problem.prompt);
            assert!(problem.prompt.split_whitespace().count() <= 110, "{}", problem.prompt);
            assert!(problem.response.len() <= 200, "{}", problem.response);
            let skeleton: String = problem.prompt.chars().filter(|c| !c.is_ascii_digit()).collect();
            prompts.insert(skeleton);
        }
        assert!(prompts.len() > 15_000, "{} different prompts", prompts.len());
    }
}
