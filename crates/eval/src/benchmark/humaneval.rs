//! HumanEval: complete a Python function; right if its tests pass.

use super::data::Row;
use super::item::run;
use super::{Check, Definition, Prompt, Protocol, Question, Setup};
use crate::error::{Error, Result};
use crate::sandbox::Sandbox;
use crate::task::Score;

const UNTIL: &[&str] = &["\nclass", "\ndef", "\n#", "\nif", "\nprint"];
const ASKED: &str = "Write a solution to the following problem and make sure that it passes the tests:\n";
const BEGUN: &str = "Here is the completed function:\n```python\n";

pub(super) const DREAM: Definition = Definition {
    task: "humaneval_instruct",
    aliases: &["humaneval"],
    protocol: Protocol::Dream,
    version: 1,
    source: "DreamLM/Dream@fac0a7f eval_instruct, humaneval_instruct 2.0",
    shots: 0,
    chat: true,
    until: UNTIL,
    max_new_tokens: 768,
    max_prompt_tokens: Some(1024),
    code: true,
    hub: Some(("openai/openai_humaneval", "openai_humaneval/")),
    tuning: None,
    build: dream,
};

pub(super) const LM_EVAL_INSTRUCT: Definition = Definition {
    protocol: Protocol::LmEval,
    aliases: &[],
    source: "lm_eval 0.4.13, humaneval_instruct 4.0",
    max_new_tokens: 1024,
    max_prompt_tokens: None,
    build: instruct,
    ..DREAM
};

pub(super) const LM_EVAL: Definition = Definition {
    task: "humaneval",
    source: "lm_eval 0.4.13, humaneval 1.0",
    chat: false,
    build: plain,
    ..LM_EVAL_INSTRUCT
};

/// Dream leaves the fence of the question open and has the definitions that matter picked out of the response.
fn dream(setup: &Setup<'_>) -> Result<Vec<Question>> {
    build(setup, Reading::Sanitized, |code| Prompt {
        user: format!("{ASKED}```{code}"),
        prefix: format!("{BEGUN}{code}\n"),
        ..Prompt::default()
    })
}

fn instruct(setup: &Setup<'_>) -> Result<Vec<Question>> {
    build(setup, Reading::UpToFence, |code| {
        let user = format!("{ASKED}```python\n{code}\n```\n");
        Prompt { user, prefix: format!("{BEGUN}{code}\n"), ..Prompt::default() }
    })
}

fn plain(setup: &Setup<'_>) -> Result<Vec<Question>> {
    build(setup, Reading::Whole, |code| Prompt { user: code.to_owned(), ..Prompt::default() })
}

fn build(setup: &Setup<'_>, reading: Reading, ask: impl Fn(&str) -> Prompt) -> Result<Vec<Question>> {
    let item = |(doc_id, row): (usize, &Row)| {
        let (prompt, entry_point) = (row.text("prompt")?.to_owned(), row.text("entry_point")?.to_owned());
        let tests = format!("{}\ncheck({entry_point})", row.text("test")?);
        let asked = ask(&prompt);
        Ok(setup.item(doc_id, asked, tests.clone(), Function { prompt, entry_point, tests, reading }))
    };
    setup.rows()?.iter().enumerate().map(item).collect()
}

/// How a response becomes a program.
#[derive(Debug, Clone, Copy)]
enum Reading {
    /// Behind the prompt.
    Whole,
    /// Behind the prompt, up to the first fence.
    UpToFence,
    /// What is inside the first fence, sanitised.
    Sanitized,
}

struct Function {
    prompt: String,
    entry_point: String,
    tests: String,
    reading: Reading,
}

impl Check for Function {
    fn check(&self, response: &str, sandbox: Option<&Sandbox>) -> Result<Score> {
        let to_fence = |text: &'_ str| text.split("```").next().unwrap_or_default().to_owned();
        let code = match self.reading {
            Reading::Whole => format!("{}{response}", self.prompt),
            Reading::UpToFence => format!("{}{}", self.prompt, to_fence(response)),
            Reading::Sanitized => {
                let fenced = response.split_once("```python\n").map_or(response, |(_, code)| code);
                let text = format!("{}\n{}", self.prompt, to_fence(fenced));
                sandbox.ok_or(Error::CodeNotAllowed)?.sanitize(&text, &self.entry_point)?
            }
        };
        run(sandbox, code, &self.tests)
    }
}
