//! `program`, in the manner of HumanEval and MBPP: a short function from a docstring or a description in free words.
//!
//! The answer is run, in the interpreter of [`python`], on inputs dense enough to tell apart any two programs the
//! task can ask for. Names of variables and the layout are the answer's own choice, but must agree with themselves;
//! so is the name of the function, where the prompt gives none.

mod ask;
mod code;
mod describe;
mod list;
mod names;
mod number;
pub mod python;
mod recipe;
mod series;
mod style;
mod text;
mod two;
mod words;

use serde::{Deserialize, Serialize};

use self::python::{Module, Value};
use self::recipe::Recipe;
use self::style::Style;
use super::rng::mix;
use super::{Facts, Problem, Rng, Score, Task, Wording};

const KINDS: [&str; 7] = [
    "program/number",
    "program/pair",
    "program/list",
    "program/text",
    "program/series",
    "program/words",
    "program/two",
];
/// What a function is called where the prompt gives no name.
const FUNCTIONS: [&str; 4] = ["f", "f", "solve", "run"];

/// The `program` task.
pub(super) struct Program;

/// The content of a `program` problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    /// What the function must be called; any name will do where there is none.
    function: Option<String>,
    /// What it must compute.
    recipe: Recipe,
}

/// Arguments and the value they must give.
pub type Case = (Vec<Value>, Value);

impl Task for Program {
    fn name(&self) -> &'static str {
        "program"
    }

    fn version(&self) -> u32 {
        7
    }

    fn kinds(&self) -> &'static [&'static str] {
        &KINDS
    }

    fn generate(&self, rng: &mut Rng, wording: Wording) -> Problem {
        let kind = match rng.below(20) {
            0..=4 => KINDS[0],
            5 | 6 => KINDS[1],
            7..=10 => KINDS[2],
            11..=15 => KINDS[3],
            16 => KINDS[4],
            17 => KINDS[5],
            _ => KINDS[6],
        };
        self.compose(rng, wording, kind, names::function_name)
    }

    /// What an answer copies from the question: the name of the function, or a word that a text is joined with.
    fn drill(&self, rng: &mut Rng) -> Option<Problem> {
        let named = rng.below(3) > 0;
        loop {
            let kind = if named { *rng.pick(&KINDS) } else { "program/text" };
            let problem = self.compose(rng, Wording::Usual, kind, names::any_name);
            let copies = match &problem.facts {
                Facts::Program(assignment) if named => assignment.function.is_some(),
                _ => problem.response.contains('"'),
            };
            if copies {
                return Some(problem);
            }
        }
    }

    fn score(&self, problem: &Problem, response: &str) -> Score {
        let Facts::Program(assignment) = &problem.facts else { return Score::default() };
        let code = code(response);
        let correct = Module::parse(code).is_ok_and(|module| assignment.passes(&module));
        Score { correct, strict: None, extracted: Some(code.into()) }
    }
}

impl Program {
    fn compose(&self, rng: &mut Rng, wording: Wording, kind: &str, namer: ask::Namer) -> Problem {
        let (recipe, cases) = loop {
            let recipe = Recipe::draw(rng, wording, kind);
            let cases = cases(&recipe);
            if !is_constant(&cases) {
                break (recipe, cases);
            }
        };
        let asked = ask::ask(rng, wording, &recipe, &cases, namer);
        let name = asked.function.clone().unwrap_or_else(|| (*rng.pick(&FUNCTIONS)).to_string());
        let params = asked.params.clone().unwrap_or_else(|| plain_parameters(rng, &recipe));
        let style = Style::draw(rng, name, params);
        let mut key = format!("{kind}:{:016x}", fingerprint(&cases));
        if !recipe.is_free() {
            // There is one function that doubles: it would be known to one split alone, were it not for its names.
            key += &format!(
                ":{}:{}",
                asked.function.as_deref().unwrap_or("?"),
                asked.params.map_or("?".into(), |p| p.join(","))
            );
        }
        Problem {
            task: self.name().into(),
            kind: kind.into(),
            prompt: asked.prompt,
            response: style.answer(&recipe),
            key,
            facts: Facts::Program(Assignment { function: asked.function, recipe }),
        }
    }
}

