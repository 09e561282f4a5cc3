//! Learn2PD's target for the policy's network: of each mask, whether the token the model now finds most probable is the one
//! that decoding one token at a time finally writes. Binary cross-entropy over the masks of states of recorded decodings.
//!
//! The number of passes is drawn between none and as many as there are decisions, since a fast decoding has made fewer.
//! Baseline: the model's confidence taken for that probability.

use candle_core::{Device, Tensor};
use demask_decode::rng::{Purpose, Rng};
use demask_engine::counted;
use demask_kernels::softmax_stats;
use demask_model::{Backbone, Query, Rows};

use super::network::{Inputs, Network, PolicyShape};
use super::trajectory::Trajectory;
use super::{Objective, Slots};
use crate::error::{Error, Result};

/// Confidences are kept this far from 0 and 1 in the baseline.
const FLOOR: f64 = 1e-6;

/// States with what became of their most probable tokens.
#[derive(Default)]
struct Examples {
    inputs: Inputs,
    /// 1 where the most probable token is the one finally written.
    right: Vec<f32>,
}

/// The network learning what is finally written.
pub struct Imitation<'a> {
    backbone: &'a dyn Backbone,
    /// The network.
    pub network: Network,
    trajectories: &'a [Trajectory],
    training: usize,
    batch: usize,
    seed: u64,
    gathered: Examples,
    held: Vec<Examples>,
}

impl<'a> Imitation<'a> {
    /// On trajectories of equal length that this backbone made; `held` states are held out.
    pub fn new(
        backbone: &'a dyn Backbone,
        trajectories: &'a [Trajectory],
        shape: PolicyShape,
        batch: usize,
        held: usize,
        seed: u64,
    ) -> Result<Self> {
        if trajectories.len() < 2 || batch == 0 {
            let value = format!(
                "{}, {} per update",
                counted(trajectories.len(), "trajectory"),
                counted(batch, "state")
            );
            return Err(Error::Setting {
                name: "what to learn from",
                value,
                allowed: "two trajectories and one state",
            });
        }
        let training = trajectories.len() - (trajectories.len() / 10).max(1);
        let network = Network::new(shape)?;
        let mut this = Self {
            backbone,
            network,
            trajectories,
            training,
            batch,
            seed,
            gathered: Examples::default(),
            held: Vec::new(),
        };
        let mut left = held.max(1);
        while left > 0 {
            let rng = Rng::new(seed, u64::MAX - left as u64);
            let some = this.examples(training..trajectories.len(), rng, left.min(batch))?;
            this.held.push(some);
            left -= left.min(batch);
        }
        Ok(this)
    }

    /// States drawn from these trajectories, with what the model says of them.
    fn examples(&self, from: std::ops::Range<usize>, rng: Rng, count: usize) -> Result<Examples> {
        let mask = self.backbone.spec().ids.mask;
        let mut drawn = Vec::with_capacity(count);
        for index in 0..count as u64 {
            let pick = |purpose, count: usize| (rng.bits(purpose, 0, index) % count as u64) as usize;
            let trajectory = &self.trajectories[from.start + pick(Purpose::Position, from.len())];
            let decided = pick(Purpose::Mask, trajectory.order.len());
            let passes = pick(Purpose::Reveal, decided + 1);
            drawn.push((trajectory, trajectory.state(decided, mask), passes));
        }
        let length = drawn.first().map_or(0, |(t, ..)| t.response.len());
        let cells: Vec<Vec<usize>> =
            drawn.iter().map(|(t, ..)| (t.prompt.len()..t.prompt.len() + length).collect()).collect();
        let queries = drawn.iter().zip(&cells);
        let mut batch: Vec<Query<'_>> =
            queries.map(|((_, tokens, _), predict)| Query { tokens, predict, ..Query::default() }).collect();
        let passes = self.backbone.forward(&mut batch)?;
        let mut examples = Examples { inputs: Inputs { length, ..Inputs::default() }, right: Vec::new() };
        for ((trajectory, tokens, made), pass) in drawn.iter().zip(&passes) {
            let said = opinions(self.backbone, &pass.predicting)?;
            for (offset, &(confidence, token)) in said.iter().enumerate() {
                examples.inputs.masked.push(tokens[trajectory.prompt.len() + offset] == mask);
                examples.inputs.confidence.push(confidence);
                examples.right.push(f32::from(u8::from(trajectory.response[offset] == token)));
            }
            examples.inputs.time.push(*made as f32 / length as f32);
        }
        Ok(examples)
    }

