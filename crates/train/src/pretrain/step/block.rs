//! One block of the written-out gradient: forward with every activation kept, and backward over the same buffers.

use std::ops::Range;

use demask_kernels::{self as kernels, Heads, Segment};
use demask_model::Spec;

use super::products::Products;
use super::rows::{add, add_column_sums, gather, room, scatter_add};

/// Where a block's tensors lie in the flat vector.
pub(super) struct Places {
    pub(super) attn_norm: Range<usize>,
    pub(super) q: Range<usize>,
    pub(super) k: Range<usize>,
    pub(super) v: Range<usize>,
    pub(super) biases: Option<[Range<usize>; 3]>,
    pub(super) o: Range<usize>,
    pub(super) ffn_norm: Range<usize>,
    pub(super) gate: Range<usize>,
    pub(super) up: Range<usize>,
    pub(super) down: Range<usize>,
}

/// Activations of a block that its gradient needs. `T` rows of the part, `R` of them asking.
#[derive(Default)]
pub(super) struct Kept {
    /// Input `[T, d]` and its normalised form.
    pub(super) x: Vec<f32>,
    pub(super) normed: Vec<f32>,
    /// The asking rows of `normed` `[R, d]`, where not all ask.
    pub(super) asking: Vec<f32>,
    /// Rotated queries `[R, q]`, rotated keys and values `[T, kv]`.
    pub(super) q: Vec<f32>,
    pub(super) k: Vec<f32>,
    pub(super) v: Vec<f32>,
    /// Attention's output `[R, q]` and row statistics `[R, heads]`.
    pub(super) attended: Vec<f32>,
    pub(super) lse: Vec<f32>,
    /// After attention `[R, d]`, and its normalised form.
    pub(super) mid: Vec<f32>,
    pub(super) mid_normed: Vec<f32>,
    /// Inside the MLP `[R, ffn]`.
    pub(super) gate: Vec<f32>,
    pub(super) up: Vec<f32>,
    pub(super) inner: Vec<f32>,
}

/// Gradients of activations on their way down.
#[derive(Default)]
pub(super) struct Scratch {
    /// Of the residual stream.
    pub(super) x: Vec<f32>,
    pub(super) normed: Vec<f32>,
    pub(super) through_norm: Vec<f32>,
    pub(super) asking: Vec<f32>,
    pub(super) attended: Vec<f32>,
    pub(super) q: Vec<f32>,
    pub(super) k: Vec<f32>,
    pub(super) v: Vec<f32>,
    pub(super) inner: Vec<f32>,
    pub(super) gate: Vec<f32>,
    pub(super) up: Vec<f32>,
}

/// Who asks in a block, and what they see.
pub(super) struct Geometry<'a> {
    /// Rows of the part that ask; all of them if `None`.
    pub(super) rows: Option<&'a [u32]>,
    pub(super) asking: usize,
    pub(super) positions: &'a [u32],
    pub(super) asking_positions: &'a [u32],
    pub(super) segments: &'a [Segment],
}

/// A block: its shape, where its tensors lie in the parameters, and how it multiplies.
#[derive(Clone, Copy)]
pub(super) struct Layer<'a> {
    pub(super) spec: &'a Spec,
    pub(super) places: &'a Places,
    pub(super) products: Products,
    pub(super) parameters: &'a [f32],
}

