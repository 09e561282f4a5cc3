//! The evaluation's tasks as the server offers them: problems of the test split, judged by their own checkers.

use demask::eval::task::{self, Problem, Split, Task};
use demask::serve::{Posed, Tasks, Verdict};

/// Seed of the problems on offer: the same page shows the same problems.
const SEED: u64 = 1;

/// What a visitor meets first: everybody can check a word problem. Those of these numbers are told plainly, whatever else
/// the task asks.
const FIRST: &str = "arith";
const PLAIN: [u64; 6] = [39, 15, 30, 19, 18, 24];
/// The other tasks.
const THEN: [&str; 5] = ["program", "lines", "open", "grid", "choice"];
/// Problems of each that may be shown.
const EXAMPLES: u64 = 8;

/// Every task.
pub(super) struct Offered;

impl Tasks for Offered {
    fn list(&self) -> Vec<(String, String)> {
        task::all().iter().map(|task| (task.name().to_owned(), summary(task.as_ref()))).collect()
    }

    fn problem(&self, task: &str, index: u64) -> Option<Posed> {
        let (_, problem) = find(task, index)?;
        Some(Posed { kind: problem.kind, prompt: problem.prompt, answer: problem.response })
    }

    fn check(&self, task: &str, index: u64, response: &str) -> Option<Verdict> {
        let (task, problem) = find(task, index)?;
        let score = task.score(&problem, response);
        let checked = checked(task.as_ref()).to_owned();
        Some(Verdict { correct: score.correct, strict: score.strict, extracted: score.extracted, checked })
    }

    /// Word problems, then problems of the other tasks in turn, those first whose answers have the most to watch.
    fn examples(&self) -> Vec<(String, u64)> {
        let first = PLAIN.into_iter().chain(0..EXAMPLES).map(|index| (FIRST.to_owned(), index));
        let then = (0..EXAMPLES).flat_map(|index| THEN.map(move |task| (task.to_owned(), index)));
        first.chain(then).collect()
    }
}

fn find(name: &str, index: u64) -> Option<(Box<dyn Task>, Problem)> {
    let task = task::by_name(name)?;
    let problem = task::problem_at(task.as_ref(), Split::Test, SEED, index);
    Some((task, problem))
}

fn summary(task: &dyn Task) -> String {
    let meaning = match task.name() {
        "arith" => "word problems of a few sums, solved in steps",
        "choice" => "questions with two to ten options",
        "program" => "short Python functions, run on examples",
        "lines" => "lists of names, words or numbers: sort, reverse, shuffle, add, remove, swap",
        "grid" => "small squares to complete",
        "open" => "sums, lists, records and squares with many right answers",
        _ => "problems judged by a program",
    };
    meaning.to_owned()
}

/// What the checker of a task looks at.
fn checked(task: &dyn Task) -> &'static str {
    match task.name() {
        "arith" => "the number at the end",
        "choice" => "the option that is named",
        "program" => "the function, run on examples",
        "lines" => "the list, item by item",
        "grid" => "the square, by its rule",
        "open" => "every condition that was asked for",
        _ => "the answer",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_task_accepts_its_own_answer() {
        for (name, _) in Offered.list() {
            for index in 0..8 {
                let posed = Offered.problem(&name, index).unwrap();
                assert_eq!(Offered.problem(&name, index).unwrap(), posed);
                assert!(Offered.check(&name, index, &posed.answer).unwrap().correct, "{}", posed.answer);
                // Not "no idea": there are questions to be answered by no.
                assert!(!Offered.check(&name, index, "who knows").unwrap().correct);
            }
        }
        assert!(Offered.problem("absent", 0).is_none());
    }

    #[test]
    fn word_problems_are_shown_first() {
        let shown = Offered.examples();
        assert!(shown[..PLAIN.len() + EXAMPLES as usize].iter().all(|(task, _)| task == FIRST));
        let known: Vec<String> = Offered.list().into_iter().map(|(task, _)| task).collect();
        assert!(known.iter().all(|task| shown.contains(&(task.clone(), EXAMPLES - 1))), "{shown:?}");
    }
}
