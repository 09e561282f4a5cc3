//! MBPP: write a Python function from a sentence and three tests; right if the tests pass.
//!
//! The questions are the rows with a `task_id` of 11 to 510, whatever else the file holds; 2, 3 and 4 are the shots.

use std::sync::LazyLock;

use regex::Regex;

use super::data::{self, Row};
use super::extract::pattern;
use super::item::run;
use super::{Check, Definition, Prompt, Protocol, Question, Setup};
use crate::error::{Error, Result};
use crate::sandbox::Sandbox;
use crate::task::Score;

/// The test split.
const TEST: std::ops::RangeInclusive<i64> = 11..=510;
/// The validation split.
const VALIDATION: std::ops::RangeInclusive<i64> = 511..=600;
const EXPERT: &str = "You are an expert Python programmer, and here is your task:";

pub(super) const DREAM: Definition = Definition {
    task: "mbpp_instruct",
    aliases: &["mbpp"],
    protocol: Protocol::Dream,
    version: 1,
    source: "DreamLM/Dream@fac0a7f eval_instruct, mbpp_instruct 1.0",
    shots: 0,
    chat: true,
    until: &["```"],
    max_new_tokens: 1024,
    max_prompt_tokens: Some(1024),
    code: true,
    hub: Some(("google-research-datasets/mbpp", "full/")),
    tuning: Some("validation"),
    build: dream,
};

pub(super) const LM_EVAL: Definition = Definition {
    task: "mbpp",
    aliases: &[],
    protocol: Protocol::LmEval,
    source: "lm_eval 0.4.13, mbpp 1.0",
    shots: 3,
    chat: false,
    until: &["[DONE]"],
    max_new_tokens: 256,
    max_prompt_tokens: None,
    build: plain,
    ..DREAM
};

pub(super) const LM_EVAL_INSTRUCT: Definition = Definition {
    task: "mbpp_instruct",
    source: "lm_eval 0.4.13, mbpp_instruct 1.0",
    chat: true,
    until: &[],
    build: instruct,
    ..LM_EVAL
};

fn dream(setup: &Setup<'_>) -> Result<Vec<Question>> {
    let ask = |row: &Row| {
        Ok(format!("{EXPERT} {} Your code should pass these tests:\n\n{}", text(row)?, tests(row)?))
    };
    build(setup, &ask, "Here is the completed function:\n```python\n", "", false)
}

fn plain(setup: &Setup<'_>) -> Result<Vec<Question>> {
    let ask = |row: &Row| {
        Ok(format!(
            "{EXPERT} {} Your code should pass these tests:\n\n{}\n[BEGIN]\n",
            text(row)?,
            tests(row)?
        ))
    };
    build(setup, &ask, "", "[DONE]", false)
}

fn instruct(setup: &Setup<'_>) -> Result<Vec<Question>> {
    let ask = |row: &Row| {
        Ok(format!("{EXPERT}\n{}\nYour code should pass these tests:\n{}", text(row)?, tests(row)?))
    };
    build(setup, &ask, "\n```python\n", "```", true)
}

fn build(
    setup: &Setup<'_>,
    ask: &dyn Fn(&Row) -> Result<String>,
    prefix: &str,
    done: &str,
    fenced: bool,
) -> Result<Vec<Question>> {
    let mut shots = String::new();
    if setup.shots > 0 {
        shots = SHOTS[..setup.shots.min(SHOTS.len())]
            .iter()
            .map(|shot| shot.render(ask, prefix, done))
            .collect::<Result<_>>()?;
    }
    // The owners' file holds every split; the Hub has a file for each.
    let (split, rows) = match setup.tuning {
        None => (TEST, setup.rows()?),
        Some(name) => {
            (VALIDATION, data::rows(&data::neighbour(setup.data, name).or_else(|_| setup.file())?)?)
        }
    };
    let rows = rows.iter().filter(|row| row.number("task_id").is_ok_and(|id| split.contains(&id)));
    let item = |(doc_id, row): (usize, &Row)| {
        let tests = tests(row)?;
        let prompt =
            Prompt { user: format!("{shots}{}", ask(row)?), prefix: prefix.to_owned(), ..Prompt::default() };
        Ok(setup.item(doc_id, prompt, tests.clone(), Program { tests, fenced }))
    };
    rows.enumerate().map(item).collect()
}

