//! MMLU-Pro: questions with up to ten choices in fourteen subjects, reasoned through before the letter is given.
//!
//! The shots are the first rows of the validation split in the same subject. Dream's fork prints options as they are and
//! the worked reasoning behind `Answer:`; lm_eval 0.4.13 strips options and takes the reasoning as the target of a shot.
//! The two come out alike but for white space.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::Regex;

use super::data::Row;
use super::extract::{self, Which};
use super::{Check, Definition, Prompt, Protocol, Question, Setup};
use crate::error::{Error, Result};
use crate::sandbox::Sandbox;
use crate::task::Score;

pub(super) const TASK: &str = "mmlu_pro";
const LETTERS: &[u8] = b"ABCDEFGHIJ";
const STEPS: &str = "Let's think step by step.";

const SUBJECTS: [&str; 14] = [
    "biology",
    "business",
    "chemistry",
    "computer science",
    "economics",
    "engineering",
    "health",
    "history",
    "law",
    "math",
    "other",
    "philosophy",
    "physics",
    "psychology",
];

pub(super) const DREAM: Definition = Definition {
    task: TASK,
    aliases: &["mmlu-pro"],
    protocol: Protocol::Dream,
    version: 1,
    source: "DreamLM/Dream@fac0a7f eval_instruct, mmlu_pro 1.0",
    shots: 4,
    chat: true,
    until: &["</s>", "Q:", "<|im_end|>"],
    max_new_tokens: 128,
    max_prompt_tokens: Some(1024),
    code: false,
    hub: Some(("TIGER-Lab/MMLU-Pro", "data/")),
    tuning: None,
    build,
};

pub(super) const LM_EVAL: Definition = Definition {
    protocol: Protocol::LmEval,
    source: "lm_eval 0.4.13, mmlu_pro 3.1",
    shots: 5,
    chat: false,
    until: &["Question:"],
    max_new_tokens: 2048,
    max_prompt_tokens: None,
    ..DREAM
};

static ANSWER: LazyLock<Regex> = LazyLock::new(|| extract::pattern(r"answer is \(?([ABCDEFGHIJ])\)?"));

/// The subject a task's name ends with, if it is one of ours.
pub(super) fn subject(task: &str) -> Option<&'static str> {
    let name = task.strip_prefix("mmlu_pro_")?;
    SUBJECTS.into_iter().find(|subject| subject.replace(' ', "_") == name)
}

fn build(setup: &Setup<'_>) -> Result<Vec<Question>> {
    let pool = if setup.shots > 0 { setup.shot_rows("validation")? } else { Vec::new() };
    let dream = setup.definition.protocol == Protocol::Dream;
    let mut shots: HashMap<&str, String> = HashMap::new();
    for subject in SUBJECTS {
        let rows = pool.iter().filter(|row| row.text("category").is_ok_and(|c| c == subject));
        let texts = rows.take(setup.shots).map(|row| if dream { dream_shot(row) } else { shot(row) });
        shots.insert(subject, texts.collect::<Result<_>>()?);
    }
    let rows = setup.rows()?;
    if let Some(row) = rows.iter().find(|r| r.text("category").is_ok_and(|c| !shots.contains_key(c))) {
        return Err(row.problem("has a category that is not one of MMLU-Pro's fourteen"));
    }
    let mut items = Vec::new();
    for subject in SUBJECTS {
        let rows = rows.iter().filter(|row| row.text("category").is_ok_and(|c| c == subject));
        for (doc_id, row) in rows.enumerate() {
            let prompt = Prompt {
                system: format!(
                    "The following are multiple choice questions (with answers) about {subject}. Think step by step and \
                     then finish your answer with \"the answer is (X)\" where X is the correct letter choice.\n"
                ),
                user: format!("{}{}Answer: {STEPS}", shots[subject], question(row, !dream)?),
                prefix: String::new(),
            };
            let target = row.text("answer")?.to_owned();
            let mut item = setup.item(doc_id, prompt, target.clone(), Letter { target });
            item.task = format!("{TASK}_{}", subject.replace(' ', "_"));
            items.push(item);
        }
    }
    if items.is_empty() {
        return Err(Error::Data(format!("{} has no category of MMLU-Pro", setup.data.display())));
    }
    Ok(items)
}

fn question(row: &Row, strip: bool) -> Result<String> {
    let mut text = format!("Question:\n{}\nOptions:\n", row.text("question")?);
    for (letter, option) in LETTERS.iter().zip(row.texts("options")?) {
        let option = if strip { option.trim() } else { option };
        text += &format!("{}. {option}\n", char::from(*letter));
    }
    Ok(text)
}

fn dream_shot(row: &Row) -> Result<String> {
    let asked = format!("A: {STEPS}");
    let reasoning = row.text("cot_content")?.replace(&asked, &format!("Answer: {STEPS}"));
    Ok(format!("{}{reasoning}\n\n", question(row, false)?))
}

fn shot(row: &Row) -> Result<String> {
    let reasoning = row.text("cot_content")?.replace(&format!("A: {STEPS} "), "");
    Ok(format!("{}Answer: {STEPS} {reasoning}\n\n", question(row, true)?))
}

struct Letter {
    target: String,
}

impl Check for Letter {
    fn check(&self, response: &str, _: Option<&Sandbox>) -> Result<Score> {
        let letter = extract::find(&ANSWER, response, Which::First);
        let correct = letter.as_deref().is_some_and(|l| extract::bare(l) == extract::bare(&self.target));
        Ok(Score { correct, strict: None, extracted: letter })
    }
}