impl Kept {
    pub(super) fn forward(&mut self, layer: Layer<'_>, geometry: &Geometry<'_>, out: &mut Vec<f32>) {
        let Layer { spec, places, products, parameters } = layer;
        let (d, ffn, q_width, kv_width) = (spec.hidden, spec.ffn, spec.q_width(), spec.kv_width());
        let (rows, asking) = (geometry.positions.len(), geometry.asking);
        let linear = |x: &[f32],
                      rows: usize,
                      k: usize,
                      w: &Range<usize>,
                      bias: Option<&Range<usize>>,
                      y: &mut [f32]| {
            let bias = bias.map(|bias| &parameters[bias.clone()]);
            products.linear(x, rows, k, &parameters[w.clone()], bias, y);
        };
        let bias = |which: usize| places.biases.as_ref().map(|biases| &biases[which]);
        let x = &self.x[..rows * d];
        let normed = room(&mut self.normed, rows * d);
        kernels::rms_norm(x, &parameters[places.attn_norm.clone()], spec.eps, normed);
        let k = room(&mut self.k, rows * kv_width);
        linear(normed, rows, d, &places.k, bias(1), k);
        rope(spec, k, geometry.positions, spec.kv_heads, false);
        let v = room(&mut self.v, rows * kv_width);
        linear(normed, rows, d, &places.v, bias(2), v);
        let mid = room(&mut self.mid, asking * d);
        let q = room(&mut self.q, asking * q_width);
        let attended = room(&mut self.attended, asking * q_width);
        let lse = room(&mut self.lse, asking * spec.heads);
        let normed = match geometry.rows {
            None => normed,
            Some(rows) => {
                let picked = room(&mut self.asking, asking * d);
                gather(normed, rows, d, picked);
                picked
            }
        };
        linear(normed, asking, d, &places.q, bias(0), q);
        rope(spec, q, geometry.asking_positions, spec.heads, false);
        kernels::attention(q, k, v, heads(spec), geometry.segments, attended, Some(lse));
        linear(attended, asking, q_width, &places.o, None, mid);
        match geometry.rows {
            None => add(mid, x),
            Some(rows) => {
                // `out` is free until the end of the block.
                let picked = room(out, asking * d);
                gather(x, rows, d, picked);
                add(mid, picked);
            }
        }
        let mid_normed = room(&mut self.mid_normed, asking * d);
        kernels::rms_norm(mid, &parameters[places.ffn_norm.clone()], spec.eps, mid_normed);
        let (gate, up) = (room(&mut self.gate, asking * ffn), room(&mut self.up, asking * ffn));
        linear(mid_normed, asking, d, &places.gate, None, gate);
        linear(mid_normed, asking, d, &places.up, None, up);
        let inner = room(&mut self.inner, asking * ffn);
        kernels::silu_gate(gate, up, inner);
        let out = room(out, asking * d);
        linear(inner, asking, ffn, &places.down, None, out);
        add(out, mid);
    }

    /// From the gradient of the block's output in `scratch.x` `[R, d]` to that of its input `[T, d]`, in the same place.
    pub(super) fn backward(
        &mut self,
        layer: Layer<'_>,
        geometry: &Geometry<'_>,
        scratch: &mut Scratch,
        gradient: &mut [f32],
    ) {
        let Layer { spec, places, products, parameters } = layer;
        self.backward_mlp(layer, geometry.asking, scratch, gradient);
        self.backward_attention(layer, geometry, scratch, gradient);
        let (d, rows, asking) = (spec.hidden, geometry.positions.len(), geometry.asking);
        let of = |range: &Range<usize>| &parameters[range.clone()];
        let (q_width, kv_width) = (spec.q_width(), spec.kv_width());
        let (q, k, v) =
            (&scratch.q[..asking * q_width], &scratch.k[..rows * kv_width], &scratch.v[..rows * kv_width]);
        let normed = room(&mut scratch.normed, rows * d);
        products.through(k, rows, of(&places.k), kv_width, d, normed, false);
        products.through(v, rows, of(&places.v), kv_width, d, normed, true);
        match geometry.rows {
            None => products.through(q, rows, of(&places.q), q_width, d, normed, true),
            Some(places_of) => {
                let picked = room(&mut scratch.asking, asking * d);
                products.through(q, asking, of(&places.q), q_width, d, picked, false);
                scatter_add(normed, places_of, d, picked);
            }
        }
        let through_norm = room(&mut scratch.through_norm, rows * d);
        let norm_gradient = &mut gradient[places.attn_norm.clone()];
        kernels::rms_norm_backward(
            &self.x[..rows * d],
            of(&places.attn_norm),
            spec.eps,
            normed,
            through_norm,
            norm_gradient,
        );
        match geometry.rows {
            None => add(room(&mut scratch.x, rows * d), through_norm),
            Some(places_of) => {
                scatter_add(through_norm, places_of, d, room(&mut scratch.x, asking * d));
                std::mem::swap(&mut scratch.x, &mut scratch.through_norm);
            }
        }
    }

