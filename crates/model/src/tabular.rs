//! A backbone over an explicit joint distribution of a few positions: conditionals, dependency and
//! the theorem can be checked by enumeration, with no weights.
//!
//! The canvas is exactly the joint's variables; a mask means "not observed". Hidden rows are the
//! log-probabilities themselves, so the head is the identity.

use crate::backbone::{self, Backbone, Pass, Query, Rows};
use crate::config::{Spec, SpecialIds};
use crate::error::{Error, Result};

/// An explicit joint `P(Y_1, …, Y_n)` over `symbols` values each; token `symbols` is the mask and
/// `symbols + 1` the end of sequence, which never occurs.
#[derive(Debug, Clone)]
pub struct Tabular {
    spec: Spec,
    positions: usize,
    symbols: usize,
    /// Probabilities, first position most significant.
    joint: Vec<f64>,
}

impl Tabular {
    /// Normalises `weights`, one per assignment in lexicographic order.
    pub fn new(positions: usize, symbols: usize, weights: Vec<f64>) -> Result<Self> {
        let total: f64 = weights.iter().sum();
        let size = symbols.checked_pow(positions as u32).filter(|_| positions > 0 && symbols > 0);
        if size != Some(weights.len())
            || weights.iter().any(|w| !(w.is_finite() && *w >= 0.0))
            || total <= 0.0
        {
            return Err(Error::Query(format!(
                "a joint over {positions} positions of {symbols} symbols needs that many non-negative weights"
            )));
        }
        let joint = weights.into_iter().map(|w| w / total).collect();
        let vocab = symbols + 2;
        let spec = Spec {
            architecture: "tabular",
            vocab,
            hidden: vocab,
            layers: 1,
            heads: 1,
            kv_heads: 1,
            head_dim: 2,
            ffn: 1,
            eps: 1e-6,
            rope_theta: 1e4,
            max_positions: positions,
            tied: false,
            qkv_bias: false,
            shift: false,
            ids: SpecialIds { mask: symbols as u32, eos: vec![symbols as u32 + 1], pad: None, bos: None },
        };
        Ok(Self { spec, positions, symbols, joint })
    }

    /// Number of variables.
    pub fn positions(&self) -> usize {
        self.positions
    }

    /// Number of values each takes.
    pub fn symbols(&self) -> usize {
        self.symbols
    }

    /// Exact joint distribution of `targets` given the observed tokens of a canvas, in
    /// lexicographic order of the targets' values.
    pub fn conditional(&self, canvas: &[u32], targets: &[usize]) -> Vec<f64> {
        let mut out = vec![0.0; self.symbols.pow(targets.len() as u32)];
        for (index, &p) in self.joint.iter().enumerate() {
            let value = |position: usize| {
                index / self.symbols.pow((self.positions - 1 - position) as u32) % self.symbols
            };
            let agrees = |(i, &t): (usize, &u32)| t == self.spec.ids.mask || value(i) == t as usize;
            if canvas.iter().enumerate().all(agrees) {
                let slot = targets.iter().fold(0, |slot, &t| slot * self.symbols + value(t));
                out[slot] += p;
            }
        }
        let total: f64 = out.iter().sum();
        if total > 0.0 {
            out.iter_mut().for_each(|p| *p /= total);
        } else {
            // An observation of probability zero: nothing is known.
            let uniform = 1.0 / out.len() as f64;
            out.fill(uniform);
        }
        out
    }
}

impl Backbone for Tabular {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn forward(&self, batch: &mut [Query<'_>]) -> Result<Vec<Pass>> {
        let rows = |query: &Query<'_>, positions: &[usize]| {
            let mut rows = Rows { data: Vec::new(), width: self.spec.vocab };
            for &position in positions {
                let p = self.conditional(query.tokens, &[position]);
                rows.data.extend(p.iter().map(|p| p.ln() as f32));
                rows.data.extend([f32::NEG_INFINITY; 2]);
            }
            rows
        };
        let pass = |query: &mut Query<'_>| {
            backbone::check(&self.spec, query)?;
            if query.tokens.len() != self.positions {
                return Err(Error::Query(format!("this joint has {} positions", self.positions)));
            }
            Ok(Pass {
                predicting: rows(query, query.predict),
                hidden: query.hidden.map(|(positions, _)| rows(query, positions)),
                attention: None,
                computed_rows: self.positions,
            })
        };
        batch.iter_mut().map(pass).collect()
    }

    fn logits(&self, rows: &Rows, visit: &mut dyn FnMut(usize, &mut [f32])) -> Result<()> {
        visit(0, &mut rows.data.clone());
        Ok(())
    }

    fn fingerprint(&self) -> String {
        format!("tabular-{}-{}", self.positions, self.symbols)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditionals_are_those_of_the_joint() {
        // P(00) = 0.4, P(01) = 0.1, P(10) = 0.2, P(11) = 0.3.
        let table = Tabular::new(2, 2, vec![4.0, 1.0, 2.0, 3.0]).unwrap();
        let mask = table.spec().ids.mask;
        assert_eq!(table.conditional(&[mask, mask], &[0]), [0.5, 0.5]);
        let given = table.conditional(&[mask, 1], &[0]);
        assert!((given[0] - 0.25).abs() < 1e-12 && (given[1] - 0.75).abs() < 1e-12);
        let tokens = [mask, 1];
        let mut batch = [Query { tokens: &tokens, predict: &[0], ..Query::default() }];
        let pass = table.forward(&mut batch).unwrap().remove(0);
        assert!((pass.predicting.row(0)[1].exp() - 0.75).abs() < 1e-6);
    }

    #[test]
    fn wrong_sizes_are_refused() {
        assert!(Tabular::new(2, 2, vec![1.0; 3]).is_err());
        assert!(Tabular::new(2, 2, vec![0.0; 4]).is_err());
        assert!(Tabular::new(1, 2, vec![-1.0, 2.0]).is_err());
    }
}
