//! Certainty forcing of a model by its own answers (dParallel, Chen et al. 2026): the pre-training loop with one stage of
//! certainty, from the checkpoint's own weights, on what the model decodes greedily.
//!
//! Invariant: examples depend on the answers and their order alone; what is held out is never trained on.

use demask_decode::registry::Context;
use demask_decode::responses::responses;
use demask_decode::{Options, StrategySpec, Suppression};
use demask_model::{Backbone, Spec};

use crate::error::Result;
use crate::optimizer::AdamW;
use crate::part::trajectory::Trajectory;
use crate::pretrain::{
    self, Config, Data, Example, ExampleSource, Objective, Precision, Report, Score, Stage,
};
use crate::schedule::Schedule;

/// Answers that are held out at most.
const HELD: usize = 64;

/// The strategy that held-out answers are decoded with.
const DECODED_WITH: &str = "entropy-threshold:threshold=0.5";

/// What to choose; `None` is as published.
#[derive(Debug, Clone, PartialEq)]
pub struct Distillation {
    /// Seed of the masks and of the order.
    pub seed: u64,
    /// Cells of an answer.
    pub length: usize,
    /// Updates.
    pub steps: u64,
    /// Learning rate after the warm-up.
    pub rate: f64,
    /// Weight of the entropy: 1 for shifted models (Dream), 2 for others (LLaDA).
    pub entropy: Option<f32>,
    /// Length of the blocks trained within: none (0) for shifted models, 32 for others.
    pub block: Option<usize>,
    /// Tokens of one update.
    pub batch_tokens: usize,
}

impl Distillation {
    /// The run, for a model of this shape.
    pub fn config(&self, spec: &Spec) -> Config {
        // As published: Dream's trainer masks the whole response, LLaDA's one block.
        let (entropy, block) = if spec.shift.is_some() { (1.0, 0) } else { (2.0, 32) };
        Config {
            seed: self.seed,
            precision: Precision::F32,
            model: pretrain::Model::of(spec),
            data: Data {
                mixture: [("own answers".to_owned(), 1.0)].into(),
                lengths: vec![self.length],
                tight: 1.0,
                batch_tokens: self.batch_tokens,
            },
            optimizer: AdamW { beta2: 0.999, ..AdamW::default() },
            muon: None,
            stage: vec![Stage {
                objective: Objective::Certainty,
                steps: self.steps,
                mixture: Default::default(),
                prompt: 0.0,
                ordered: 0.0,
                causal: 0.0,
                prefix: 0.0,
                cut: 0.0,
                entropy: self.entropy.unwrap_or(entropy),
                block: self.block.unwrap_or(block),
                rate: Schedule { peak: self.rate, warmup: self.steps / 20, floor: 0.0 },
            }],
            report: Report { validate_steps: (self.steps / 8).max(1), ..Report::default() },
        }
    }
}

/// The model's own answers, over and over.
#[derive(Debug, Clone)]
pub struct OwnAnswers {
    answers: Vec<Trajectory>,
    eos: Vec<u32>,
}

/// Answers that are not trained on, and how they are decoded.
#[derive(Debug, Clone)]
pub struct HeldOut {
    answers: Vec<Trajectory>,
    strategy: StrategySpec,
    mask: u32,
}

/// Answers to train on, and a few that are held out.
pub fn split(mut answers: Vec<Trajectory>, spec: &Spec) -> Result<(OwnAnswers, HeldOut)> {
    let held = answers.split_off(answers.len() - HELD.min(answers.len() / 4));
    let held = HeldOut { answers: held, strategy: DECODED_WITH.parse()?, mask: spec.ids.mask };
    Ok((OwnAnswers { answers, eos: spec.ids.eos.clone() }, held))
}

impl ExampleSource for OwnAnswers {
    fn example(&mut self, index: u64, _: &Stage) -> Result<Example> {
        let own = &self.answers[(index % self.answers.len() as u64) as usize];
        // Its end is added again; one that never ended loses its last token for it.
        let response = own.response[..own.written(&self.eos) - 1].to_vec();
        Ok(Example { prompt: own.prompt.clone(), response })
    }
}

impl HeldOut {
    /// How often the decoded answer is the teacher's, and the share of its passes that is saved.
    pub fn scores(&self, model: &dyn Backbone) -> Result<Vec<Score>> {
        let prompts: Vec<_> =
            self.answers.iter().map(|own| (own.prompt.as_slice(), own.response.len())).collect();
        let suppression = Suppression { ids: vec![self.mask], ..Suppression::default() };
        let options = Options { suppression, ..Options::default() };
        let decoded = responses(model, &prompts, &self.strategy, &Context::default(), &options)?;
        let pairs = || decoded.iter().zip(&self.answers);
        let same = pairs().filter(|(one, own)| one.tokens == own.response).count();
        let passes: usize = decoded.iter().map(|one| one.totals.steps).sum();
        let cells: usize = self.answers.iter().map(|own| own.response.len()).sum();
        let score = |name: &str, value: f64| Score { name: name.into(), value };
        Ok(vec![
            score("the teacher's answers", same as f64 / self.answers.len().max(1) as f64),
            score("passes saved", 1.0 - passes as f64 / cells.max(1) as f64),
        ])
    }
}

#[cfg(test)]
mod tests {
    use demask_model::config::{Shift, SpecialIds};

    use super::*;

    fn spec(shift: Shift) -> Spec {
        let ids = SpecialIds { mask: 9, eos: vec![8], pad: None, bos: None };
        Spec { shift, vocab: 10, ..Spec::plain("dream", ids) }
    }

    fn some() -> Distillation {
        Distillation {
            seed: 0,
            length: 8,
            steps: 40,
            rate: 1e-4,
            entropy: None,
            block: None,
            batch_tokens: 64,
        }
    }

    #[test]
    fn what_is_not_chosen_is_as_published() {
        let some = some();
        let (dream, llada) = (some.config(&spec(Shift::Global)), some.config(&spec(Shift::None)));
        assert_eq!((dream.stage[0].entropy, dream.stage[0].block), (1.0, 0));
        assert_eq!((llada.stage[0].entropy, llada.stage[0].block), (2.0, 32));
        let own = Distillation { entropy: Some(0.5), block: Some(4), ..some };
        let own = own.config(&spec(Shift::None));
        assert_eq!((own.stage[0].entropy, own.stage[0].block, own.stage[0].rate.warmup), (0.5, 4, 2));
    }

    #[test]
    fn a_quarter_is_held_out_and_an_answer_loses_its_end() {
        let answer = |response: Vec<u32>| Trajectory { prompt: vec![1], response, order: vec![0] };
        let answers =
            vec![answer(vec![2, 8, 8]), answer(vec![3, 4, 5]), answer(vec![6, 8, 8]), answer(vec![7, 8, 8])];
        let stage = &some().config(&spec(Shift::None)).stage[0];
        let (mut own, held) = split(answers, &spec(Shift::None)).unwrap();
        assert_eq!((own.answers.len(), held.answers.len()), (3, 1));
        assert_eq!(own.example(0, stage).unwrap().response, [2]);
        assert_eq!(
            own.example(4, stage).unwrap().response,
            [3, 4],
            "one that never ended loses its last token"
        );
    }
}
