//! A second model beside the backbone: causal, with the same tokens, asked what it thinks of texts that strategies draft
//! (APD, copulas). Its keys and values are kept between questions and cropped to what two texts have in common, which is
//! exact for a causal model.
//!
//! Invariant: only strategies that say so ([`Needs::assistant`](crate::strategy::Needs::assistant)) are given one, so a
//! second model never changes a token of any other.

use std::collections::BTreeSet;
use std::sync::Arc;

use demask_model::{Backbone, Grid, KvCache, Query, Reuse, Rows, Spec};

use crate::clock::{StepCost, Stopwatch};
use crate::error::{Error, Result};
use crate::strategy::Draft;

/// A causal model that assists a diffusion model.
pub struct Assistant {
    backbone: Arc<dyn Backbone>,
    /// The assisted model's mask, which is nothing to say.
    mask: u32,
}

impl Assistant {
    /// This model, for a backbone of this shape. Refused unless its rows predict the next token, it ends a text as the
    /// backbone does and has the same mask, if it has one at all; that both have the same tokenizer is for the caller to
    /// see to.
    pub fn new(backbone: Arc<dyn Backbone>, assisted: &Spec) -> Result<Self> {
        let spec = backbone.spec();
        let refuse = |why: String| Err(Error::Assistant(why));
        if !spec.shift.is_some() {
            return refuse("its rows predict their own position, not the next token".into());
        }
        let (own, ends) = (&spec.ids.eos, &assisted.ids.eos);
        if own.first() != ends.first() {
            return refuse(format!(
                "its end of sequence is {:?} and the model's is {:?}",
                own.first(),
                ends.first()
            ));
        }
        // One that names a single end leaves open which others there are.
        let set = |ids: &[u32]| ids.iter().copied().collect::<BTreeSet<u32>>();
        if own.len() > 1 && ends.len() > 1 && set(own) != set(ends) {
            return refuse(format!("its ends of sequence are {own:?} and the model's are {ends:?}"));
        }
        if spec.ids.has_mask() && spec.ids.mask != assisted.ids.mask {
            return refuse(format!("its mask is {} and the model's is {}", spec.ids.mask, assisted.ids.mask));
        }
        Ok(Self { backbone, mask: assisted.ids.mask })
    }

    /// Whether it is described as a diffusion model. It is run causally all the same, which is right for one that was
    /// trained so under the shape of the model it assists, and only for such a one.
    pub fn is_described_as_diffusion(&self) -> bool {
        self.backbone.spec().ids.has_mask()
    }

    /// Tokens that both models know.
    pub fn shared_vocab(&self, vocab: usize) -> usize {
        self.backbone.spec().vocab.min(vocab)
    }

    /// Identifies its weights.
    pub fn fingerprint(&self) -> String {
        self.backbone.fingerprint()
    }
}

/// What one canvas keeps of its assistant.
pub(crate) struct Assisted {
    assistant: Arc<Assistant>,
    cache: KvCache,
    /// The text whose rows the cache holds.
    tokens: Vec<u32>,
}

impl Assisted {
    pub(crate) fn new(assistant: Arc<Assistant>) -> Self {
        Self { assistant, cache: KvCache::new(), tokens: Vec::new() }
    }
}

/// A canvas's question.
pub(crate) struct Ask<'a> {
    pub(crate) assisted: &'a mut Assisted,
    pub(crate) draft: Draft,
    pub(crate) cost: &'a mut StepCost,
}

/// Answers drafts of several canvases in one pass: for each the logits of the positions from its first wanted to one past
/// its end. All must have the same assistant.
pub(crate) fn answer(asks: &mut [Ask<'_>]) -> Result<Vec<Rows>> {
    let Some(first) = asks.first() else { return Ok(Vec::new()) };
    let Assistant { backbone, mask } = first.assisted.assistant.as_ref();
    let (backbone, mask) = (backbone.clone(), *mask as usize);
    let watch = Stopwatch::start();
    let plans: Vec<Question> = asks.iter_mut().map(|ask| Question::new(ask, backbone.spec())).collect();
    let queries = asks.iter_mut().zip(&plans).map(|(ask, plan)| Query {
        tokens: &plan.tokens,
        predict: &plan.predict,
        cache: Some(Reuse { cache: &mut ask.assisted.cache, rows: &plan.rows }),
        blocks: Some(Grid::new(0, 1)),
        ..Query::default()
    });
    let mut batch: Vec<Query<'_>> = queries.collect();
    let passes = backbone.forward(&mut batch)?;
    drop(batch);
    let mut predicting = Rows { data: Vec::new(), width: backbone.spec().hidden };
    passes.iter().for_each(|pass| predicting.data.extend_from_slice(&pass.predicting.data));
    let vocab = backbone.spec().vocab;
    let mut logits = Vec::with_capacity(predicting.len() * vocab);
    backbone.logits(&predicting, &mut |_, chunk| logits.extend_from_slice(chunk))?;
    logits.chunks_exact_mut(vocab).filter_map(|row| row.get_mut(mask)).for_each(|z| *z = f32::NEG_INFINITY);
    let all: usize = plans.iter().map(|plan| plan.rows.len()).sum();
    let seconds = watch.seconds();
    let mut answers = Vec::with_capacity(asks.len());
    let mut rest = logits.as_slice();
    for (ask, plan) in asks.iter_mut().zip(&plans) {
        let (own, later) = rest.split_at(plan.predict.len() * vocab);
        rest = later;
        answers.push(Rows { data: own.to_vec(), width: vocab });
        ask.assisted.tokens = ask.draft.tokens.clone();
        ask.cost.assistant(seconds * plan.rows.len() as f64 / all.max(1) as f64, plan.rows.len());
    }
    Ok(answers)
}

/// A draft as a query.
struct Question {
    /// The draft and a token that nobody sees, whose position is predicted too.
    tokens: Vec<u32>,
    predict: Vec<usize>,
    rows: Vec<usize>,
}

impl Question {
    /// Crops the cache to what the draft has in common with the last, and computes the rest.
    fn new(ask: &mut Ask<'_>, spec: &Spec) -> Self {
        let Draft { tokens, from } = &ask.draft;
        let known = &ask.assisted.tokens;
        let common = tokens.iter().zip(known).take_while(|(a, b)| a == b).count();
        let start = common.min(from.saturating_sub(1)).min(ask.assisted.cache.rows());
        ask.assisted.cache.crop(start);
        let mut padded: Vec<u32> =
            tokens.iter().map(|&t| if (t as usize) < spec.vocab { t } else { 0 }).collect();
        padded.push(0);
        Self {
            predict: (*from..=tokens.len()).collect(),
            rows: (start..tokens.len()).collect(),
            tokens: padded,
        }
    }
}
