//! CoDD: the model's marginals times a hidden Markov model of text. States of the block's cells are drawn together, given
//! the marginals (sharpened by `tau`) and what is known; then `ln p_i + ln B[s_i]` are the logits from which a base rule
//! ranks and tokens are drawn. So tokens of one step agree with one another as far as the prior knows.
//!
//! The prior is static, so it acts only once the part of the block that is masked is below `gamma` (strictly); before that
//! it is the base rule alone. Quirk of the reference code, kept: `tau` sharpens the marginals only, and latent sampling makes
//! even temperature 0 random. The chain runs from the first mask of the step to the last, and over up to 32 decided cells on
//! either side. Ties go left.

use std::sync::Arc;
use std::time::Instant;

use demask_kernels::{SoftmaxStats, softmax_stats};

use crate::error::{Error, Result};
use crate::registry::{Cost, Entry, Kind, Param};
use crate::rng::Purpose;
use crate::rule::{EVEN_STEPS, Schedule, TOKENS_PER_STEP, kept_rows};
use crate::sampler::ScoreDtype;
use crate::strategy::{Drawn, Keep, Needs, Selection, Step, Strategy, TokenRule};
use crate::trained::Prior;

/// Decided cells of the response on either side of the masks that the chain reads: the published block.
const CONTEXT: usize = 32;

pub(super) const ENTRY: Entry = Entry {
    name: "codd",
    aliases: &[],
    summary: "unmask the surest positions after joining the marginals with a hidden Markov model of text",
    source: "CoDD (Li et al. 2026)",
    cost: Cost::Part,
    params: &[
        TOKENS_PER_STEP,
        EVEN_STEPS,
        Param {
            key: "order",
            default: "confidence",
            kind: Kind::Choice(&["confidence", "margin", "entropy"]),
            help: "what ranks the masks",
        },
        Param {
            key: "tau",
            default: "0.1",
            kind: Kind::Number(0.01, 10.0),
            help: "temperature of the marginals beside the prior",
        },
        Param {
            key: "gamma",
            default: "0.7",
            kind: Kind::Number(0.0, 1.0),
            help: "the prior acts while less than this part of the block is masked (<)",
        },
    ],
    build: |values| {
        let missing = || Error::Missing {
            strategy: "codd".into(),
            what: "a trained prior: put prior.safetensors into the checkpoint's folder, or train one".into(),
        };
        Ok(Box::new(Codd {
            prior: values.context.prior.clone().ok_or_else(missing)?,
            schedule: Schedule::of(values)?,
            order: match values.text("order") {
                "margin" => |s| s.top1 - s.top2,
                "entropy" => |s| -s.entropy,
                _ => |s| s.top1,
            },
            tau: values.number("tau") as f32,
            gamma: values.number("gamma"),
        }))
    },
};

struct Codd {
    prior: Arc<Prior>,
    schedule: Schedule,
    order: fn(&SoftmaxStats) -> f32,
    tau: f32,
    gamma: f64,
}

impl Strategy for Codd {
    fn needs(&self) -> Needs {
        Needs { keep: Keep::All, ..Needs::default() }
    }

    fn select(&mut self, step: &Step<'_>) -> Result<Selection> {
        let rows = kept_rows(step, "codd")?;
        let masks = step.masked.len();
        let ratio = masks as f64 / step.block.entered_with.max(masks) as f64;
        if ratio >= self.gamma {
            let scores: Vec<f32> = step.marginals.iter().map(|m| (self.order)(&m.raw)).collect();
            return Ok(self.schedule.best(step, &scores));
        }
        let begun = Instant::now();
        let joined = self.join(step, rows);
        let inner_seconds = begun.elapsed().as_secs_f64();
        let stats: Vec<SoftmaxStats> = joined.iter().map(|row| softmax_stats(row)).collect();
        let scores: Vec<f32> = stats.iter().map(self.order).collect();
        let selection = self.schedule.best(step, &scores);
        let drawn = |&i: &usize| {
            let uniform = step.rng.uniform(Purpose::Token, step.index as u64, step.masked[i] as u64);
            let token = step.sampling.candidate(&joined[i], &stats[i], ScoreDtype::F32, uniform).token;
            let lse = step.marginals[i].raw.logsumexp;
            Drawn { token, probability: (rows.row(i)[token as usize] - lse).exp() }
        };
        let tokens = TokenRule::Given(selection.chosen.iter().map(drawn).collect());
        Ok(Selection { tokens, inner_calls: 1, inner_seconds, ..selection })
    }
}