    /// Mean cross-entropy over the masks.
    fn loss(&self, examples: &Examples) -> Result<Tensor> {
        let logits = self.network.logits(&examples.inputs)?;
        let counted: Vec<f32> = examples.inputs.masked.iter().map(|&m| f32::from(u8::from(m))).collect();
        let count: f32 = counted.iter().sum::<f32>().max(1.0);
        let shape = logits.shape().clone();
        let right = Tensor::from_slice(&examples.right, &shape, &Device::Cpu)?;
        let counted = Tensor::from_vec(counted, &shape, &Device::Cpu)?;
        // max(b, 0) − b·y + ln(1 + e^−|b|)
        let softplus = ((logits.abs()?.neg()?.exp()? + 1.0)?.log()? + logits.relu()?)?;
        let each = (softplus - (logits * right)?)?;
        Ok(((each * counted)?.sum_all()? / f64::from(count))?)
    }
}

impl Objective for Imitation<'_> {
    fn slots(&self) -> &Slots {
        self.network.slots()
    }

    fn initial(&self, seed: u64) -> Result<Vec<f32>> {
        Ok(self.network.initial(seed))
    }

    fn gather(&mut self, _: &[f32], step: u64) -> Result<usize> {
        self.gathered = self.examples(0..self.training, Rng::new(self.seed, step), self.batch)?;
        Ok(1)
    }

    fn gradient(&mut self, parameters: &[f32], gradient: &mut [f32]) -> Result<Option<f64>> {
        self.network.set(parameters)?;
        let loss = self.loss(&self.gathered)?;
        self.network.backward(&loss, gradient)?;
        Ok(Some(f64::from(loss.to_scalar::<f32>()?)))
    }

    fn validate(&mut self, parameters: &[f32]) -> Result<f64> {
        self.network.set(parameters)?;
        let mut sum = 0.0;
        for held in &self.held {
            sum += f64::from(self.loss(held)?.to_scalar::<f32>()?);
        }
        Ok(sum / self.held.len() as f64)
    }

    fn baseline(&mut self) -> Result<(String, f64)> {
        let mut sum = 0.0;
        for held in &self.held {
            let cells = held.inputs.confidence.iter().zip(&held.right).zip(&held.inputs.masked);
            let surprise = |((&c, &right), _): ((&f32, &f32), &bool)| {
                let c = f64::from(c).clamp(FLOOR, 1.0 - FLOOR);
                -if right == 1.0 { c.ln() } else { (1.0 - c).ln() }
            };
            let each: Vec<f64> = cells.filter(|(_, masked)| **masked).map(surprise).collect();
            sum += each.iter().sum::<f64>() / each.len().max(1) as f64;
        }
        Ok(("the model's own confidence".into(), sum / self.held.len() as f64))
    }
}

/// Top-1 probability and token of every row.
fn opinions(backbone: &dyn Backbone, rows: &Rows) -> Result<Vec<(f32, u32)>> {
    let (vocab, mut said) = (backbone.spec().vocab, Vec::new());
    backbone.logits(rows, &mut |_, chunk| {
        for row in chunk.chunks_exact(vocab) {
            let stats = softmax_stats(row);
            said.push((stats.top1, stats.argmax as u32));
        }
    })?;
    Ok(said)
}
