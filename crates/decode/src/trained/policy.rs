//! A learned unmasking policy (Jazbec et al. 2026): one small Transformer block over the cells of a response reads whether a
//! cell is masked, how sure the model is there and how many passes were made, and says of each mask whether to unmask it.
//!
//! `τ = [cos t, sin t]` (in bfloat16, as the published code rounds it; its frequencies are all 1), conditions
//! `Emb[mask] + MLP(τ)` scale and shift the two halves of the block, and the result is a logit per cell. Rotary angles pair
//! even with odd lanes and write the halves one after the other. Names and shapes are those of the published checkpoints,
//! with or without their prefix `base_policy.`.

use std::path::Path;

use demask_model::Rows;
use demask_model::checkpoint::Store;
use half::bf16;

use crate::error::{Error, Result};
use crate::trained::{Named, PartHeader, matrix};

/// A policy with its weights.
#[derive(Debug, Clone)]
pub struct Policy {
    header: PartHeader,
    heads: usize,
    mask_embedding: Rows,
    time: [Layer; 2],
    confidence: Layer,
    ada: Layer,
    norms: [Norm; 3],
    qkv: [Layer; 3],
    out: Layer,
    feed: [Layer; 2],
    head: Layer,
}

/// `x·Wᵀ + b`.
#[derive(Debug, Clone)]
struct Layer {
    weight: Rows,
    bias: Vec<f32>,
}

/// Layer normalisation with weight and bias.
#[derive(Debug, Clone)]
struct Norm {
    weight: Vec<f32>,
    bias: Vec<f32>,
}

impl Policy {
    /// Reads a policy's file.
    pub fn load(path: &Path) -> Result<Self> {
        let store = Store::open_file(path)?;
        let prefix = if store.contains("base_policy.output_proj.weight") { "base_policy." } else { "" };
        if store.contains(&format!("{prefix}transformer_blocks.1.norm1.weight")) {
            return Err(Error::Part(format!(
                "{} is not a usable policy: it has more than one block",
                path.display()
            )));
        }
        let header = PartHeader::read(&store, "policy")?;
        // Published files may not say; their heads are two.
        let said = store.metadata().get("num_heads").and_then(|h| h.parse().ok());
        let heads = header.sizes.get("heads").copied().or(said).unwrap_or(2).max(1);
        let policy = Self::build(header, heads, &|name| matrix(&store, &format!("{prefix}{name}")))?;
        if policy.fits() {
            return Ok(policy);
        }
        Err(Error::Part(format!(
            "{} is not a usable policy: its matrices do not fit one another",
            path.display()
        )))
    }

