//! Responses with every second position masked: what the quality of weights is measured on, and what rounding looks at.

use std::path::Path;

use anyhow::{Result, anyhow};
use demask::decode::probe::{BackboneProbe, Probe as _, Question};
use demask::model::text::{ChatTemplate, Tokenizer};
use demask::model::{Backbone as _, Transformer};
use demask::train::data::Encoder;
use demask::train::tv_cache::Response;

use crate::command::tv_cache::data::Data;

/// Tokens that go through the model at once.
const TOKENS: usize = 4096;

/// This many responses of some data, encoded for the model of a folder.
pub(crate) fn responses(
    data: &str,
    count: usize,
    seed: u64,
    folder: &Path,
    model: &Transformer,
) -> Result<Vec<Response>> {
    let tokenizer = Tokenizer::open(folder, model.spec().vocab)?;
    let source = Data::open(data, Some(count), seed)?;
    let own_end = matches!(source, Data::Files(_));
    let encoder = Encoder::new(tokenizer, ChatTemplate::open(folder)?).with_end_of_turn(own_end);
    let source = source.source(&encoder);
    let rows = source.read(0..count.min(source.len()))?;
    let responses: Vec<Response> = rows.into_iter().flatten().filter(|r| !r.response.is_empty()).collect();
    if responses.is_empty() {
        return Err(anyhow!("no problem of {data} could be encoded for this model"));
    }
    Ok(responses)
}

/// Every second position of each response masked: each row of logits, in order.
pub(crate) fn marginals(
    model: &Transformer,
    responses: &[Response],
    visit: &mut dyn FnMut(&[f32]),
) -> Result<()> {
    let mask = model.spec().ids.mask;
    let canvases: Vec<(Vec<u32>, Vec<usize>)> = responses
        .iter()
        .enumerate()
        .map(|(index, r)| {
            let mut tokens = [r.prompt.as_slice(), &r.response].concat();
            let masked: Vec<usize> =
                (r.prompt.len()..tokens.len()).filter(|p| (p + index).is_multiple_of(2)).collect();
            masked.iter().for_each(|&p| tokens[p] = mask);
            (tokens, masked)
        })
        .collect();
    let questions: Vec<Question<'_>> = canvases
        .iter()
        .filter(|(_, masked)| !masked.is_empty())
        .map(|(tokens, masked)| Question { tokens, predict: masked, hidden: None })
        .collect();
    let vocab = model.spec().vocab;
    BackboneProbe::new(model, TOKENS)
        .ask_each(&questions, &mut |_, logits| logits.chunks_exact(vocab).for_each(&mut *visit))?;
    Ok(())
}