    /// The MLP half: `scratch.x` becomes the gradient of `mid`.
    fn backward_mlp(&self, layer: Layer<'_>, rows: usize, scratch: &mut Scratch, gradient: &mut [f32]) {
        let Layer { spec, places, products, parameters } = layer;
        let (d, ffn) = (spec.hidden, spec.ffn);
        let of = |range: &Range<usize>| &parameters[range.clone()];
        let x = room(&mut scratch.x, rows * d);
        let inner = room(&mut scratch.inner, rows * ffn);
        products.through(x, rows, of(&places.down), d, ffn, inner, false);
        products.weight(x, rows, &self.inner[..rows * ffn], d, ffn, &mut gradient[places.down.clone()]);
        let (gate, up) = (room(&mut scratch.gate, rows * ffn), room(&mut scratch.up, rows * ffn));
        kernels::silu_gate_backward(&self.gate[..rows * ffn], &self.up[..rows * ffn], inner, gate, up);
        let normed = room(&mut scratch.normed, rows * d);
        products.through(gate, rows, of(&places.gate), ffn, d, normed, false);
        products.through(up, rows, of(&places.up), ffn, d, normed, true);
        let input = &self.mid_normed[..rows * d];
        products.weight(gate, rows, input, ffn, d, &mut gradient[places.gate.clone()]);
        products.weight(up, rows, input, ffn, d, &mut gradient[places.up.clone()]);
        let through_norm = room(&mut scratch.through_norm, rows * d);
        let norm_gradient = &mut gradient[places.ffn_norm.clone()];
        kernels::rms_norm_backward(
            &self.mid[..rows * d],
            of(&places.ffn_norm),
            spec.eps,
            normed,
            through_norm,
            norm_gradient,
        );
        add(x, through_norm);
    }

    /// Attention: leaves the gradients of the projections' outputs in `scratch.{q,k,v}`, and adds those of their weights.
    fn backward_attention(
        &self,
        layer: Layer<'_>,
        geometry: &Geometry<'_>,
        scratch: &mut Scratch,
        gradient: &mut [f32],
    ) {
        let Layer { spec, places, products, parameters } = layer;
        let (d, rows, asking) = (spec.hidden, geometry.positions.len(), geometry.asking);
        let (q_width, kv_width) = (spec.q_width(), spec.kv_width());
        let x = &scratch.x[..asking * d];
        let attended = room(&mut scratch.attended, asking * q_width);
        products.through(x, asking, &parameters[places.o.clone()], d, q_width, attended, false);
        let own_attended = &self.attended[..asking * q_width];
        products.weight(x, asking, own_attended, d, q_width, &mut gradient[places.o.clone()]);
        let q = room(&mut scratch.q, asking * q_width);
        let (k, v) = (room(&mut scratch.k, rows * kv_width), room(&mut scratch.v, rows * kv_width));
        let own = (&self.q[..asking * q_width], &self.k[..rows * kv_width], &self.v[..rows * kv_width]);
        let lse = &self.lse[..asking * spec.heads];
        kernels::attention_backward(
            own.0,
            own.1,
            own.2,
            own_attended,
            lse,
            attended,
            heads(spec),
            geometry.segments,
            q,
            k,
            v,
        );
        rope(spec, q, geometry.asking_positions, spec.heads, true);
        rope(spec, k, geometry.positions, spec.kv_heads, true);
        if let Some([q_bias, k_bias, v_bias]) = &places.biases {
            add_column_sums(q, &mut gradient[q_bias.clone()]);
            add_column_sums(k, &mut gradient[k_bias.clone()]);
            add_column_sums(v, &mut gradient[v_bias.clone()]);
        }
        let normed = &self.normed[..rows * d];
        let input = if geometry.rows.is_some() { &self.asking[..asking * d] } else { normed };
        products.weight(q, asking, input, q_width, d, &mut gradient[places.q.clone()]);
        products.weight(k, rows, normed, kv_width, d, &mut gradient[places.k.clone()]);
        products.weight(v, rows, normed, kv_width, d, &mut gradient[places.v.clone()]);
    }
}

fn heads(spec: &Spec) -> Heads {
    Heads { query: spec.heads, kv: spec.kv_heads, dim: spec.head_dim }
}

fn rope(spec: &Spec, x: &mut [f32], positions: &[u32], heads: usize, inverse: bool) {
    kernels::rope(x, positions, heads, spec.head_dim, spec.rope_theta as f32, inverse);
}