    /// Of tensors in memory, by the names of the published checkpoints.
    pub fn of(header: PartHeader, heads: usize, tensors: &[Named<'_>]) -> Result<Self> {
        let policy = Self::build(header, heads.max(1), &|name| {
            let found = tensors.iter().find(|(own, ..)| *own == name);
            let (_, shape, values) = found.ok_or_else(|| Error::Part(format!("a policy needs `{name}`")))?;
            Ok(Rows { data: values.to_vec(), width: shape.last().copied().unwrap_or(1).max(1) })
        })?;
        if policy.fits() {
            Ok(policy)
        } else {
            Err(Error::Part("a policy's matrices must fit one another".into()))
        }
    }

    fn build(header: PartHeader, heads: usize, tensor: &dyn Fn(&str) -> Result<Rows>) -> Result<Self> {
        let vector = |name: &str| Ok::<_, Error>(tensor(name)?.data);
        let layer = |name: &str| {
            let weight = tensor(&format!("{name}.weight"))?;
            Ok::<_, Error>(Layer { weight, bias: vector(&format!("{name}.bias"))? })
        };
        let norm = |name: &str| {
            let (weight, bias) = (vector(&format!("{name}.weight"))?, vector(&format!("{name}.bias"))?);
            Ok::<_, Error>(Norm { weight, bias })
        };
        let block = |name: &str| format!("transformer_blocks.0.{name}");
        Ok(Self {
            header,
            heads,
            mask_embedding: tensor("mask_embedding.weight")?,
            time: [layer("time_mlp.0")?, layer("time_mlp.2")?],
            confidence: layer("confidence_proj")?,
            ada: layer(&block("ada_conditioning"))?,
            norms: [norm(&block("norm1"))?, norm(&block("norm2"))?, norm("final_norm")?],
            qkv: [layer(&block("q_proj"))?, layer(&block("k_proj"))?, layer(&block("v_proj"))?],
            out: layer(&block("out_proj"))?,
            feed: [layer(&block("linear1"))?, layer(&block("linear2"))?],
            head: layer("output_proj")?,
        })
    }

    fn fits(&self) -> bool {
        let d = self.mask_embedding.width;
        self.confidence.weight.len() == d
            && self.ada.weight.len() == 6 * d
            && self.mask_embedding.len() == 2
            && d.is_multiple_of(2 * self.heads)
            && self.head.weight.len() == 1
    }

    /// What its file says.
    pub fn header(&self) -> &PartHeader {
        &self.header
    }

    /// A logit per cell of a response: whether it is masked, the model's top-1 probability there, and the passes so far over
    /// the response's length.
    pub fn logits(&self, masked: &[bool], confidence: &[f32], time: f32) -> Vec<f32> {
        let d = self.mask_embedding.width;
        let half = self.time[0].weight.width / 2;
        let angle = |value: f32| std::iter::repeat_n(bf16::from_f32(value).to_f32(), half);
        let embedded: Vec<f32> = angle(time.cos()).chain(angle(time.sin())).collect();
        let silu = |x: f32| x / (1.0 + (-x).exp());
        let inner: Vec<f32> = self.time[0].apply(&embedded).into_iter().map(silu).collect();
        let time = self.time[1].apply(&inner);
        let ada: Vec<Vec<f32>> = [0, 1]
            .iter()
            .map(|&bit| {
                let condition: Vec<f32> =
                    self.mask_embedding.row(bit).iter().zip(&time).map(|(a, b)| a + b).collect();
                self.ada.apply(&condition)
            })
            .collect();
        let of = |cell: usize, part: usize| &ada[usize::from(masked[cell])][part * d..(part + 1) * d];
        let modulated = |norm: &Norm, cell: usize, x: &[f32], part: usize| -> Vec<f32> {
            let (scale, shift) = (of(cell, part), of(cell, part + 1));
            norm.apply(x).iter().zip(scale.iter().zip(shift)).map(|(x, (g, b))| x * (1.0 + g) + b).collect()
        };
        let add = |x: &mut [f32], gate: &[f32], y: &[f32]| {
            x.iter_mut().zip(gate.iter().zip(y)).for_each(|(x, (a, y))| *x += (1.0 + a) * y);
        };
        let mut x: Vec<Vec<f32>> = confidence.iter().map(|&c| self.confidence.apply(&[c])).collect();
        let normed: Vec<Vec<f32>> =
            x.iter().enumerate().map(|(cell, x)| modulated(&self.norms[0], cell, x, 0)).collect();
        for (cell, attended) in self.attend(&normed).iter().enumerate() {
            add(&mut x[cell], of(cell, 2), &self.out.apply(attended));
        }
        for (cell, x) in x.iter_mut().enumerate() {
            let inner = self.feed[0].apply(&modulated(&self.norms[1], cell, x, 3));
            let inner: Vec<f32> = inner.into_iter().map(gelu).collect();
            add(x, of(cell, 5), &self.feed[1].apply(&inner));
        }
        x.iter().map(|x| self.head.apply(&self.norms[2].apply(x))[0]).collect()
    }

    /// Full attention among the cells, heads side by side.
    fn attend(&self, rows: &[Vec<f32>]) -> Vec<Vec<f32>> {
        let dim = rows.first().map_or(0, Vec::len) / self.heads;
        let project = |layer: &Layer| rows.iter().map(|row| layer.apply(row)).collect::<Vec<_>>();
        let rotated = |layer: &Layer| -> Vec<Vec<f32>> {
            project(layer).iter().enumerate().map(|(cell, row)| rotate(row, dim, cell)).collect()
        };
        let (q, k, v) = (rotated(&self.qkv[0]), rotated(&self.qkv[1]), project(&self.qkv[2]));
        let mut out = vec![vec![0.0; dim * self.heads]; rows.len()];
        for (query, out) in q.iter().zip(&mut out) {
            for head in 0..self.heads {
                let lanes = head * dim..(head + 1) * dim;
                let dot = |key: &Vec<f32>| -> f32 {
                    query[lanes.clone()].iter().zip(&key[lanes.clone()]).map(|(a, b)| a * b).sum()
                };
                let scores: Vec<f32> = k.iter().map(|key| dot(key) / (dim as f32).sqrt()).collect();
                let largest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                let weights: Vec<f32> = scores.iter().map(|s| (s - largest).exp()).collect();
                let sum: f32 = weights.iter().sum();
                for (weight, value) in weights.iter().zip(&v) {
                    let out = out[lanes.clone()].iter_mut();
                    out.zip(&value[lanes.clone()]).for_each(|(o, v)| *o += weight / sum * v);
                }
            }
        }
        out
    }
}

impl Layer {
    fn apply(&self, x: &[f32]) -> Vec<f32> {
        let dot = |(row, bias): (&[f32], &f32)| row.iter().zip(x).map(|(w, x)| w * x).sum::<f32>() + bias;
        self.weight.iter().zip(&self.bias).map(dot).collect()
    }
}

impl Norm {
    fn apply(&self, x: &[f32]) -> Vec<f32> {
        let mean = x.iter().sum::<f32>() / x.len() as f32;
        let variance = x.iter().map(|v| (v - mean).powi(2)).sum::<f32>() / x.len() as f32;
        let scale = 1.0 / (variance + 1e-5).sqrt();
        x.iter()
            .zip(self.weight.iter().zip(&self.bias))
            .map(|(x, (w, b))| (x - mean) * scale * w + b)
            .collect()
    }
}

/// Even and odd lanes of each head as pairs, written back as two halves.
fn rotate(row: &[f32], dim: usize, position: usize) -> Vec<f32> {
    let mut out = Vec::with_capacity(row.len());
    for head in row.chunks_exact(dim) {
        let (mut first, mut second) = (Vec::new(), Vec::new());
        for (pair, lanes) in head.chunks_exact(2).enumerate() {
            let angle = position as f64 * 1e4_f64.powf(-((2 * pair) as f64) / dim as f64);
            let (sin, cos) = (angle.sin() as f32, angle.cos() as f32);
            first.push(lanes[0] * cos - lanes[1] * sin);
            second.push(lanes[0] * sin + lanes[1] * cos);
        }
        out.extend(first);
        out.extend(second);
    }
    out
}

/// The exact one, by the error function.
fn gelu(x: f32) -> f32 {
    let x = f64::from(x);
    (x * 0.5 * (1.0 + erf(x / std::f64::consts::SQRT_2))) as f32
}

/// The error function by its series and continued fraction, to about 1e-12.
fn erf(x: f64) -> f64 {
    let a = x.abs();
    let value = if a < 3.0 {
        let (mut term, mut sum, mut n) = (a, a, 0.0);
        while term.abs() > 1e-17 * sum.abs().max(1e-300) {
            n += 1.0;
            term *= -a * a / n;
            sum += term / (2.0 * n + 1.0);
            if n > 200.0 {
                break;
            }
        }
        sum * 2.0 / std::f64::consts::PI.sqrt()
    } else {
        let fraction = (1..=60).rev().fold(0.0, |f, k| f64::from(k) / 2.0 / (a + f));
        1.0 - (-a * a).exp() / ((a + fraction) * std::f64::consts::PI.sqrt())
    };
    value.copysign(x)
}

/// Which masks fire: each with probability `min(1, β·σ(b/τ))`. `masks` are indices into the logits; `uniform` gives a draw
/// for each.
pub fn fire(
    logits: &[f32],
    masks: &[usize],
    temperature: f32,
    beta: f32,
    uniform: impl Fn(usize) -> f64,
) -> Vec<usize> {
    let chance = |&i: &usize| (beta / (1.0 + (-logits[i] / temperature).exp())).min(1.0);
    masks.iter().copied().filter(|i| uniform(*i) < f64::from(chance(i))).collect()
}

/// The mask with the largest logit; ties go left.
pub fn surest(logits: &[f32], masks: &[usize]) -> Option<usize> {
    masks.iter().copied().reduce(|best, i| if logits[i] > logits[best] { i } else { best })
}

/// Masks drawn one after the other until STOP is (the published `dpls`): the first from softmax(b), then all whose noisy
/// logit is above that of STOP, `stop` with noise `gumbel(None)`.
pub fn plackett_luce(
    logits: &[f32],
    masks: &[usize],
    stop: f64,
    first: f64,
    gumbel: impl Fn(Option<usize>) -> f64,
) -> Vec<usize> {
    let largest = masks.iter().map(|&i| f64::from(logits[i])).fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = masks.iter().map(|&i| (f64::from(logits[i]) - largest).exp()).collect();
    let (sum, mut reached): (f64, f64) = (weights.iter().sum(), 0.0);
    let forced = weights.iter().position(|weight| {
        reached += weight / sum;
        reached >= first
    });
    let Some(forced) = forced.or_else(|| masks.len().checked_sub(1)).map(|at| masks[at]) else {
        return Vec::new();
    };
    let bar = stop + gumbel(None);
    let noisy = |i: usize| f64::from(logits[i]) + gumbel(Some(i));
    let mut others: Vec<usize> = masks.iter().copied().filter(|&i| i != forced && noisy(i) > bar).collect();
    others.sort_by(|&a, &b| noisy(b).total_cmp(&noisy(a)));
    std::iter::once(forced).chain(others).collect()
}

#[cfg(test)]
mod tests {
    use demask_model::{Backbone as _, Tabular};