/// The sanitised edition calls the sentence `prompt`.
fn text(row: &Row) -> Result<&str> {
    row.text(if row.has("text") { "text" } else { "prompt" })
}

fn tests(row: &Row) -> Result<String> {
    match row.texts("test_list")?.as_slice() {
        [first, second, third, ..] => Ok(format!("{first}\n{second}\n{third}")),
        _ => Err(row.problem("has fewer than three tests")),
    }
}

struct Program {
    tests: String,
    /// Whether the program stands in a fence that the prompt opened.
    fenced: bool,
}

impl Check for Program {
    fn check(&self, response: &str, sandbox: Option<&Sandbox>) -> Result<Score> {
        if sandbox.is_none() {
            return Err(Error::CodeNotAllowed);
        }
        let code = if self.fenced { first_block(response) } else { response.to_owned() };
        run(sandbox, code, &self.tests)
    }
}

static BLOCK: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?s)```(?:\w+)?\n?(.*?)\n?```"));

/// The first fenced block, the fence the prompt opened included; else one the response opens itself.
fn first_block(response: &str) -> String {
    let find = |text: &str| Some(BLOCK.captures(text)?.get(1)?.as_str().to_owned());
    find(&format!("```{response}"))
        .or_else(|| find(&response.replace("```python", "```")))
        .unwrap_or_default()
}

/// A worked example.
struct Shot {
    text: &'static str,
    code: &'static str,
    tests: [&'static str; 3],
}

impl Shot {
    fn render(&self, ask: &dyn Fn(&Row) -> Result<String>, prefix: &str, done: &str) -> Result<String> {
        let row = Row::from_text_and_tests(self.text, &self.tests);
        Ok(format!("{}{prefix}{}\n{done}\n\n", ask(&row)?, self.code))
    }
}

/// The examples of the paper of MBPP (Austin et al. 2021), as lm_eval spells them.
const SHOTS: [Shot; 3] = [
    Shot {
        text: "Write a function to find the similar elements from the given two tuple lists.",
        code: "def similar_elements(test_tup1, test_tup2):\r\n  res = tuple(set(test_tup1) & set(test_tup2))\r\n  return (res) ",
        tests: [
            "assert similar_elements((3, 4, 5, 6),(5, 7, 4, 10)) == (4, 5)",
            "assert similar_elements((1, 2, 3, 4),(5, 4, 3, 7)) == (3, 4)",
            "assert similar_elements((11, 12, 14, 13),(17, 15, 14, 13)) == (13, 14)",
        ],
    },
    Shot {
        text: "Write a python function to identify non-prime numbers.",
        code: "import math\r\ndef is_not_prime(n):\r\n    result = False\r\n    for i in range(2,int(math.sqrt(n)) + 1):\r\n        if n % i == 0:\r\n            result = True\r\n    return result",
        tests: [
            "assert is_not_prime(2) == False",
            "assert is_not_prime(10) == True",
            "assert is_not_prime(35) == True",
        ],
    },
    Shot {
        text: "Write a function to find the largest integers from a given list of numbers using heap queue algorithm.",
        code: "import heapq as hq\r\ndef heap_queue_largest(nums,n):\r\n  largest_nums = hq.nlargest(n, nums)\r\n  return largest_nums",
        tests: [
            "assert heap_queue_largest( [25, 35, 22, 85, 14, 65, 75, 22, 58],3)==[85, 75, 65] ",
            "assert heap_queue_largest( [25, 35, 22, 85, 14, 65, 75, 22, 58],2)==[85, 75] ",
            "assert heap_queue_largest( [25, 35, 22, 85, 14, 65, 75, 22, 58],5)==[85, 75, 65, 58, 35]",
        ],
    },
];