impl Codd {
    /// `ln p_i + ln B[s_i]` of every mask, for states drawn together.
    fn join(&self, step: &Step<'_>, rows: &demask_model::Rows) -> Vec<Vec<f32>> {
        let (first, last) = reach(step);
        let sharpened: Vec<Vec<f32>> = rows.iter().map(|row| sharpen(row, self.tau)).collect();
        let place = |position: usize| step.masked.binary_search(&position);
        let evidence = (first..=last).map(|position| match place(position) {
            Ok(i) => self.prior.soft(&sharpened[i]),
            Err(_) => self.prior.hard(step.canvas.tokens()[position]),
        });
        let chain = self.prior.chain(evidence.collect());
        let states =
            chain.sample(|cell| step.rng.uniform(Purpose::Reveal, step.index as u64, (first + cell) as u64));
        let join = |(i, own): (usize, &Vec<f32>)| {
            let state = states[step.masked[i] - first];
            let both = |(token, &p): (usize, &f32)| p.ln() + self.prior.log_emission(state, token);
            let joined: Vec<f32> = own.iter().enumerate().map(both).collect();
            // A prior that allows nothing the model does says nothing.
            let possible = joined.iter().any(|z| *z > f32::NEG_INFINITY);
            if possible { joined } else { rows.row(i).to_vec() }
        };
        sharpened.iter().enumerate().map(join).collect()
    }
}

/// The first and the last cell of the chain: the masks, and decided cells of the response beside them.
fn reach(step: &Step<'_>) -> (usize, usize) {
    let (response, mask) = (step.canvas.response(), step.canvas.ids().mask);
    let decided = |&p: &usize| step.canvas.tokens()[p] != mask;
    let (first, last) = (step.masked[0], step.masked[step.masked.len() - 1]);
    let before = (response.start.max(first.saturating_sub(CONTEXT))..first).rev().take_while(decided);
    let after = (last + 1..response.end.min(last + 1 + CONTEXT)).take_while(decided);
    (before.last().unwrap_or(first), after.last().unwrap_or(last))
}

/// `softmax(z/τ)`.
fn sharpen(logits: &[f32], tau: f32) -> Vec<f32> {
    let scaled: Vec<f32> = logits.iter().map(|z| z / tau).collect();
    let lse = softmax_stats(&scaled).logsumexp;
    scaled.into_iter().map(|z| (z - lse).exp()).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use demask_model::Rows;

    use super::*;
    use crate::registry::{Context, StrategySpec};
    use crate::testing::{Scene, logs};
    use crate::trained::PartHeader;

    /// Tokens 0 and 1 only ever follow themselves.
    fn build(text: &str) -> Box<dyn Strategy> {
        let eye = Rows { data: vec![1.0, 0.0, 0.0, 1.0], width: 2 };
        let prior = Prior::new(PartHeader::default(), vec![0.5, 0.5], eye.clone(), eye).unwrap();
        let context = Context { prior: Some(Arc::new(prior)), ..Context::default() };
        text.parse::<StrategySpec>().unwrap().build(&context).unwrap()
    }

    fn scene(entered_with: usize, seed: u64) -> Scene {
        let mut scene = Scene::new(&[0.59, 0.56]);
        let data = [logs(&[0.59, 0.41]), logs(&[0.56, 0.44])].concat();
        scene.rows = Some(Rows { data, width: 2 });
        (scene.block.entered_with, scene.seed) = (entered_with, seed);
        scene
    }

    #[test]
    fn tokens_of_a_step_agree_with_the_prior() {
        let mut ones = 0;
        for seed in 0..400 {
            let got = scene(4, seed).select(&mut *build("codd:k=2,tau=1"));
            let TokenRule::Given(drawn) = got.tokens else { panic!("the prior draws") };
            assert_eq!(drawn[0].token, drawn[1].token);
            ones += usize::from(drawn[0].token == 1);
        }
        // 0.41·0.44 of 0.41·0.44 + 0.59·0.56.
        assert!((ones as f64 / 400.0 - 0.353).abs() < 0.08, "{ones}");
    }

    #[test]
    fn while_too_much_is_masked_the_base_rule_decides_alone() {
        let got = scene(2, 0).select(&mut *build("codd:k=1"));
        assert_eq!((got.chosen.as_slice(), &got.tokens), (&[0][..], &TokenRule::Sampled));
        // Exactly gamma is too much.
        let got = scene(4, 0).select(&mut *build("codd:gamma=0.5"));
        assert_eq!(got.tokens, TokenRule::Sampled);
    }
}
