//! Loss and gradient of one part of a batch.
//!
//! Two implementations of one trait: [`Autograd`] differentiates the Transformer itself, on any device, and is the
//! specification; [`Fused`] is the same mathematics written out over the CPU kernels, with buffers that are kept from
//! step to step. A test holds them together. [`Lanes`] has two of the latter share a batch.

mod autograd;
mod block;
mod fused;
mod lanes;
mod products;
mod rows;

use demask_model::Spec;

pub use autograd::Autograd;
pub use fused::Fused;
pub use lanes::Lanes;
pub(super) use products::Products;

use super::batch::BatchPart;
use super::config::Precision;
use super::layout::Layout;
use super::loss::Loss;
use crate::compute::Compute;
use crate::error::{Error, Result};

/// Something that differentiates the loss.
pub trait Gradient {
    /// Adds the gradient of the loss of `part` at `parameters` to `gradient`, both in the layout's order.
    fn add(&mut self, parameters: &[f32], part: &BatchPart, gradient: &mut [f32]) -> Result<Loss>;

    /// The same for all parts of a batch.
    fn add_all(&mut self, parameters: &[f32], parts: &[BatchPart], gradient: &mut [f32]) -> Result<Loss> {
        let mut loss = Loss::default();
        for part in parts {
            loss += self.add(parameters, part, gradient)?;
        }
        Ok(loss)
    }

    /// Tokens of a part that it works best with.
    fn part_tokens(&self) -> usize;
}

/// The faster implementation for a place; refuses what it cannot compute there.
pub fn gradient(
    spec: &Spec,
    layout: &Layout,
    compute: &Compute,
    precision: Precision,
) -> Result<Box<dyn Gradient>> {
    if !compute.is_composed() && Fused::knows(spec) {
        return Ok(Box::new(Lanes::new(|| Fused::new(spec, layout, precision), layout.len())));
    }
    if precision == Precision::Bf16 {
        let allowed = "f32 where candle's operations are differentiated (on a device, or for layers that the kernels' \
                       gradient does not know)";
        return Err(Error::Setting { name: "precision", value: "bf16".into(), allowed });
    }
    Ok(Box::new(Autograd::new(spec, layout, compute)?))
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;
    use crate::pretrain::batch::Batches;
    use crate::pretrain::config::{Config, Objective, Stage, tests::SMALL};
    use crate::pretrain::tests::{Sums, spec};

    /// Largest difference, relative to the largest entry of each tensor.
    fn difference(layout: &Layout, a: &[f32], b: &[f32]) -> (f32, String) {
        let largest = |values: &mut dyn Iterator<Item = f32>| values.fold(0.0_f32, f32::max);
        let of = |slot: &crate::pretrain::layout::Slot| {
            let (a, b) = (&a[slot.range.clone()], &b[slot.range.clone()]);
            let scale = largest(&mut a.iter().map(|v| v.abs())).max(1e-6);
            (largest(&mut a.iter().zip(b).map(|(a, b)| (a - b).abs())) / scale, slot.name.clone())
        };
        layout.slots().iter().map(of).max_by(|x, y| x.0.total_cmp(&y.0)).unwrap()
    }

    #[test]
    fn the_fused_gradient_is_the_autograd_gradient() {
        let config = Config::parse(SMALL).unwrap();
        for tied in [false, true] {
            let spec = Spec { tied, ..spec() };
            let layout = Layout::new(&spec).unwrap();
            // Biases start at zero; moved, they show mistakes.
            let parameters: Vec<f32> =
                layout.initial(3).iter().enumerate().map(|(i, p)| p + (i % 5) as f32 * 0.02).collect();
            let mut autograd = Autograd::new(&spec, &layout, &Compute::CPU).unwrap();
            let reference = Compute::on(Device::Cpu, true);
            let mut device = Autograd::new(&spec, &layout, &reference).unwrap();
            let mut fused = Fused::new(&spec, &layout, Precision::F32);
            let lessons = [
                (Objective::Autoregressive, 0.0),
                (Objective::Diffusion, 0.0),
                (Objective::Diffusion, 1.0),
                (Objective::Certainty, 0.0),
            ];
            for (objective, prefix) in lessons {
                let entropy = if objective == Objective::Certainty { 2.0 } else { 0.0 };
                let stage = Stage { objective, prompt: 0.0, entropy, prefix, ..config.stage[0].clone() };
                let batch = Batches::new(&spec, &config.data, 5, 90).at(&mut Sums, 11, &stage).unwrap();
                assert!(batch.parts.len() > 1);
                let (mut a, mut b) = (vec![0.0; layout.len()], vec![0.0; layout.len()]);
                let mut sum = Loss::default();
                for part in &batch.parts {
                    let x = autograd.add(&parameters, part, &mut a).unwrap();
                    let y = fused.add(&parameters, part, &mut b).unwrap();
                    assert!((x.value - y.value).abs() < 1e-5 * x.value.abs(), "{x:?} {y:?}");
                    assert_eq!((x.right, x.count), (y.right, y.count));
                    sum += x;
                }
                let mut lanes = Lanes::new(|| Fused::new(&spec, &layout, Precision::F32), layout.len());
                let mut c = vec![0.0; layout.len()];
                lanes.add_all(&parameters, &batch.parts, &mut c).unwrap();
                assert!(difference(&layout, &b, &c).0 < 1e-5, "{:?}", difference(&layout, &b, &c));
                let (worst, name) = difference(&layout, &a, &b);
                assert!(worst < 2e-4, "{objective:?} {name}: {worst}");
                let mut d = vec![0.0; layout.len()];
                let all = device.add_all(&parameters, &batch.parts, &mut d).unwrap();
                let (worst, name) = difference(&layout, &a, &d);
                assert!(worst < 2e-4, "reference device, {objective:?} {name}: {worst}");
                assert!((all.value - sum.value).abs() < 1e-5 * sum.value.abs(), "{all:?} {sum:?}");
                assert_eq!((all.right, all.count), (sum.right, sum.count));
                assert!(layout.slots().iter().all(|slot| a[slot.range.clone()].iter().any(|&g| g != 0.0)));
            }
        }
    }
}
