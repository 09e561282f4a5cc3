//! Attention maps as graphs over positions, for the strategies that read dependency off attention.

use demask_model::Rows;

use crate::error::{Error, Result};
use crate::strategy::Step;

/// The attention a strategy asked for.
pub fn attention<'a>(step: &Step<'a>, strategy: &str) -> Result<&'a Rows> {
    let length = step.canvas.tokens().len();
    step.attention.filter(|a| a.width == length && a.len() == length).ok_or_else(|| Error::Missing {
        strategy: strategy.into(),
        what: "attention over the whole canvas: use a backbone that gives it".into(),
    })
}

/// Greedy independent set: visits `order` and keeps what has no edge to anything kept.
pub fn independent(order: &[usize], edge: impl Fn(usize, usize) -> bool) -> Vec<usize> {
    let mut kept: Vec<usize> = Vec::new();
    for &i in order {
        if !kept.iter().any(|&j| edge(i, j)) {
            kept.push(i);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_ones_exclude_their_neighbours() {
        // A path 0 – 1 – 2 – 3.
        let edge = |a: usize, b: usize| a.abs_diff(b) == 1;
        assert_eq!(independent(&[0, 1, 2, 3], edge), [0, 2]);
        assert_eq!(independent(&[1, 0, 2, 3], edge), [1, 3]);
        assert!(independent(&[], edge).is_empty());
    }
}
