//! Countdown of Dream's planning evaluation: reach the last number from the others, each used once, by `+ - * /`.
//!
//! An answer is a chain of equations, `44-15=29,79-29=50`. Three to five numbers; the first eight rows of a file are the
//! shots. Dream's script fixes the length for four numbers only (32); 24 and 48 for three and five are ours.

use std::collections::HashMap;

use super::data::Row;
use super::{Check, Definition, Prompt, Protocol, Question, Setup};
use crate::error::Result;
use crate::sandbox::Sandbox;
use crate::task::Score;

pub(super) const DREAM: Definition = Definition {
    task: "countdown",
    aliases: &["cd3", "cd4", "cd5"],
    protocol: Protocol::Dream,
    version: 1,
    source: "DreamLM/Dream@fac0a7f eval/eval_planning.py, cd3 to cd5",
    shots: 8,
    chat: false,
    until: &["<|end_of_text|>", "<|endoftext|>", "\n"],
    max_new_tokens: 32,
    max_prompt_tokens: None,
    code: false,
    hub: None,
    tuning: None,
    build,
};

/// How many numbers a part of the benchmark works with.
pub(super) fn size(task: &str) -> Option<usize> {
    [("cd3", 3), ("cd4", 4), ("cd5", 5)].into_iter().find(|(name, _)| *name == task).map(|(_, size)| size)
}

fn build(setup: &Setup<'_>) -> Result<Vec<Question>> {
    let rows = setup.rows()?;
    let (shots, questions) = rows.split_at(setup.shots.min(rows.len()));
    let shot = |row: &Row| Ok(format!("Input: {}\nOutput: {}\n\n", row.text("input")?, row.text("output")?));
    let shots = shots.iter().map(shot).collect::<Result<String>>()?;
    let item = |(doc_id, row): (usize, &Row)| {
        let input = row.text("input")?.to_owned();
        let (task, length, asked) = match input.split(',').count() {
            4 => (
                "cd3",
                24,
                "Given 4 numbers, use +-*/ to operate over the first three numbers to achieve the last number.\n\n",
            ),
            5 => (
                "cd4",
                32,
                "Given 5 numbers, use +-*/ to operate over the first four numbers to achieve the fifth number.\n\n",
            ),
            6 => (
                "cd5",
                48,
                "Given 6 numbers, use +-*/ to operate over the first five numbers to achieve the last number.\n\n",
            ),
            _ => return Err(row.problem("has an input that is not four, five or six numbers")),
        };
        let user = format!("{asked}{shots}Input: {input}\nOutput: ");
        let target = row.text("output")?.to_owned();
        let mut item = setup.item(doc_id, Prompt { user, ..Prompt::default() }, target, Numbers { input });
        item.task = task.to_owned();
        item.max_new_tokens = length;
        Ok(item)
    };
    questions.iter().enumerate().map(item).collect()
}

struct Numbers {
    input: String,
}

impl Check for Numbers {
    fn check(&self, response: &str, _: Option<&Sandbox>) -> Result<Score> {
        let correct = reaches(&self.input, response);
        Ok(Score { correct, strict: None, extracted: Some(response.to_owned()) })
    }
}

/// Every equation holds, every number is used exactly once, and the last result is the one wanted.
fn reaches(input: &str, answer: &str) -> bool {
    let Some((given, wanted)) = input.rsplit_once(',') else { return false };
    let mut left: HashMap<String, i64> = HashMap::new();
    let mut count = |number: &str, by: i64| *left.entry(number.to_owned()).or_default() += by;
    given.split(',').for_each(|number| count(number, 1));
    for equation in answer.split(',') {
        let [term, result] = equation.split('=').collect::<Vec<_>>()[..] else { return false };
        let holds = begins_with_operation(term)
            && value(term)
                .zip(result.trim().parse::<f64>().ok())
                .is_some_and(|(term, result)| term == result);
        if !holds {
            return false;
        }
        operands(equation).into_iter().for_each(|number| count(number, -1));
        count(result, 1);
    }
    count(wanted, -1);
    left.values().all(|&times| times == 0) && answer.rsplit('=').next() == Some(wanted)
}

