//! The policy's network in differentiable form: what [`Policy::logits`] computes for one step, for many at once. A test
//! holds the two together.

use std::path::Path;

use candle_core::{D, Device, Tensor};
use demask_decode::trained::{PartHeader, Policy, write_part};
use demask_model::Backbone;
use half::bf16;
use serde::{Deserialize, Serialize};

use super::{Outcome, Slots, Vars};
use crate::error::{Error, Result};

const EPS: f64 = 1e-5;
/// Where the published network starts: every mask fires with probability 0.12.
const FIRST_BIAS: f32 = -2.0;

/// Sizes of the network; the default is the published one (331 265 parameters).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyShape {
    /// Width.
    pub hidden: usize,
    /// Width of its feed-forward half.
    pub feed_forward: usize,
    /// Heads.
    pub heads: usize,
    /// Width of the time embedding.
    pub time: usize,
}

impl Default for PolicyShape {
    fn default() -> Self {
        Self { hidden: 128, feed_forward: 512, heads: 2, time: 128 }
    }
}

/// What the network reads: several steps of responses of equal length.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Inputs {
    /// Cells of a response.
    pub length: usize,
    /// Whether each cell is masked, step after step.
    pub masked: Vec<bool>,
    /// Top-1 probability of each cell.
    pub confidence: Vec<f32>,
    /// Passes so far over the length, a number per step.
    pub time: Vec<f32>,
}

/// The network in training.
pub struct Network {
    shape: PolicyShape,
    slots: Slots,
    vars: Vars,
}

impl Network {
    /// Of these sizes.
    pub fn new(shape: PolicyShape) -> Result<Self> {
        let PolicyShape { hidden, feed_forward, heads, time } = shape;
        if hidden == 0
            || heads == 0
            || feed_forward == 0
            || !hidden.is_multiple_of(2 * heads)
            || !time.is_multiple_of(2)
        {
            let value = format!("{shape:?}");
            let allowed = "of a width that its heads divide into even parts, and an even time embedding";
            return Err(Error::Setting { name: "the policy's shape", value, allowed });
        }
        let slots = slots(shape);
        Ok(Self { shape, vars: Vars::new(&slots)?, slots })
    }

    /// Names and shapes of its tensors.
    pub fn slots(&self) -> &Slots {
        &self.slots
    }

    /// Starting values: no conditioning, and every mask rarely fires.
    pub fn initial(&self, seed: u64) -> Vec<f32> {
        let mut values = self.slots.initial(seed);
        values[self.slots.range("transformer_blocks.0.ada_conditioning.weight")].fill(0.0);
        values[self.slots.range("output_proj.bias")].fill(FIRST_BIAS);
        values
    }

    /// Takes these values.
    pub fn set(&self, parameters: &[f32]) -> Result<()> {
        self.vars.set(parameters)
    }

    /// Writes the gradient of a loss made of [`Self::logits`].
    pub fn backward(&self, loss: &Tensor, gradient: &mut [f32]) -> Result<()> {
        self.vars.collect(&loss.backward()?, gradient)
    }

    /// The same network for decoding.
    pub fn policy(&self, parameters: &[f32]) -> Result<Policy> {
        Ok(Policy::of(PartHeader::default(), self.shape.heads, &self.slots.named(parameters))?)
    }

    /// Writes a policy's file.
    pub fn save(
        &self,
        path: &Path,
        backbone: &dyn Backbone,
        trained_on: &str,
        outcome: &Outcome,
    ) -> Result<()> {
        let header = PartHeader {
            loss: Some((outcome.validation, outcome.baseline)),
            ..PartHeader::of("policy", backbone, trained_on)
        };
        let PolicyShape { hidden, feed_forward, heads, time } = self.shape;
        let header = header.sized("hidden", hidden).sized("feed_forward", feed_forward);
        let header = header.sized("heads", heads).sized("time", time);
        write_part(path, &header, &self.slots.named(&outcome.parameters))?;
        Ok(())
    }

    /// A logit per cell, `[steps, cells]`.
    pub fn logits(&self, inputs: &Inputs) -> Result<Tensor> {
        let (steps, cells, d) = (inputs.time.len(), inputs.length, self.shape.hidden);
        let rows = (steps, cells, d);
        let bits: Vec<u32> = inputs.masked.iter().map(|&m| u32::from(m)).collect();
        let bits = Tensor::from_vec(bits, steps * cells, &Device::Cpu)?;
        let embedded = self.vars.get("mask_embedding.weight")?.index_select(&bits, 0)?.reshape(rows)?;
        let inner = self.linear("time_mlp.0", &self.time(&inputs.time)?)?.silu()?;
        let time = self.linear("time_mlp.2", &inner)?.reshape((steps, 1, d))?;
        let condition = embedded.broadcast_add(&time)?.reshape((steps * cells, d))?;
        let ada = self.linear(&block("ada_conditioning"), &condition)?;
        let part = |index: usize| ada.narrow(1, index * d, d);
        let confidence = Tensor::from_slice(&inputs.confidence, (steps * cells, 1), &Device::Cpu)?;
        let x = self.linear("confidence_proj", &confidence)?;
        let normed = modulate(&self.norm(&block("norm1"), &x)?, &part(0)?, &part(1)?)?;
        let attended = self.linear(&block("out_proj"), &self.attend(&normed, steps, cells)?)?;
        let x = (x + ((part(2)? + 1.0)? * attended)?)?;
        let normed = modulate(&self.norm(&block("norm2"), &x)?, &part(3)?, &part(4)?)?;
        let inner = self.linear(&block("linear1"), &normed)?.gelu_erf()?;
        let x = (&x + ((part(5)? + 1.0)? * self.linear(&block("linear2"), &inner)?)?)?;
        Ok(self.linear("output_proj", &self.norm("final_norm", &x)?)?.reshape((steps, cells))?)
    }

