//! Where each tensor lies in the flat vector of parameters, and its first value.
//!
//! Invariant: tensors lie one after another in the order of the architecture's checkpoint, so the flat vector of a run
//! means the same on every machine.

use std::ops::Range;

use demask_decode::rng::{Purpose, Rng};
use demask_model::layer::{Role, role};
use demask_model::{Result, Spec, arch};

/// One tensor of the flat vector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// Its name in the checkpoint.
    pub name: String,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Its elements in the flat vector.
    pub range: Range<usize>,
    /// What it is for, in which block, and whether it is the bias of that.
    pub role: (Role, Option<usize>, bool),
}

/// Every tensor of a backbone.
#[derive(Debug, Clone)]
pub struct Layout {
    slots: Vec<Slot>,
    layers: usize,
}

impl Layout {
    /// The layout of a backbone of this shape.
    pub fn new(spec: &Spec) -> Result<Self> {
        let (mut start, mut slots) = (0, Vec::new());
        for parameter in arch::parameters(spec)? {
            for (index, (name, shape)) in parameter.tensors().enumerate() {
                let range = start..start + shape.iter().product::<usize>();
                start = range.end;
                slots.push(Slot { name, shape, range, role: (parameter.role, parameter.layer, index > 0) });
            }
        }
        Ok(Self { slots, layers: spec.layers })
    }

    /// All tensors, in order.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// Number of parameters.
    pub fn len(&self) -> usize {
        self.slots.last().map_or(0, |slot| slot.range.end)
    }

    /// Whether there is no parameter.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The tensor of this name.
    pub fn slot(&self, name: &str) -> Option<&Slot> {
        self.slots.iter().find(|slot| slot.name == name)
    }

    /// Elements of the tensor with this role, in this block.
    pub fn range(&self, role: Role, layer: Option<usize>) -> Option<Range<usize>> {
        self.slots.iter().find(|slot| slot.role == (role, layer, false)).map(|slot| slot.range.clone())
    }

    /// Elements of its bias.
    pub fn bias(&self, role: Role, layer: Option<usize>) -> Option<Range<usize>> {
        self.slots.iter().find(|slot| slot.role == (role, layer, true)).map(|slot| slot.range.clone())
    }

    /// Elements of the matrices: what weight decay applies to.
    pub fn matrices(&self) -> Vec<Range<usize>> {
        self.slots.iter().filter(|slot| slot.shape.len() == 2).map(|slot| slot.range.clone()).collect()
    }

    /// First weights: normal matrices, unit norms, zero biases.
    ///
    /// Maps that write into the residual stream start smaller, by the root of their number, so that the stream keeps its
    /// scale with depth.
    pub fn initial(&self, seed: u64) -> Vec<f32> {
        let mut parameters = vec![0.0; self.len()];
        for (index, slot) in self.slots.iter().enumerate() {
            let values = &mut parameters[slot.range.clone()];
            match slot.shape[..] {
                [_, width] => {
                    let into_stream = [role::O, role::DOWN].contains(&slot.role.0);
                    let depth = if into_stream { (2.0 * self.layers as f64).sqrt() } else { 1.0 };
                    let deviation = (0.4 / width as f64).sqrt() / depth;
                    fill_normal(values, &Rng::new(seed, index as u64), deviation);
                }
                _ if slot.name.ends_with(".bias") => {}
                _ => values.fill(1.0),
            }
        }
        parameters
    }
}

fn fill_normal(values: &mut [f32], rng: &Rng, deviation: f64) {
    for (index, value) in values.iter_mut().enumerate() {
        let draw = |which| rng.uniform(Purpose::Token, index as u64, which);
        let radius = (-2.0 * draw(0).ln()).sqrt();
        *value = (deviation * radius * (std::f64::consts::TAU * draw(1)).cos()) as f32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pretrain::tests::spec;

    #[test]
    fn the_flat_vector_holds_every_tensor_once() {
        let spec = spec();
        let layout = Layout::new(&spec).unwrap();
        assert_eq!(layout.len(), spec.parameters());
        assert!(layout.slots().windows(2).all(|pair| pair[0].range.end == pair[1].range.start));
        let vectors = layout.len() - layout.matrices().iter().map(Range::len).sum::<usize>();
        assert_eq!(
            vectors,
            spec.layers * (2 * spec.hidden + spec.q_width() + 2 * spec.kv_width()) + spec.hidden
        );
    }

    #[test]
    fn first_weights_depend_on_the_seed_alone() {
        let layout = Layout::new(&spec()).unwrap();
        let (a, b) = (layout.initial(1), layout.initial(2));
        assert_eq!(a, layout.initial(1));
        assert_ne!(a, b);
        let norm = layout.slot("model.norm.weight").unwrap().range.clone();
        assert!(a[norm].iter().all(|&w| w == 1.0));
        let embed = &a[layout.slot("model.embed_tokens.weight").unwrap().range.clone()];
        let variance = embed.iter().map(|w| w * w).sum::<f32>() / embed.len() as f32;
        assert!((variance * spec().hidden as f32 / 0.4 - 1.0).abs() < 0.2, "{variance}");
    }
}
