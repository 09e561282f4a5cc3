//! GSM8K: word problems with a number for an answer.
//!
//! Three definitions: Dream's (lm_eval's `gsm8k_cot` without shots, through the chat template), lm_eval's `gsm8k_cot`
//! (eight fixed worked examples) and lm_eval's `gsm8k` (five examples drawn from the training split).

use std::sync::LazyLock;

use regex::Regex;

use super::data::Row;
use super::extract::{self, NUMBER, Which};
use super::python_random::PythonRandom;
use super::{Check, Definition, Prompt, Protocol, Question, Setup};
use crate::error::Result;
use crate::sandbox::Sandbox;
use crate::task::Score;

/// Seed lm_eval draws shots with.
const SEED: u32 = 1234;

const UNTIL_Q: &[&str] = &["Q:", "</s>", "<|im_end|>"];

pub(super) const DREAM: Definition = Definition {
    task: "gsm8k_cot",
    aliases: &["gsm8k"],
    protocol: Protocol::Dream,
    version: 1,
    source: "DreamLM/Dream@fac0a7f eval_instruct, gsm8k_cot 3.0",
    shots: 0,
    chat: true,
    until: UNTIL_Q,
    max_new_tokens: 256,
    max_prompt_tokens: Some(1024),
    code: false,
    hub: Some(("openai/gsm8k", "main/")),
    tuning: Some("train"),
    build: chain_of_thought,
};

pub(super) const LM_EVAL_COT: Definition = Definition {
    protocol: Protocol::LmEval,
    aliases: &[],
    source: "lm_eval 0.4.13, gsm8k_cot 3.0",
    shots: 8,
    chat: false,
    max_prompt_tokens: None,
    ..DREAM
};

pub(super) const LM_EVAL: Definition = Definition {
    task: "gsm8k",
    source: "lm_eval 0.4.13, gsm8k 3.0",
    shots: 5,
    until: &["Question:", "</s>", "<|im_end|>"],
    build: drawn,
    ..LM_EVAL_COT
};

static STRICT_COT: LazyLock<Regex> = LazyLock::new(|| extract::pattern(r"The answer is (\-?[0-9\.\,]+)."));
static STRICT: LazyLock<Regex> = LazyLock::new(|| extract::pattern(r"#### (\-?[0-9\.\,]+)"));

fn chain_of_thought(setup: &Setup<'_>) -> Result<Vec<Question>> {
    let question = |question: &str| format!("Q: {question}\nA:");
    let shots: String = WORKED
        .iter()
        .take(setup.shots)
        .map(|(text, answer)| format!("{} {answer}\n\n", question(text)))
        .collect();
    let item = |(doc_id, row): (usize, &Row)| {
        let target = row.text("answer")?.rsplit("####").next().unwrap_or_default().trim().to_owned();
        let user = format!("{shots}{}", question(row.text("question")?));
        let check = Number { strict: &STRICT_COT, target: target.clone() };
        Ok(setup.item(doc_id, Prompt { user, ..Prompt::default() }, target, check))
    };
    setup.rows()?.iter().enumerate().map(item).collect()
}

fn drawn(setup: &Setup<'_>) -> Result<Vec<Question>> {
    let question = |row: &Row| Ok::<_, crate::Error>(format!("Question: {}\nAnswer:", row.text("question")?));
    let pool = if setup.shots > 0 { setup.shot_rows("train")? } else { Vec::new() };
    let mut random = PythonRandom::new(SEED);
    let mut items = Vec::new();
    for (doc_id, row) in setup.rows()?.iter().enumerate() {
        let mut user = String::new();
        // A question of the training split is not among its own shots.
        let spare = usize::from(setup.tuning.is_some() && setup.shots > 0);
        let drawn = random.sample(pool.len(), setup.shots + spare);
        let others = drawn.into_iter().filter(|&shot| spare == 0 || shot != doc_id);
        for shot in others.take(setup.shots) {
            user += &format!("{} {}\n\n", question(&pool[shot])?, pool[shot].text("answer")?);
        }
        user += &question(row)?;
        let target = row.text("answer")?.to_owned();
        let check = Number { strict: &STRICT, target: target.clone() };
        items.push(setup.item(doc_id, Prompt { user, ..Prompt::default() }, target, check));
    }
    Ok(items)
}

struct Number {
    strict: &'static Regex,
    target: String,
}

impl Check for Number {
    /// Right if the last number is; strictly if the first one stated in the form asked for is.
    fn check(&self, response: &str, _: Option<&Sandbox>) -> Result<Score> {
        let target = extract::number(&self.target);
        let right = |answer: &Option<String>| answer.as_deref().is_some_and(|a| extract::number(a) == target);
        let flexible = extract::find(&NUMBER, response, Which::Last);
        let strict = extract::find(self.strict, response, Which::First);
        Ok(Score { correct: right(&flexible), strict: Some(right(&strict)), extracted: flexible })
    }
}

/// The worked examples of Wei et al., in lm_eval's wording.
const WORKED: [(&str, &str); 8] = [
    (
        "There are 15 trees in the grove. Grove workers will plant trees in the grove today. After they are \
         done, there will be 21 trees. How many trees did the grove workers plant today?",
        "There are 15 trees originally. Then there were 21 trees after some more were planted. So there must \
         have been 21 - 15 = 6. The answer is 6.",
    ),
    (
        "If there are 3 cars in the parking lot and 2 more cars arrive, how many cars are in the parking lot?",
        "There are originally 3 cars. 2 more cars arrive. 3 + 2 = 5. The answer is 5.",
    ),
    (
        "Leah had 32 chocolates and her sister had 42. If they ate 35, how many pieces do they have left in \
         total?",
        "Originally, Leah had 32 chocolates. Her sister had 42. So in total they had 32 + 42 = 74. After \
         eating 35, they had 74 - 35 = 39. The answer is 39.",
    ),
    (
        "Jason had 20 lollipops. He gave Denny some lollipops. Now Jason has 12 lollipops. How many lollipops \
         did Jason give to Denny?",
        "Jason started with 20 lollipops. Then he had 12 after giving some to Denny. So he gave Denny 20 - 12 \
         = 8. The answer is 8.",
    ),
    (
        "Shawn has five toys. For Christmas, he got two toys each from his mom and dad. How many toys does he \
         have now?",
        "Shawn started with 5 toys. If he got 2 toys each from his mom and dad, then that is 4 more toys. 5 + \
         4 = 9. The answer is 9.",
    ),
    (
        "There were nine computers in the server room. Five more computers were installed each day, from \
         monday to thursday. How many computers are now in the server room?",
        "There were originally 9 computers. For each of 4 days, 5 more computers were added. So 5 * 4 = 20 \
         computers were added. 9 + 20 is 29. The answer is 29.",
    ),
    (
        "Michael had 58 golf balls. On tuesday, he lost 23 golf balls. On wednesday, he lost 2 more. How many \
         golf balls did he have at the end of wednesday?",
        "Michael started with 58 golf balls. After losing 23 on tuesday, he had 58 - 23 = 35. After losing 2 \
         more, he had 35 - 2 = 33 golf balls. The answer is 33.",
    ),
    (
        "Olivia has $23. She bought five bagels for $3 each. How much money does she have left?",
        "Olivia had 23 dollars. 5 bagels for 3 dollars each will be 5 x 3 = 15 dollars. So she has 23 - 15 \
         dollars left. 23 - 15 is 8. The answer is 8.",
    ),
];
