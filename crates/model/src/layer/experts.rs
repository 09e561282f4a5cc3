//! A mixture of experts: a router scores every expert for a row, a few are chosen, and their outputs are added with the
//! weights of the choice; one more expert may be run by every row.
//!
//! Rows are grouped by expert, so that a pass visits each chosen expert once and never touches the others in the mapped
//! file. Invariant: a row's experts are added in the order of their numbers, whatever else is in the batch, so its
//! numbers do not depend on it.

mod choice;

use candle_core::{DType, Result as Candle, Tensor};
use demask_kernels::{least_run, on_this_thread, threads};
use rayon::prelude::*;

use super::parameter::{Parameter, Parameters, Place, Role, Use};
use super::{Linear, Mlp, cpu};
use crate::config;
use crate::error::Result;
use crate::memory::MLP_ROWS;

pub use choice::Choice;

/// Scores of the experts.
pub const ROUTER: Role = Role("ffn_gate_inp");
/// What is added to the scores for the choice.
pub const CHOICE_BIAS: Role = Role("exp_probs_b");
/// Gate projections of the experts.
pub const EXPERT_GATE: Role = Role("ffn_gate_exps");
/// Up projections of the experts.
pub const EXPERT_UP: Role = Role("ffn_up_exps");
/// Down projections of the experts.
pub const EXPERT_DOWN: Role = Role("ffn_down_exps");
/// Gate projection of the shared expert.
pub const SHARED_GATE: Role = Role("ffn_gate_shexp");
/// Up projection of the shared expert.
pub const SHARED_UP: Role = Role("ffn_up_shexp");
/// Down projection of the shared expert.
pub const SHARED_DOWN: Role = Role("ffn_down_shexp");

/// Sees what happens inside a pass.
pub trait Watch {
    /// The experts that rows of a layer chose; long passes are told in parts.
    fn chose(&mut self, _layer: usize, _choice: &Choice) {}
}

impl Watch for () {}

/// The experts of a layer.
#[derive(Debug)]
pub struct Experts {
    rule: config::Experts,
    router: Linear,
    bias: Option<Vec<f32>>,
    experts: Vec<Mlp>,
    shared: Option<Mlp>,
}

impl Experts {
    /// Its parameters, in the order of a checkpoint.
    pub fn parameters(hidden: usize, rule: &config::Experts, place: &Place) -> Result<Vec<Parameter>> {
        let mut all = vec![Self::router(hidden, rule, place)?];
        all.extend(Self::bias(rule, place)?);
        for index in 0..rule.count {
            all.extend(Self::expert(hidden, rule, index, place)?);
        }
        all.extend(Self::shared(hidden, rule, place)?.into_iter().flatten());
        Ok(all)
    }

    /// Made of its parameters.
    pub fn load(
        hidden: usize,
        rule: &config::Experts,
        place: &Place,
        from: &mut dyn Parameters,
    ) -> Result<Self> {
        let router = from.linear(&Self::router(hidden, rule, place)?)?;
        let bias = Self::bias(rule, place)?.map(|bias| from.vector(&bias)).transpose()?;
        let bias = bias.map(|bias| bias.to_dtype(DType::F32)?.to_vec1()).transpose()?;
        let one = |index| Mlp::of(&Self::expert(hidden, rule, index, place)?, from);
        let experts = (0..rule.count).map(one).collect::<Result<_>>()?;
        let shared = Self::shared(hidden, rule, place)?.map(|maps| Mlp::of(&maps, from)).transpose()?;
        Ok(Self { rule: rule.clone(), router, bias, experts, shared })
    }

    fn router(hidden: usize, rule: &config::Experts, place: &Place) -> Result<Parameter> {
        place.parameter(ROUTER, &[rule.count, hidden], Use::Exact, None)
    }

    fn bias(rule: &config::Experts, place: &Place) -> Result<Option<Parameter>> {
        rule.bias.then(|| place.parameter(CHOICE_BIAS, &[rule.count], Use::Added, None)).transpose()
    }

    fn expert(hidden: usize, rule: &config::Experts, index: usize, place: &Place) -> Result<[Parameter; 3]> {
        let one = |role, shape| place.expert(role, shape, index, rule.count);
        let (inward, outward) = ([rule.width, hidden], [hidden, rule.width]);
        Ok([one(EXPERT_GATE, inward)?, one(EXPERT_UP, inward)?, one(EXPERT_DOWN, outward)?])
    }

    fn shared(hidden: usize, rule: &config::Experts, place: &Place) -> Result<Option<[Parameter; 3]>> {
        let (inward, outward) = ([rule.shared, hidden], [hidden, rule.shared]);
        let all = || {
            let [gate, up] = [SHARED_GATE, SHARED_UP].map(|role| place.map(role, inward, false));
            Ok([gate?, up?, place.map(SHARED_DOWN, outward, false)?])
        };
        (rule.shared > 0).then(all).transpose()
    }