    use super::*;

    fn folder() -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/policy-toy")
    }

    #[test]
    fn forward_is_that_of_the_published_code() {
        let policy = Policy::load(&folder().join("policy.safetensors")).unwrap();
        let expected = Store::open_file(folder().join("expected.safetensors")).unwrap();
        let names = ["forward.0", "forward.1", "forward.2", "forward.3", "decode.0", "decode.1", "decode.3"];
        for name in names {
            let get = |part: &str| matrix(&expected, &format!("{name}.{part}")).unwrap().data;
            let (_, _, bytes) = expected.bytes(&format!("{name}.mask")).unwrap();
            let masked: Vec<bool> = bytes.chunks_exact(4).map(|b| b[0] == 1).collect();
            let got = policy.logits(&masked, &get("confidence"), get("timestep")[0]);
            // The numbers carry the rounding of f32: the same forward in f64 is up to 5.4e-6 away from them.
            for (got, want) in got.iter().zip(get("logits")) {
                assert!((got - want).abs() < 8e-6, "{name}: {got} {want}");
            }
        }
    }

    #[test]
    fn masks_fire_by_chance_or_the_best_does() {
        let logits = [0.0, 2.0, -1.0, 2.0];
        assert_eq!(fire(&logits, &[0, 1, 2], 1.0, 1.0, |i| [0.49, 0.9, 0.2][i]), [0, 2]);
        assert!(fire(&logits, &[0, 1, 2, 3], 1.0, 1.0, |_| 0.999).is_empty());
        assert_eq!(surest(&logits, &[0, 1, 2, 3]), Some(1), "ties go left");
        assert_eq!(fire(&logits, &[0, 2], 1.0, f32::INFINITY, |_| 0.999), [0, 2], "all at once");
        assert!(fire(&[f32::NEG_INFINITY; 3], &[1, 2], 1.0, 1.0, |_| 1e-9).is_empty());
        assert_eq!((surest(&[f32::NEG_INFINITY; 3], &[1, 2]), surest(&logits, &[])), (Some(1), None));
    }

    #[test]
    fn the_error_function_is_right() {
        for (x, want) in
            [(0.5, 0.520_499_877_813_046_5), (2.9, 0.999_958_902_121_900_6), (3.5, 0.999_999_256_901_628)]
        {
            assert!((erf(x) - want).abs() < 1e-9 && (erf(-x) + want).abs() < 1e-9, "{x}: {}", erf(x));
        }
    }

    #[test]
    fn another_backbones_part_is_refused() {
        let table = Tabular::new(1, 2, vec![1.0, 1.0]).unwrap();
        let of = |backbone: Option<String>| PartHeader {
            kind: "policy".into(),
            backbone,
            ..PartHeader::default()
        };
        assert!(
            of(Some(table.fingerprint())).check_fit(&table).is_ok() && of(None).check_fit(&table).is_ok()
        );
        let error = of(Some("a".into())).check_fit(&table).unwrap_err().to_string();
        assert!(error.contains("trained on backbone a"), "{error}");
    }
}
