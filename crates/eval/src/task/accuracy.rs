//! How many held-out problems a network solves: the validation of pre-training, where there is no loaded model yet.

use demask_decode::responses::responses;
use demask_decode::{Context, Options, StrategySpec};
use demask_model::Backbone;
use demask_model::text::Tokenizer;

use super::{Problem, Task};
use crate::error::Result;

/// The share of the problems, given with their prompts' tokens, that are answered right, and strictly so where the task
/// tells the difference. Every response has `length` tokens.
pub fn accuracy(
    task: &dyn Task,
    problems: &[(Problem, Vec<u32>)],
    length: usize,
    network: &dyn Backbone,
    tokenizer: &Tokenizer,
    strategy: &StrategySpec,
) -> Result<f64> {
    let prompts: Vec<(&[u32], usize)> =
        problems.iter().map(|(_, tokens)| (tokens.as_slice(), length)).collect();
    let answers = responses(network, &prompts, strategy, &Context::default(), &Options::default())?;
    let mut right = 0;
    for ((problem, _), answer) in problems.iter().zip(&answers) {
        let text = tokenizer.decode_response(&answer.tokens, &network.spec().ids.eos)?;
        let score = task.score(problem, &text);
        right += usize::from(score.correct && score.strict.unwrap_or(true));
    }
    Ok(right as f64 / problems.len().max(1) as f64)
}