    /// `x` is `[rows, d]`.
    pub fn forward(&self, x: &Tensor, layer: usize, watch: &mut dyn Watch) -> Result<Tensor> {
        let rows = x.dim(0)?;
        let mut parts = Vec::with_capacity(rows.div_ceil(MLP_ROWS));
        // Long canvases are cut to bound the memory of the experts' outputs.
        for start in (0..rows).step_by(MLP_ROWS) {
            let x = x.narrow(0, start, MLP_ROWS.min(rows - start))?.contiguous()?;
            let choice = self.choose(&x)?;
            watch.chose(layer, &choice);
            let routed = if cpu::takes(&x) && !self.router.is_composed() {
                self.grouped(&x, &choice)?
            } else {
                self.composed(&x, &choice)?
            };
            parts.push(match &self.shared {
                Some(shared) if self.router.is_composed() => (routed + shared.forward(&x)?)?,
                Some(shared) => super::residual(&routed, &shared.forward(&x)?)?,
                None => routed,
            });
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Tensor::cat(&parts, 0)? })
    }

    /// Which experts each row of `x` runs.
    pub fn choose(&self, x: &Tensor) -> Candle<Choice> {
        let logits = self.router.forward(x)?.to_dtype(DType::F32)?.flatten_all()?.to_vec1::<f32>()?;
        Ok(Choice::new(&self.rule, self.bias.as_deref(), &logits))
    }

    /// The chosen experts over the kernels, each once.
    fn grouped(&self, x: &Tensor, choice: &Choice) -> Candle<Tensor> {
        let (rows, d) = x.dims2()?;
        let groups = choice.by_expert();
        let out = cpu::with(x, |x| -> Candle<Vec<f32>> {
            let run = |(expert, members): &(usize, Vec<(usize, f32)>)| {
                let mut taken = Vec::with_capacity(members.len() * d);
                members.iter().for_each(|&(row, _)| taken.extend_from_slice(&x[row * d..(row + 1) * d]));
                self.experts[*expert].on_rows(&taken, members.len())
            };
            // Enough experts keep every thread busy with one of its own; fewer are shared out row by row.
            let outputs: Vec<Vec<f32>> = if groups.len() >= 2 * threads() {
                let each = groups.par_iter().with_min_len(least_run()).with_max_len(least_run());
                each.map(|group| on_this_thread(|| run(group))).collect::<Candle<_>>()?
            } else {
                groups.iter().map(run).collect::<Candle<_>>()?
            };
            let mut out = vec![0.0_f32; rows * d];
            for ((_, members), output) in groups.iter().zip(&outputs) {
                for (&(row, weight), y) in members.iter().zip(output.chunks_exact(d)) {
                    let out = &mut out[row * d..(row + 1) * d];
                    out.iter_mut().zip(y).for_each(|(out, y)| *out += weight * y);
                }
            }
            Ok(out)
        })??;
        Tensor::from_vec(out, (rows, d), x.device())
    }

    /// The same in candle's own operations: any device, and what a test holds the other against.
    fn composed(&self, x: &Tensor, choice: &Choice) -> Candle<Tensor> {
        let mut out = x.zeros_like()?;
        for (expert, members) in choice.by_expert() {
            let rows: Vec<u32> = members.iter().map(|&(row, _)| row as u32).collect();
            let weights: Vec<f32> = members.iter().map(|&(_, weight)| weight).collect();
            let rows = Tensor::new(rows, x.device())?;
            let weights = Tensor::from_vec(weights, (members.len(), 1), x.device())?.to_dtype(x.dtype())?;
            let y = self.experts[expert].forward(&x.index_select(&rows, 0)?)?;
            let y = y.to_dtype(x.dtype())?.broadcast_mul(&weights)?;
            out = out.index_add(&rows, &y, 0)?;
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;
    use crate::config::Scoring;
    use crate::layer::Names;
    use crate::load::Precision;
    use crate::synthetic::Repeated;

    const NAMES: Names = Names {
        layer: "l.{}.",
        tensors: &[
            (ROUTER, "gate"),
            (EXPERT_GATE, "e.{}.gate"),
            (EXPERT_UP, "e.{}.up"),
            (EXPERT_DOWN, "e.{}.down"),
            (SHARED_GATE, "s.gate"),
            (SHARED_UP, "s.up"),
            (SHARED_DOWN, "s.down"),
        ],
    };

    fn layer(precision: Precision) -> Experts {
        let rule = config::Experts {
            layers: vec![true],
            count: 12,
            chosen: 3,
            width: 32,
            shared: 32,
            scoring: Scoring::Softmax,
            groups: 1,
            groups_chosen: 1,
            bias: false,
            normalise: true,
            scale: 1.5,
        };
        let place = Place { names: NAMES, layer: Some(0) };
        Experts::load(64, &rule, &place, &mut Repeated::distinct(precision, 3)).unwrap()
    }

    fn input(rows: usize) -> Tensor {
        let value = |i: usize| ((i * 7919 % 1013) as f32 / 1013.0 - 0.5) * 2.0;
        Tensor::from_vec((0..rows * 64).map(value).collect::<Vec<_>>(), (rows, 64), &Device::Cpu).unwrap()
    }

    #[test]
    fn grouping_by_expert_changes_nothing() {
        let layer = layer(Precision::Float(crate::checkpoint::Dtype::F32));
        let x = input(9);
        let choice = layer.choose(&x).unwrap();
        let (a, b) = (layer.grouped(&x, &choice).unwrap(), layer.composed(&x, &choice).unwrap());
        let apart = (a - b).unwrap().abs().unwrap().max_all().unwrap().to_scalar::<f32>().unwrap();
        assert!(apart < 1e-6, "{apart}");
    }

    #[test]
    fn a_row_is_the_same_alone_and_among_others() {
        for precision in [Precision::INT8, Precision::Float(crate::checkpoint::Dtype::Bf16)] {
            let layer = layer(precision);
            let x = input(MLP_ROWS + 9);
            let all = layer.forward(&x, 0, &mut ()).unwrap().to_vec2::<f32>().unwrap();
            for row in [0, 5, MLP_ROWS + 8] {
                let alone = layer.forward(&x.narrow(0, row, 1).unwrap(), 0, &mut ()).unwrap();
                assert_eq!(alone.to_vec2::<f32>().unwrap()[0], all[row], "row {row}");
            }
        }
    }
}
