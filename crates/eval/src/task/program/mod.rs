//! `program`, in the manner of HumanEval and MBPP: a one- or two-line function from a docstring or a description.
//!
//! The answer is run, in the interpreter of [`python`], on inputs dense enough to tell apart any two programs the
//! task can ask for. Names of variables and the layout are the answer's own choice, but must agree with themselves.

pub mod python;
mod recipe;
mod render;

use serde::{Deserialize, Serialize};

use self::python::{Module, Value};
use self::recipe::Recipe;
use super::rng::mix;
use super::{Facts, Problem, Rng, Score, Task, Wording};

const KINDS: [&str; 4] = ["program/number", "program/pair", "program/list", "program/text"];
const FUNCTIONS: [&str; 4] = ["f", "g", "run", "solve"];

/// The `program` task.
pub(super) struct Program;

/// The content of a `program` problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    /// What the function must be called.
    function: String,
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
        1
    }

    fn kinds(&self) -> &'static [&'static str] {
        &KINDS
    }

    fn generate(&self, rng: &mut Rng, _wording: Wording) -> Problem {
        let kind = *rng.pick(&[KINDS[0], KINDS[0], KINDS[1], KINDS[2], KINDS[2], KINDS[3]]);
        self.compose(rng, kind)
    }

    /// Texts that join a given word: the one case where the answer copies a word of the question.
    fn drill(&self, rng: &mut Rng) -> Option<Problem> {
        loop {
            let problem = self.compose(rng, "program/text");
            if problem.response.contains('"') {
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
    fn compose(&self, rng: &mut Rng, kind: &str) -> Problem {
        let assignment = loop {
            let assignment =
                Assignment { function: rng.pick(&FUNCTIONS).to_string(), recipe: Recipe::draw(rng, kind) };
            if !assignment.is_constant() {
                break assignment;
            }
        };
        let wording = render::Wording::draw(rng, &assignment.recipe);
        Problem {
            task: self.name().into(),
            kind: kind.into(),
            prompt: wording.ask(rng, &assignment.function, &assignment.recipe),
            response: wording.answer(&assignment.function, &assignment.recipe),
            key: format!("{kind}:{:016x}", assignment.fingerprint()),
            facts: Facts::Program(assignment),
        }
    }
}

impl Assignment {
    /// The tests a right answer passes.
    pub fn cases(&self) -> Vec<Case> {
        let inputs = self.recipe.inputs().into_iter();
        inputs.filter_map(|args| self.recipe.apply(&args).map(|expected| (args, expected))).collect()
    }

    fn passes(&self, module: &Module) -> bool {
        self.cases()
            .into_iter()
            .all(|(args, expected)| module.call(&self.function, args).is_ok_and(|found| found == expected))
    }

    /// A function that ignores its input is no problem worth asking.
    fn is_constant(&self) -> bool {
        self.cases().windows(2).all(|pair| pair[0].1 == pair[1].1)
    }

    /// Programs that no test tells apart are one problem, however they are described.
    fn fingerprint(&self) -> u64 {
        let mut hash = 0;
        for (_, value) in self.cases() {
            hash = value.to_string().bytes().fold(mix(hash + 1), |hash, byte| mix(hash ^ u64::from(byte)));
        }
        hash
    }
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
                let wording = render::Wording::draw(&mut rng, &assignment.recipe);
                let answer = wording.answer(&assignment.function, &assignment.recipe);
                assert!(Program.score(&problem, &answer).correct, "{}\n{answer}", problem.prompt);
            }
        }
    }

    #[test]
    fn an_answer_to_another_problem_fails() {
        let mut rng = Rng::new(12);
        let mut previous = Program.generate(&mut rng, Wording::Usual);
        let mut refused = 0;
        for _ in 0..3000 {
            let problem = Program.generate(&mut rng, Wording::Usual);
            if problem.key != previous.key {
                assert!(
                    !Program.score(&problem, &previous.response).correct,
                    "{}\n{}",
                    problem.prompt,
                    previous.response
                );
                refused += 1;
            }
            previous = problem;
        }
        assert!(refused > 2900);
    }

    #[test]
    fn fences_are_taken_off() {
        assert_eq!(code("Sure:\n```python\nx\n```\ndone").trim(), "x");
        assert_eq!(code("x"), "x");
    }
}
