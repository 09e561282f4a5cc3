//! The linear maps around attention: queries, keys and values (three tensors or one), norms of query and key heads where
//! the family has them, and the way back into the residual stream.

use candle_core::{Result as Candle, Tensor};

use super::parameter::{Parameter, Parameters, Place, Role};
use super::{Linear, RmsNorm, Rope, Turn};
use crate::config::{Positions, Spec};
use crate::error::Result;

/// Queries.
pub const Q: Role = Role("attn_q");
/// Keys.
pub const K: Role = Role("attn_k");
/// Values.
pub const V: Role = Role("attn_v");
/// Queries, keys and values in one tensor, rows in this order.
pub const QKV: Role = Role("attn_qkv");
/// Norm of every query head.
pub const Q_NORM: Role = Role("attn_q_norm");
/// Norm of every key head.
pub const K_NORM: Role = Role("attn_k_norm");
/// From the heads back into the stream.
pub const O: Role = Role("attn_output");

/// The maps around one layer's attention.
#[derive(Debug, Clone)]
pub struct Projections {
    q: Linear,
    k: Linear,
    v: Linear,
    o: Linear,
    norms: Option<[RmsNorm; 2]>,
    head_dim: usize,
    /// None where positions are in the stream itself.
    rope: Option<Rope>,
}

impl Projections {
    /// Its parameters, in the order of a checkpoint.
    pub fn parameters(spec: &Spec, place: &Place) -> Result<Vec<Parameter>> {
        let (d, q, kv, bias) = (spec.hidden, spec.q_width(), spec.kv_width(), spec.qkv_bias);
        let mut all = if spec.fused_qkv {
            vec![place.map(QKV, [q + 2 * kv, d], bias)?]
        } else {
            vec![place.map(Q, [q, d], bias)?, place.map(K, [kv, d], bias)?, place.map(V, [kv, d], bias)?]
        };
        if spec.qk_norm {
            all.push(place.scale(Q_NORM, spec.head_dim)?);
            all.push(place.scale(K_NORM, spec.head_dim)?);
        }
        all.push(place.map(O, [d, q], spec.output_bias)?);
        Ok(all)
    }

    /// Made of its parameters.
    pub fn load(spec: &Spec, place: &Place, from: &mut dyn Parameters) -> Result<Self> {
        let all = Self::parameters(spec, place)?;
        let mut all = all.iter();
        let mut next = || all.next().unwrap_or_else(|| unreachable!("the list and the layer agree"));
        let [q, k, v] = if spec.fused_qkv {
            let (q, kv) = (spec.q_width(), spec.kv_width());
            let fused = from.linear(next())?;
            [fused.rows(0..q)?, fused.rows(q..q + kv)?, fused.rows(q + kv..q + 2 * kv)?]
        } else {
            [from.linear(next())?, from.linear(next())?, from.linear(next())?]
        };
        let norms = if spec.qk_norm {
            let composed = from.composed();
            let norm = |scale| RmsNorm::new(scale, spec.eps).composed(composed);
            Some([norm(from.vector(next())?), norm(from.vector(next())?)])
        } else {
            None
        };
        let rope = Rope { head_dim: spec.head_dim, rotary: spec.rotary, theta: spec.rope_theta };
        let rope = (spec.positions == Positions::Rotary).then_some(rope);
        Ok(Self { q, k, v, o: from.linear(next())?, norms, head_dim: spec.head_dim, rope })
    }

    /// Queries of some rows `[rows, heads·dim]`, rotated.
    pub fn queries(&self, x: &Tensor, turn: &Turn) -> Candle<Tensor> {
        self.turned(self.q.forward(x)?, 0, turn)
    }

    /// Keys (rotated) and values of some rows `[rows, kv_heads·dim]`.
    pub fn keys_and_values(&self, x: &Tensor, turn: &Turn) -> Candle<(Tensor, Tensor)> {
        let [k, v] = Linear::forward_each([&self.k, &self.v], x)?;
        Ok((self.turned(k, 1, turn)?, v))
    }

    /// Queries and keys (rotated) and values of the same rows, which quantised maps share.
    pub fn all(&self, x: &Tensor, turn: &Turn) -> Candle<[Tensor; 3]> {
        let [q, k, v] = Linear::forward_each([&self.q, &self.k, &self.v], x)?;
        Ok([self.turned(q, 0, turn)?, self.turned(k, 1, turn)?, v])
    }

    /// From the heads back into the stream.
    pub fn output(&self, attended: &Tensor) -> Candle<Tensor> {
        self.o.forward(attended)
    }

    fn turned(&self, x: Tensor, which: usize, turn: &Turn) -> Candle<Tensor> {
        let x = match &self.norms {
            None => x,
            Some(norms) => {
                let (rows, width) = x.dims2()?;
                let heads = x.reshape((rows * width / self.head_dim, self.head_dim))?;
                norms[which].forward(&heads)?.reshape((rows, width))?
            }
        };
        match &self.rope {
            Some(rope) => rope.forward(&x, turn),
            None => Ok(x),
        }
    }
}
