//! The tasks' problems as token ids: prompt in the chat template, response as it is.

use std::collections::BTreeMap;

use super::cuts::Cuts;
use demask::eval::task::{self, Mixture, Problem, Split};
use demask::model::text::{ChatTemplate, Conversation, Message, Tokenizer};
use demask::train::pretrain::{Config, Error, Example, ExampleSource, Result, Stage};

/// The endless stream of training problems of a config.
pub(super) struct Problems<'a> {
    config: &'a Config,
    tokenizer: &'a Tokenizer,
    template: &'a ChatTemplate,
    /// What `stream` was made with.
    mixture: BTreeMap<String, f64>,
    stream: Mixture,
    /// Index of the next item of `stream`.
    next: u64,
}

impl<'a> Problems<'a> {
    pub(super) fn new(config: &'a Config, tokenizer: &'a Tokenizer, template: &'a ChatTemplate) -> Self {
        let mixture = config.data.mixture.clone();
        let stream = stream(&mixture, config.seed);
        Self { config, tokenizer, template, mixture, stream, next: 0 }
    }
}

impl ExampleSource for Problems<'_> {
    fn example(&mut self, index: u64, stage: &Stage) -> Result<Example> {
        let mixture = self.config.mixture(stage);
        if index < self.next || *mixture != self.mixture {
            self.mixture.clone_from(mixture);
            (self.stream, self.next) = (stream(mixture, self.config.seed), 0);
        }
        let skip = usize::try_from(index - self.next).unwrap_or(usize::MAX);
        let problem = self.stream.nth(skip);
        self.next = index + 1;
        let Some(problem) = problem else {
            return Err(Error::Example { index, problem: "does not exist: no task has a weight".into() });
        };
        if stage.cut > 0.0 {
            let Problem { prompt, response, .. } = &problem;
            let cuts = Cuts::draw(stage.cut, self.config.seed, index, prompt, response);
            let cut = encode_cut(self.tokenizer, self.template, &problem, &cuts)?;
            // Pieces are more tokens; what they make too long for any canvas stays whole.
            if self.config.data.lengths.last().is_some_and(|&longest| cut.response.len() < longest) {
                return Ok(cut);
            }
        }
        Ok(encode(self.tokenizer, self.template, &problem)?)
    }
}

/// Prompt and response of a problem as ids.
pub(super) fn encode(
    tokenizer: &Tokenizer,
    template: &ChatTemplate,
    problem: &Problem,
) -> demask::model::Result<Example> {
    let messages = [Message::new("user", problem.prompt.as_str())];
    let prompt = template.render(&Conversation::new(&messages))?;
    Ok(Example { prompt: tokenizer.encode(&prompt)?, response: tokenizer.encode(&problem.response)? })
}

/// The same with words cut; what the template puts around the prompt stays whole.
fn encode_cut(
    tokenizer: &Tokenizer,
    template: &ChatTemplate,
    problem: &Problem,
    cuts: &Cuts,
) -> demask::model::Result<Example> {
    let messages = [Message::new("user", problem.prompt.as_str())];
    let rendered = template.render(&Conversation::new(&messages))?;
    let Some((before, after)) = rendered.split_once(problem.prompt.as_str()) else {
        return encode(tokenizer, template, problem);
    };
    let ids = |pieces: &[&str]| -> demask::model::Result<Vec<u32>> {
        let ids: Vec<Vec<u32>> =
            pieces.iter().map(|piece| tokenizer.encode(piece)).collect::<demask::model::Result<_>>()?;
        Ok(ids.concat())
    };
    // The first and the last piece keep what stands around the prompt, so that an example without a cut is encoded as ever.
    let mut asked: Vec<String> = cuts.cut(&problem.prompt).into_iter().map(str::to_owned).collect();
    if let Some(first) = asked.first_mut() {
        first.insert_str(0, before);
    }
    if let Some(last) = asked.last_mut() {
        last.push_str(after);
    }
    let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
    Ok(Example { prompt: ids(&asked)?, response: ids(&cuts.cut(&problem.response))? })
}

fn stream(mixture: &BTreeMap<String, f64>, seed: u64) -> Mixture {
    task::mixture(&super::weights(mixture), Split::Train, seed)
}
