//! A policy trained by what its decodings are worth (Jazbec et al. 2026): `R = right · ((N − passes + 1)/N)^α` at the end of
//! a response, several decodings of each prompt, advantage `R − mean` within the group, and a clipped likelihood ratio,
//! `−mean over decodings of the mean over passes of min(ρA, clip(ρ, 1 ± ε)A)`, with
//! `ln π(u) = Σ_masks u·ln s + (1 − u)·ln(1 − s)`. What was gathered is used twice.
//!
//! Where nothing fires the surest mask is taken, which is the environment's doing: the likelihood is that of nothing firing.

use std::sync::{Arc, Mutex, PoisonError};

use candle_core::{Device, Tensor};
use demask_decode::registry::Context;
use demask_decode::rng::Purpose;
use demask_decode::rng::Rng;
use demask_decode::strategy::{Decision, Learned};
use demask_decode::{Canvas, Decoder, Job, Options, Suppression};
use demask_model::Backbone;
use serde::{Deserialize, Serialize};

use super::network::{Inputs, Network, PolicyShape};
use super::{Objective, Slots};
use crate::error::{Error, Result};

/// What the baseline decodes with.
const BASELINE: &str = "threshold:threshold=0.9";

/// Prompts with answers that can be told right from wrong.
pub trait Environment {
    /// The prompt of a problem; the same at every call.
    fn prompt(&mut self, index: u64) -> Result<Vec<u32>>;

    /// Whether a response solves it.
    fn is_right(&mut self, index: u64, response: &[u32]) -> Result<bool>;
}

/// How rewards become updates.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Grpo {
    /// Decodings of each prompt.
    pub group: usize,
    /// Prompts per update.
    pub prompts: usize,
    /// Cells of a response, the paper's `N`.
    pub length: usize,
    /// Length of blocks; the whole response if not given.
    pub block: Option<usize>,
    /// How much speed is worth.
    pub alpha: f64,
    /// Ratios beyond `1 ± ε` teach nothing more.
    pub epsilon: f64,
    /// How many times what was gathered is used.
    pub uses: usize,
    /// Problems that are held out, counted from `first_held`.
    pub held: usize,
    /// Number of the first problem that is held out; those before it are trained on.
    pub first_held: u64,
}

/// One decoding of a prompt as the policy saw it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rollout {
    /// What it read, a step for each pass.
    pub inputs: Inputs,
    /// Cells that could be taken.
    pub open: Vec<bool>,
    /// Cells that fired.
    pub fired: Vec<bool>,
    /// `ln π` of each pass under the weights that decided.
    pub old: Vec<f32>,
    /// `R` less the mean of its group.
    pub advantage: f64,
}

/// `R` of a decoding that took this many passes.
pub fn reward(right: bool, passes: usize, length: usize, alpha: f64) -> f64 {
    let share = (length as f64 - passes as f64 + 1.0).max(0.0) / length as f64;
    if right { share.powf(alpha) } else { 0.0 }
}

/// `ln π(u)` of every pass, `[passes]`.
pub fn log_likelihood(logits: &Tensor, open: &[bool], fired: &[bool]) -> Result<Tensor> {
    let shape = logits.shape().clone();
    let number = |bits: &[bool]| {
        let values: Vec<f32> = bits.iter().map(|&bit| f32::from(u8::from(bit))).collect();
        Ok::<_, Error>(Tensor::from_vec(values, &shape, &Device::Cpu)?)
    };
    let (open, fired) = (number(open)?, number(fired)?);
    let eps = f64::from(f32::EPSILON);
    let chance = ((logits.neg()?.exp()? + 1.0)?.recip())?.clamp(eps as f32, (1.0 - eps) as f32)?;
    let yes = (&fired * chance.log()?)?;
    let no = ((1.0 - &fired)? * (1.0 - &chance)?.log()?)?;
    Ok(((yes + no)? * open)?.sum(1)?)
}

/// `ln π` of masks drawn one after the other until STOP (the published `dpls`): each from a softmax over those left, STOP
/// among them after the first.
pub fn in_turn(logits: &[f32], open: &[bool], sequence: &[u32], stop: f64) -> f64 {
    let mut left: Vec<usize> = (0..logits.len()).filter(|&cell| open[cell]).collect();
    let all = |left: &[usize], stop: Option<f64>| -> f64 {
        let each = left.iter().map(|&cell| f64::from(logits[cell]).exp());
        each.chain(stop.map(f64::exp)).sum::<f64>().ln()
    };
    let mut value = 0.0;
    for (turn, &cell) in sequence.iter().enumerate() {
        value += f64::from(logits[cell as usize]) - all(&left, (turn > 0).then_some(stop));
        left.retain(|&other| other != cell as usize);
    }
    value + stop - all(&left, Some(stop))
}