    /// `[cos t …, sin t …]` in bfloat16, as the published code rounds it.
    fn time(&self, times: &[f32]) -> Result<Tensor> {
        let half = self.shape.time / 2;
        let round = |value: f32| std::iter::repeat_n(bf16::from_f32(value).to_f32(), half);
        let data: Vec<f32> = times.iter().flat_map(|t| round(t.cos()).chain(round(t.sin()))).collect();
        Ok(Tensor::from_vec(data, (times.len(), 2 * half), &Device::Cpu)?)
    }

    fn linear(&self, name: &str, x: &Tensor) -> Result<Tensor> {
        let weight = self.vars.get(&format!("{name}.weight"))?;
        Ok(x.matmul(&weight.t()?)?.broadcast_add(&self.vars.get(&format!("{name}.bias"))?)?)
    }

    fn norm(&self, name: &str, x: &Tensor) -> Result<Tensor> {
        let centred = x.broadcast_sub(&x.mean_keepdim(D::Minus1)?)?;
        let scale = (centred.sqr()?.mean_keepdim(D::Minus1)? + EPS)?.sqrt()?;
        let scaled =
            centred.broadcast_div(&scale)?.broadcast_mul(&self.vars.get(&format!("{name}.weight"))?)?;
        Ok(scaled.broadcast_add(&self.vars.get(&format!("{name}.bias"))?)?)
    }

    /// Full attention among the cells of each step.
    fn attend(&self, x: &Tensor, steps: usize, cells: usize) -> Result<Tensor> {
        let (heads, dim) = (self.shape.heads, self.shape.hidden / self.shape.heads);
        let split = |name: &str| {
            self.linear(&block(name), x)?.reshape((steps, cells, heads, dim)).map_err(Error::from)
        };
        let angles: Vec<f32> = (0..cells)
            .flat_map(|cell| {
                let angle = move |pair: usize| cell as f64 * 1e4_f64.powf(-((2 * pair) as f64) / dim as f64);
                (0..dim / 2).map(move |pair| angle(pair) as f32)
            })
            .collect();
        let angles = Tensor::from_vec(angles, (1, cells, 1, dim / 2), &Device::Cpu)?;
        let (cos, sin) = (angles.cos()?, angles.sin()?);
        let turned = |name: &str| {
            let pairs = split(name)?.reshape((steps, cells, heads, dim / 2, 2))?;
            let (even, odd) = (pairs.narrow(4, 0, 1)?.squeeze(4)?, pairs.narrow(4, 1, 1)?.squeeze(4)?);
            let first = (even.broadcast_mul(&cos)? - odd.broadcast_mul(&sin)?)?;
            let second = (even.broadcast_mul(&sin)? + odd.broadcast_mul(&cos)?)?;
            Ok::<_, Error>(Tensor::cat(&[first, second], 3)?.transpose(1, 2)?.contiguous()?)
        };
        let (q, k) = (turned("q_proj")?, turned("k_proj")?);
        let v = split("v_proj")?.transpose(1, 2)?.contiguous()?;
        let scores = (q.matmul(&k.transpose(2, 3)?.contiguous()?)? / (dim as f64).sqrt())?;
        let scores = scores.broadcast_sub(&scores.max_keepdim(3)?.detach())?.exp()?;
        let weights = scores.broadcast_div(&scores.sum_keepdim(3)?)?;
        Ok(weights.matmul(&v)?.transpose(1, 2)?.reshape((steps * cells, heads * dim))?)
    }
}

fn modulate(x: &Tensor, scale: &Tensor, shift: &Tensor) -> Result<Tensor> {
    Ok(((x * (scale + 1.0)?)? + shift)?)
}

fn block(name: &str) -> String {
    format!("transformer_blocks.0.{name}")
}

fn slots(shape: PolicyShape) -> Slots {
    let PolicyShape { hidden: d, feed_forward: f, time, .. } = shape;
    let linear = |name: &str, out: usize, inputs: usize| {
        [(format!("{name}.weight"), vec![out, inputs]), (format!("{name}.bias"), vec![out])]
    };
    let norm = |name: &str| [(format!("{name}.weight"), vec![d]), (format!("{name}.bias"), vec![d])];
    let mut all = vec![("mask_embedding.weight".to_owned(), vec![2, d])];
    all.extend(linear("time_mlp.0", d, time));
    all.extend(linear("time_mlp.2", d, d));
    all.extend(linear("confidence_proj", d, 1));
    all.extend(linear(&block("ada_conditioning"), 6 * d, d));
    all.extend(norm(&block("norm1")));
    all.extend(norm(&block("norm2")));
    for name in ["q_proj", "k_proj", "v_proj", "out_proj"] {
        all.extend(linear(&block(name), d, d));
    }
    all.extend(linear(&block("linear1"), f, d));
    all.extend(linear(&block("linear2"), d, f));
    all.extend(norm("final_norm"));
    all.extend(linear("output_proj", 1, d));
    Slots::new(all.iter().map(|(name, shape)| (name.as_str(), shape.clone())))
}
