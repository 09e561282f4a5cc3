//! The gradient written out over the CPU kernels: the Transformer's own mathematics, with every activation in a buffer
//! that lives as long as the run, no copy between operations, and gradients added where they belong.
//!
//! In the last block only the rows that predict ask queries and run the MLP.

use std::ops::Range;

use demask_kernels as kernels;
use demask_model::Spec;
use demask_model::layer::{Role, role};

use super::Gradient;
use super::block::{Geometry, Kept, Layer, Places, Scratch};
use super::products::Products;
use super::rows::{asking, gather, room, scatter_add};
use crate::error::Result;
use crate::pretrain::batch::BatchPart;
use crate::pretrain::config::Precision;
use crate::pretrain::layout::Layout;
use crate::pretrain::loss::{self, Loss};

/// The written-out gradient with its buffers.
pub struct Fused {
    spec: Spec,
    products: Products,
    embed: Range<usize>,
    norm: Range<usize>,
    head: Range<usize>,
    places: Vec<Places>,
    kept: Vec<Kept>,
    /// Output of the last block, its normalised form and the logits.
    last: Vec<f32>,
    hidden: Vec<f32>,
    logits: Vec<f32>,
    scratch: Scratch,
}

impl Fused {
    /// Whether it knows the layers of this backbone: dense ones with three projections, whole heads rotating, no head norms.
    pub fn knows(spec: &Spec) -> bool {
        let plain = !spec.fused_qkv && !spec.qk_norm && spec.rotary == spec.head_dim;
        plain && spec.experts.is_none()
    }

    /// For a backbone of this shape.
    ///
    /// # Panics
    /// If the layout is not of this backbone.
    pub fn new(spec: &Spec, layout: &Layout, precision: Precision) -> Self {
        let place = |range: Option<Range<usize>>, role: Role| match range {
            Some(range) => range,
            None => panic!("the layout has no {role:?}"),
        };
        let outside = |role| place(layout.range(role, None), role);
        let places = (0..spec.layers).map(|layer| {
            let of = |role| place(layout.range(role, Some(layer)), role);
            let bias = |role| place(layout.bias(role, Some(layer)), role);
            Places {
                attn_norm: of(role::ATTN_NORM),
                q: of(role::Q),
                k: of(role::K),
                v: of(role::V),
                biases: spec.qkv_bias.then(|| [role::Q, role::K, role::V].map(bias)),
                o: of(role::O),
                ffn_norm: of(role::FFN_NORM),
                gate: of(role::GATE),
                up: of(role::UP),
                down: of(role::DOWN),
            }
        });
        Self {
            embed: outside(role::EMBED),
            norm: outside(role::NORM),
            head: outside(if spec.tied { role::EMBED } else { role::HEAD }),
            places: places.collect(),
            kept: (0..spec.layers).map(|_| Kept::default()).collect(),
            last: Vec::new(),
            hidden: Vec::new(),
            logits: Vec::new(),
            scratch: Scratch::default(),
            spec: spec.clone(),
            products: Products(precision),
        }
    }
}

impl Gradient for Fused {
    fn add(&mut self, parameters: &[f32], part: &BatchPart, gradient: &mut [f32]) -> Result<Loss> {
        let (positions, segments) = asking(&part.packed, &part.rows);
        let every = Geometry {
            rows: None,
            asking: part.packed.tokens.len(),
            positions: &part.packed.positions,
            asking_positions: &part.packed.positions,
            segments: &part.packed.segments,
        };
        let some = Geometry {
            rows: Some(&part.rows),
            asking: part.rows.len(),
            positions: &part.packed.positions,
            asking_positions: &positions,
            segments: &segments,
        };
        let d = self.spec.hidden;
        let first = &mut self.kept[0];
        gather(
            &parameters[self.embed.clone()],
            &part.packed.tokens,
            d,
            room(&mut first.x, part.packed.tokens.len() * d),
        );
        let layers = self.spec.layers;
        let (spec, products) = (&self.spec, self.products);
        for index in 0..layers {
            let geometry = if index + 1 == layers { &some } else { &every };
            let layer = Layer { spec, places: &self.places[index], products, parameters };
            let (kept, after) = self.kept[index..].split_at_mut(1);
            let out = after.first_mut().map_or(&mut self.last, |next| &mut next.x);
            kept[0].forward(layer, geometry, out);
        }
        let loss = self.predict(parameters, part, gradient);
        for index in (0..layers).rev() {
            let geometry = if index + 1 == layers { &some } else { &every };
            let layer = Layer { spec: &self.spec, places: &self.places[index], products, parameters };
            self.kept[index].backward(layer, geometry, &mut self.scratch, gradient);
        }
        let rows = part.packed.tokens.len();
        scatter_add(
            &mut gradient[self.embed.clone()],
            &part.packed.tokens,
            d,
            room(&mut self.scratch.x, rows * d),
        );
        Ok(loss)
    }

    fn part_tokens(&self) -> usize {
        // A wide layer's activations in a few megabytes: they are still in cache when the next kernel reads them.
        2048
    }
}

impl Fused {
    /// Final norm, head and loss, and their gradient down to the last block's output.
    fn predict(&mut self, parameters: &[f32], part: &BatchPart, gradient: &mut [f32]) -> Loss {
        let (rows, d, vocab) = (part.rows.len(), self.spec.hidden, self.spec.vocab);
        let (norm, head) = (&parameters[self.norm.clone()], &parameters[self.head.clone()]);
        let last = room(&mut self.last, rows * d);
        let hidden = room(&mut self.hidden, rows * d);
        let logits = room(&mut self.logits, rows * vocab);
        kernels::rms_norm(last, norm, self.spec.eps, hidden);
        self.products.linear(hidden, rows, d, head, None, logits);
        let loss = loss::of(logits, &part.targets, &part.weights, part.certainty.as_ref());
        let normed = room(&mut self.scratch.normed, rows * d);
        self.products.through(logits, rows, head, vocab, d, normed, false);
        self.products.weight(logits, rows, hidden, vocab, d, &mut gradient[self.head.clone()]);
        let x = room(&mut self.scratch.x, rows * d);
        kernels::rms_norm_backward(last, norm, self.spec.eps, normed, x, &mut gradient[self.norm.clone()]);
        loss
    }
}