/// The loss of some rollouts at the network's present weights.
pub fn loss(network: &Network, rollouts: &[Rollout], epsilon: f64) -> Result<Tensor> {
    let (mut inputs, mut open, mut fired) = (Inputs::default(), Vec::new(), Vec::new());
    let (mut old, mut advantages, mut weights) = (Vec::new(), Vec::new(), Vec::new());
    for rollout in rollouts {
        let passes = rollout.inputs.time.len();
        inputs.length = rollout.inputs.length;
        inputs.masked.extend(&rollout.inputs.masked);
        inputs.confidence.extend(&rollout.inputs.confidence);
        inputs.time.extend(&rollout.inputs.time);
        open.extend(&rollout.open);
        fired.extend(&rollout.fired);
        old.extend(&rollout.old);
        advantages.extend(std::iter::repeat_n(rollout.advantage as f32, passes));
        weights.extend(std::iter::repeat_n(-1.0 / (passes * rollouts.len()) as f32, passes));
    }
    let now = log_likelihood(&network.logits(&inputs)?, &open, &fired)?;
    let vector = |values: Vec<f32>| Tensor::new(values, &Device::Cpu);
    let advantages = vector(advantages)?;
    let ratio = (now - vector(old)?)?.exp()?;
    let clipped = (ratio.clamp((1.0 - epsilon) as f32, (1.0 + epsilon) as f32)? * &advantages)?;
    let worth = (ratio * advantages)?.minimum(&clipped)?;
    Ok((worth * vector(weights)?)?.sum_all()?)
}

/// The network learning from rewards.
pub struct GrpoObjective<'a> {
    backbone: &'a dyn Backbone,
    environment: &'a mut dyn Environment,
    /// The network.
    pub network: Network,
    settings: Grpo,
    seed: u64,
    gathered: Vec<Rollout>,
}

/// A decoding's end.
struct Ended {
    index: u64,
    passes: usize,
    response: Vec<u32>,
}

impl<'a> GrpoObjective<'a> {
    /// On the problems of an environment.
    pub fn new(
        backbone: &'a dyn Backbone,
        environment: &'a mut dyn Environment,
        shape: PolicyShape,
        settings: Grpo,
        seed: u64,
    ) -> Result<Self> {
        let Grpo { group, prompts, length, uses, held, first_held, .. } = settings;
        if group < 2 || prompts == 0 || length == 0 || uses == 0 || held == 0 || first_held == 0 {
            let value = format!("{settings:?}");
            let allowed = "a group of at least 2 and everything else at least 1";
            return Err(Error::Setting { name: "a setting of the rollouts", value, allowed });
        }
        Ok(Self {
            backbone,
            environment,
            network: Network::new(shape)?,
            settings,
            seed,
            gathered: Vec::new(),
        })
    }

    /// Runs jobs made of these problems' prompts, `(problem, stream)` each.
    fn decode(
        &mut self,
        problems: &[(u64, u64)],
        mut job: impl FnMut(usize, Canvas, Options) -> Result<Job>,
    ) -> Result<Vec<Ended>> {
        let ids = &self.backbone.spec().ids;
        let mut jobs = Vec::with_capacity(problems.len());
        for (place, &(index, stream)) in problems.iter().enumerate() {
            let canvas = Canvas::generate(&self.environment.prompt(index)?, self.settings.length, ids)?;
            let suppression = Suppression { ids: vec![ids.mask], ..Suppression::default() };
            let block_length = self.settings.block;
            let options =
                Options { suppression, block_length, seed: self.seed, stream, ..Options::default() };
            jobs.push(job(place, canvas, options)?);
        }
        Decoder::new(self.backbone).run(&mut jobs)?;
        let ended = |(job, &(index, _)): (&Job, &(u64, u64))| {
            let response = job.canvas().tokens()[job.canvas().response()].to_vec();
            Ended { index, passes: job.totals().steps, response }
        };
        Ok(jobs.iter().zip(problems).map(ended).collect())
    }

    /// The reward of each decoding.
    fn rewards(&mut self, ended: &[Ended]) -> Result<Vec<f64>> {
        let Grpo { length, alpha, .. } = self.settings;
        let mut rewards = Vec::with_capacity(ended.len());
        for one in ended {
            let right = self.environment.is_right(one.index, &one.response)?;
            rewards.push(reward(right, one.passes, length, alpha));
        }
        Ok(rewards)
    }