/// Parameters of an answer whose prompt names none.
fn plain_parameters(rng: &mut Rng, recipe: &Recipe) -> Vec<String> {
    let names: &[&str] = match recipe {
        Recipe::Number(_) => &["x", "n"],
        Recipe::Series(_) => &["n"],
        Recipe::Pair(_, 2, _) => &["a b", "x y"],
        Recipe::Pair(..) => &["a b c"],
        Recipe::List(_) | Recipe::Asks(..) => &["xs", "nums"],
        Recipe::Text(_) => &["s", "text"],
        Recipe::Words(_) => &["words", "xs"],
        Recipe::Two(two) => return two.parameters()[0].split(' ').map(String::from).collect(),
    };
    rng.pick(names).split(' ').map(String::from).collect()
}

impl Assignment {
    /// The tests a right answer passes.
    pub fn cases(&self) -> Vec<Case> {
        cases(&self.recipe)
    }

    fn passes(&self, module: &Module) -> bool {
        let cases = self.cases();
        let passes = |name: &str| {
            cases
                .iter()
                .all(|(args, expected)| module.call(name, args.clone()).is_ok_and(|found| found == *expected))
        };
        match &self.function {
            Some(name) => passes(name),
            None => module.names().any(passes),
        }
    }
}

fn cases(recipe: &Recipe) -> Vec<Case> {
    let inputs = recipe.inputs().into_iter();
    inputs.filter_map(|args| recipe.apply(&args).map(|expected| (args, expected))).collect()
}

/// A function that ignores its input is no problem worth asking.
fn is_constant(cases: &[Case]) -> bool {
    cases.windows(2).all(|pair| pair[0].1 == pair[1].1)
}

/// Programs that no test tells apart are one problem, however they are described.
fn fingerprint(cases: &[Case]) -> u64 {
    let mut hash = 0;
    for (args, value) in cases {
        for part in args.iter().chain([value]) {
            hash = part.to_string().bytes().fold(mix(hash + 1), |hash, byte| mix(hash ^ u64::from(byte)));
        }
    }
    hash
}

/// The code in a response: inside a fence if there is one.
fn code(response: &str) -> &str {
    let Some((_, rest)) = response.split_once("```") else { return response };
    let inside = rest.strip_prefix("python").unwrap_or(rest);
    inside.split("```").next().unwrap_or(inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wording_of_an_answer_passes() {
        let mut rng = Rng::new(11);
        for _ in 0..3000 {
            let problem = Program.generate(&mut rng, Wording::Usual);
            let Facts::Program(assignment) = &problem.facts else { panic!("not a program") };
            for _ in 0..4 {
                let name = assignment.function.clone().unwrap_or_else(|| "anything".into());
                let params = ask::parameters(&mut rng, &assignment.recipe);
                let answer = Style::draw(&mut rng, name, params).answer(&assignment.recipe);
                assert!(Program.score(&problem, &answer).correct, "{}\n{answer}", problem.prompt);
            }
        }
    }

    #[test]
    fn an_answer_to_another_problem_fails() {
        let mut rng = Rng::new(12);
        let mut previous = Program.generate(&mut rng, Wording::Usual);
        let (mut refused, mut same) = (0, 0);
        for _ in 0..3000 {
            let problem = Program.generate(&mut rng, Wording::Usual);
            let content = |problem: &Problem| problem.key.split(':').take(2).collect::<String>();
            // Functions of different kinds may be one: the length of a text and of a list.
            if problem.kind == previous.kind && content(&problem) != content(&previous) {
                // Now and then two recipes are one function: -(n % 2) + 1 is 1 where n % 2 == 0 is True.
                match Program.score(&problem, &previous.response).correct {
                    true => same += 1,
                    false => refused += 1,
                }
            }
            previous = problem;
        }
        assert!(refused > 400 && same <= 2, "{refused} {same}");
    }

    #[test]
    fn fences_are_taken_off() {
        assert_eq!(code("Sure:\n```python\nx\n```\ndone").trim(), "x");
        assert_eq!(code("x"), "x");
    }
}