/// Digits, an operator, a digit.
fn begins_with_operation(term: &str) -> bool {
    let rest = term.trim_start_matches(|c: char| c.is_ascii_digit());
    let mut rest_chars = rest.chars();
    rest.len() < term.len()
        && rest_chars.next().is_some_and(|c| "+-*/".contains(c))
        && rest_chars.next().is_some_and(|c| c.is_ascii_digit())
}

/// Numbers that stand before an operator, a full stop, a comma or an equals sign.
fn operands(equation: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut start = None;
    for (place, c) in equation.char_indices() {
        if c.is_ascii_digit() {
            start.get_or_insert(place);
            continue;
        }
        if let Some(start) = start.take()
            && "+,-./*=".contains(c)
        {
            found.push(&equation[start..place]);
        }
    }
    found
}

/// The value of an expression of numbers, `+ - * /` and brackets; anything else has none.
fn value(text: &str) -> Option<f64> {
    let mut rest = text.trim();
    let value = sum(&mut rest, 0)?;
    rest.is_empty().then_some(value)
}

fn sum(rest: &mut &str, depth: usize) -> Option<f64> {
    let mut total = product(rest, depth)?;
    while let Some(operator) = take(rest, "+-") {
        let right = product(rest, depth)?;
        total = if operator == '+' { total + right } else { total - right };
    }
    Some(total)
}

fn product(rest: &mut &str, depth: usize) -> Option<f64> {
    let mut total = factor(rest, depth)?;
    while let Some(operator) = take(rest, "*/") {
        let right = factor(rest, depth)?;
        total = if operator == '*' { total * right } else { total / right };
        // Dividing by zero is an error where this rule comes from.
        if !total.is_finite() {
            return None;
        }
    }
    Some(total)
}

fn factor(rest: &mut &str, depth: usize) -> Option<f64> {
    if depth > 50 {
        return None;
    }
    if take(rest, "-").is_some() {
        return Some(-factor(rest, depth + 1)?);
    }
    if take(rest, "(").is_some() {
        let inner = sum(rest, depth + 1)?;
        return take(rest, ")").map(|_| inner);
    }
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let digits = &rest[..end];
    // Python refuses 05.
    let leading_zero =
        digits.len() > 1 && digits.starts_with('0') && !digits.contains('.') && digits.contains(|c| c != '0');
    if leading_zero {
        return None;
    }
    let number = digits.parse().ok()?;
    *rest = rest[end..].trim_start();
    Some(number)
}

fn take(rest: &mut &str, wanted: &str) -> Option<char> {
    let first = rest.chars().next().filter(|c| wanted.contains(*c))?;
    *rest = rest[1..].trim_start();
    Some(first)
}

#[cfg(test)]
mod tests {
    use super::{reaches, value};

    #[test]
    fn chains_that_reach_the_number() {
        assert!(reaches("15,44,79,50", "44-15=29,79-29=50"));
        assert!(reaches("50,36,82,44,31,51", "44-36=8,82*31=2542,8+2542=2550,2550/50=51"));
    }

    #[test]
    fn chains_that_do_not() {
        for wrong in [
            "",
            "44-15=29",
            "44-15=29,79-29=51",
            "44-15=29,79-29=50,",
            "44-15=28,79-29=50",
            "79-29=50",
            "44-15=29,79-29=50,50*1=50",
            "44 - 15 = 29, 79 - 29 = 50",
            "__import__('os')",
        ] {
            assert!(!reaches("15,44,79,50", wrong), "{wrong}");
        }
    }

    #[test]
    fn expressions() {
        assert_eq!(value("7/2"), Some(3.5));
        assert_eq!(value("(1+2)*3-4"), Some(5.0));
        assert_eq!(value("1/0"), None);
        assert_eq!(value("05+1"), None);
        assert_eq!(value("1+"), None);
    }
}
