//! A backbone over an explicit joint distribution of a few positions: conditionals, dependency and
//! the theorem can be checked by enumeration, with no weights.
//!
//! The canvas is exactly the joint's variables; a mask means "not observed". Hidden rows are the
//! log-probabilities themselves, so the head is the identity. A row's key is its token: with a cache, a row
//! that is not computed afresh is seen with the token it had before.

use crate::backbone::{self, Backbone, Pass, Query, Reuse, Rows};
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
        let ids = SpecialIds { mask: symbols as u32, eos: vec![symbols as u32 + 1], pad: None, bos: None };
        let spec = Spec { vocab, hidden: vocab, max_positions: positions, ..Spec::plain("tabular", ids) };
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

impl Tabular {
    /// Log-probabilities at each position as if its own token were not known.
    fn without(&self, tokens: &[u32], positions: &[usize]) -> Rows {
        let mut rows = Rows { data: Vec::new(), width: self.spec.vocab };
        for &position in positions {
            let mut tokens = tokens.to_vec();
            tokens[position] = self.spec.ids.mask;
            let p = self.conditional(&tokens, &[position]);
            rows.data.extend(p.iter().map(|p| p.ln() as f32));
            rows.data.extend([f32::NEG_INFINITY; 2]);
        }
        rows
    }
}

impl Backbone for Tabular {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn forward(&self, batch: &mut [Query<'_>]) -> Result<Vec<Pass>> {
        let rows = |tokens: &[u32], positions: &[usize]| {
            let mut rows = Rows { data: Vec::new(), width: self.spec.vocab };
            for &position in positions {
                let p = self.conditional(tokens, &[position]);
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
            let (tokens, computed_rows) = match &mut query.cache {
                None => (query.tokens.to_vec(), self.positions),
                Some(reuse) => {
                    let fresh = |p: &&usize| reuse.rows.binary_search(p).is_err();
                    if let Some(row) = query.predict.iter().find(fresh) {
                        return Err(Error::Query(format!(
                            "row {row} is wanted but is not among the rows to recompute"
                        )));
                    }
                    (seen(reuse, query.tokens), reuse.rows.len())
                }
            };
            Ok(Pass {
                predicting: rows(&tokens, query.predict),
                hidden: query.hidden.map(|(positions, _)| rows(&tokens, positions)),
                attention: None,
                shadow: query.shadow.as_ref().map(|shadow| self.without(&tokens, shadow.verify)),
                computed_rows,
                resident: None,
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

/// The canvas as its keys show it: fresh tokens where rows are computed, earlier ones elsewhere.
fn seen(reuse: &mut Reuse<'_>, tokens: &[u32]) -> Vec<u32> {
    let cache = &mut *reuse.cache;
    if !cache.holds(tokens.len()) {
        cache.layers = vec![(vec![0.0; tokens.len()], Vec::new())];
        cache.rows = tokens.len();
    }
    let keys = &mut cache.layers[0].0;
    for &row in reuse.rows {
        keys[row] = tokens[row] as f32;
    }
    keys.iter().map(|&key| key as u32).collect()
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
    fn a_row_that_is_kept_is_seen_with_its_earlier_token() {
        let table = Tabular::new(2, 2, vec![4.0, 1.0, 2.0, 3.0]).unwrap();
        let mask = table.spec().ids.mask;
        let mut cache = crate::KvCache::new();
        let mut predict = |tokens: &[u32], rows: &[usize]| {
            let reuse = Reuse { cache: &mut cache, rows };
            let mut batch = [Query { tokens, predict: &[0], cache: Some(reuse), ..Query::default() }];
            table.forward(&mut batch).map(|mut p| p.remove(0).predicting.row(0)[1].exp())
        };
        assert!(predict(&[mask, mask], &[0]).is_err(), "the first pass computes everything");
        let half = predict(&[mask, mask], &[0, 1]).unwrap();
        assert!((half - 0.5).abs() < 1e-6);
        assert_eq!(predict(&[mask, 1], &[0]).unwrap(), half);
        assert!((predict(&[mask, 1], &[0, 1]).unwrap() - 0.75).abs() < 1e-6);
        assert!(predict(&[mask, 1], &[1]).is_err(), "a predicted row must be computed");
    }

    #[test]
    fn wrong_sizes_are_refused() {
        assert!(Tabular::new(2, 2, vec![1.0; 3]).is_err());
        assert!(Tabular::new(2, 2, vec![0.0; 4]).is_err());
        assert!(Tabular::new(1, 2, vec![-1.0, 2.0]).is_err());
    }
}