    /// Decodings of these problems by a policy: rewards, and what it saw and did.
    fn roll(
        &mut self,
        parameters: &[f32],
        problems: &[(u64, u64)],
    ) -> Result<(Vec<f64>, Vec<Vec<Decision>>)> {
        let policy = Arc::new(self.network.policy(parameters)?);
        let heard: Vec<Arc<Mutex<Vec<Decision>>>> = problems.iter().map(|_| Arc::default()).collect();
        let ended = self.decode(problems, |place, canvas, options| {
            let strategy = Box::new(Learned::listened(policy.clone(), heard[place].clone()));
            Ok(Job::with_strategy(canvas, "policy", strategy, options, Box::new(()))?)
        })?;
        let rewards = self.rewards(&ended)?;
        let take = |heard: &Arc<Mutex<Vec<Decision>>>| {
            std::mem::take(&mut *heard.lock().unwrap_or_else(PoisonError::into_inner))
        };
        Ok((rewards, heard.iter().map(take).collect()))
    }

    /// Problems that are held out, with streams of their own.
    fn held(&self) -> Vec<(u64, u64)> {
        let Grpo { held, first_held, .. } = self.settings;
        (first_held..first_held + held as u64).map(|index| (index, u64::MAX - index)).collect()
    }
}

impl Objective for GrpoObjective<'_> {
    fn slots(&self) -> &Slots {
        self.network.slots()
    }

    fn initial(&self, seed: u64) -> Result<Vec<f32>> {
        Ok(self.network.initial(seed))
    }

    fn gather(&mut self, parameters: &[f32], step: u64) -> Result<usize> {
        let Grpo { group, prompts, first_held, uses, .. } = self.settings;
        let rng = Rng::new(self.seed, step);
        let chosen = (0..prompts as u64).map(|p| rng.bits(Purpose::Position, 0, p) % first_held);
        let each = (group * prompts) as u64;
        let problems: Vec<(u64, u64)> = chosen
            .enumerate()
            .flat_map(|(p, index)| {
                (0..group as u64).map(move |g| (index, step * each + p as u64 * group as u64 + g))
            })
            .collect();
        let (rewards, heard) = self.roll(parameters, &problems)?;
        self.network.set(parameters)?;
        self.gathered.clear();
        for (rewards, heard) in rewards.chunks(group).zip(heard.chunks(group)) {
            let mean = rewards.iter().sum::<f64>() / group as f64;
            for (reward, decisions) in rewards.iter().zip(heard) {
                self.gathered.push(rollout(&self.network, decisions, reward - mean)?);
            }
        }
        let learns = self.gathered.iter().any(|rollout| rollout.advantage != 0.0);
        Ok(if learns { uses } else { 0 })
    }

    fn gradient(&mut self, parameters: &[f32], gradient: &mut [f32]) -> Result<Option<f64>> {
        self.network.set(parameters)?;
        let loss = loss(&self.network, &self.gathered, self.settings.epsilon)?;
        self.network.backward(&loss, gradient)?;
        Ok(Some(f64::from(loss.to_scalar::<f32>()?)))
    }

    fn validate(&mut self, parameters: &[f32]) -> Result<f64> {
        let (rewards, _) = self.roll(parameters, &self.held())?;
        Ok(-rewards.iter().sum::<f64>() / rewards.len() as f64)
    }

    fn baseline(&mut self) -> Result<(String, f64)> {
        let strategy = BASELINE.parse()?;
        let ended = self.decode(&self.held(), |_, canvas, options| {
            Ok(Job::new(canvas, &strategy, &Context::default(), options, Box::new(()))?)
        })?;
        let rewards = self.rewards(&ended)?;
        Ok((format!("less the reward of {BASELINE}"), -rewards.iter().sum::<f64>() / rewards.len() as f64))
    }
}

/// What a policy saw and did, as it is learned from.
fn rollout(network: &Network, decisions: &[Decision], advantage: f64) -> Result<Rollout> {
    let mut rollout = Rollout { advantage, ..Rollout::default() };
    for decision in decisions {
        let length = decision.masked.len();
        let bits = |cells: &[usize]| {
            let mut bits = vec![false; length];
            cells.iter().for_each(|&cell| bits[cell] = true);
            bits
        };
        rollout.inputs.length = length;
        rollout.inputs.masked.extend(&decision.masked);
        rollout.inputs.confidence.extend(&decision.confidence);
        rollout.inputs.time.push(decision.time);
        rollout.open.extend(bits(&decision.open));
        rollout.fired.extend(bits(&decision.fired));
    }
    let now = log_likelihood(&network.logits(&rollout.inputs)?, &rollout.open, &rollout.fired)?;
    rollout.old = now.to_vec1()?;
    Ok(rollout)
}
