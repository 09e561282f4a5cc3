//! A public benchmark under one of its protocols as a suite.
//!
//! Invariant: every prompt is built and cut before the first is asked, so whatever is wrong with one shows before any
//! forward pass.

use std::sync::Arc;

use demask_engine::Text;
use demask_model::text::Trailing;
use rayon::prelude::*;

use super::{Item, Suite};
use crate::benchmark::{self, Definition};
use crate::error::{Error, Remedy, Result};
use crate::sandbox::Sandbox;
use crate::task::Score;

/// The questions of a benchmark, as one model is asked them.
#[derive(Clone)]
pub struct Questions {
    name: String,
    definition: &'static Definition,
    asked: Arc<Vec<Prepared>>,
    first: usize,
    sandbox: Option<Arc<Sandbox>>,
}

/// How a model takes a benchmark.
#[derive(Clone, Copy)]
pub struct Reader<'a> {
    /// How it reads.
    pub text: &'a Text,
    /// What becomes of white space at the end of an answer that is already begun.
    pub trailing: Trailing,
    /// Another length of the responses than the protocol's.
    pub length: Option<usize>,
}

struct Prepared {
    item: benchmark::Question,
    prompt: String,
    tokens: Vec<u32>,
    /// The prompt lost more of its beginning than the protocol takes.
    cut: bool,
}

impl Questions {
    /// The first `limit` of these questions, of every subject alike. A benchmark of programs needs the sandbox.
    pub fn new(
        (definition, mut items): (&'static Definition, Vec<benchmark::Question>),
        limit: usize,
        reader: &Reader<'_>,
        sandbox: Option<Arc<Sandbox>>,
    ) -> Result<Self> {
        if definition.code && sandbox.is_none() {
            return Err(Error::CodeNotAllowed);
        }
        // Records of one subject, or of Countdown with three numbers, are not those of the whole benchmark.
        let name = match items.first().map(|item| &item.task) {
            Some(task) if items.iter().all(|item| item.task == *task) => task.clone(),
            _ => definition.task.to_owned(),
        };
        items.sort_by_key(|item| item.doc_id);
        items.truncate(limit);
        let asked: Vec<Prepared> =
            items.into_par_iter().map(|item| ask(item, reader)).collect::<Result<_>>()?;
        let first = asked.len();
        Ok(Self { name, definition, asked: Arc::new(asked), first, sandbox })
    }

    /// Only the first `n` of them.
    pub fn first(&self, n: usize) -> Self {
        Self { first: n.min(self.asked.len()), ..self.clone() }
    }

    /// How many of the questions do not fit the model's context and lose the beginning of their prompt.
    pub fn cut(&self) -> usize {
        self.asked[..self.first].iter().filter(|asked| asked.cut).count()
    }
}

fn ask(mut item: benchmark::Question, reader: &Reader<'_>) -> Result<Prepared> {
    item.max_new_tokens = reader.length.unwrap_or(item.max_new_tokens);
    let positions = reader.text.spec().max_positions;
    if item.max_new_tokens >= positions {
        let problem = format!(
            "{} asks for a response of {} tokens, and the model's context of {positions} leaves no room for the question",
            item.task, item.max_new_tokens
        );
        return Err(Error::Choice { problem, remedy: Remedy::ShorterResponse });
    }
    let prompt = item.text(reader.text.chat(), reader.trailing)?;
    let ids = item.encode(&prompt, reader.text.tokenizer())?;
    let tokens = item.kept(&ids, positions).to_vec();
    let cut = tokens.len() < ids.len().min(item.max_prompt_tokens.unwrap_or(usize::MAX));
    Ok(Prepared { item, prompt, tokens, cut })
}

impl Suite for Questions {
    fn name(&self) -> &str {
        &self.name
    }

    fn version(&self) -> u32 {
        self.definition.version
    }

    fn protocol(&self) -> Option<String> {
        Some(self.definition.protocol.to_string())
    }

    fn len(&self) -> usize {
        self.first
    }

    fn item(&self, index: usize, _: &Text) -> Result<Item> {
        let Prepared { item, prompt, tokens, .. } = &self.asked[index];
        Ok(Item {
            id: item.id(),
            kind: (item.task != self.name).then(|| item.task.clone()),
            prompt: prompt.clone(),
            tokens: tokens.clone(),
            max_new_tokens: item.max_new_tokens,
            until: item.until.clone(),
        })
    }

    fn score(&self, index: usize, response: &str) -> Result<Score> {
        self.asked[index].item.score(response, self.sandbox.as_deref())
    }
}
