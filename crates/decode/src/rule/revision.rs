//! Dependency-guided remasking, an option of DEMASK beyond the paper: a token was chosen given a context, and the
//! dependency at that time says how much each position revealed later was expected to move its distribution. When
//! those add up to more than a limit, the token is masked again and decided with what is now known.
//!
//! Invariants: a position goes back at most once, fewer go back than a step commits, and an end of sequence stays; so
//! every step leaves fewer masks than it found.

use std::collections::{BTreeMap, BTreeSet};

use crate::canvas::Cell;
use crate::dependency::Dependency;
use crate::rule::top_k;
use crate::strategy::Step;

/// How far the context of each committed token of the block has moved.
#[derive(Debug)]
pub struct Revision {
    limit: f32,
    committed: BTreeMap<usize, Token>,
    /// Positions that went back already.
    revised: BTreeSet<usize>,
}

#[derive(Debug)]
struct Token {
    /// Its dependency on what was masked when it was committed.
    on: BTreeMap<usize, f32>,
    /// What has been revealed of that.
    moved: f32,
}

impl Revision {
    /// Tokens go back when their context moved by more than `limit`.
    pub fn new(limit: f32) -> Self {
        Self { limit, committed: BTreeMap::new(), revised: BTreeSet::new() }
    }

    /// Notes that `chosen` are committed; returns positions to mask again, those that moved most first.
    pub fn commit(&mut self, step: &Step<'_>, dependency: &Dependency, chosen: &[usize]) -> Vec<usize> {
        if step.block.step == 0 {
            self.committed.clear();
            self.revised.clear();
        }
        let revealed: Vec<usize> = chosen.iter().map(|&i| step.masked[i]).collect();
        for token in self.committed.values_mut() {
            token.moved += revealed.iter().filter_map(|p| token.on.get(p)).sum::<f32>();
        }
        let again = self.moved(step, chosen.len() - 1);
        for position in &again {
            self.committed.remove(position);
            self.revised.insert(*position);
        }
        for &i in chosen {
            let others = (0..step.masked.len()).filter(|&j| j != i);
            let on: BTreeMap<usize, f32> = others.map(|j| (step.masked[j], dependency.on(i, j))).collect();
            // What is written at the same time is context it did not have.
            let moved = revealed.iter().filter_map(|p| on.get(p)).sum();
            self.committed.insert(step.masked[i], Token { on, moved });
        }
        again
    }

    fn moved(&self, step: &Step<'_>, most: usize) -> Vec<usize> {
        let canvas = step.canvas;
        let may = |p: usize| {
            !self.revised.contains(&p)
                && matches!(canvas.cells()[p], Cell::Committed { .. })
                && !canvas.is_eos(canvas.tokens()[p])
        };
        let (positions, moved): (Vec<usize>, Vec<f32>) = self
            .committed
            .iter()
            .filter(|&(&p, token)| token.moved > self.limit && may(p))
            .map(|(&p, token)| (p, token.moved))
            .unzip();
        top_k(&moved, most).into_iter().map(|i| positions[i]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use crate::testing::{EOS, Scene, Silent};

    /// Commits `chosen` (indices into the masks) with a matrix in which everything depends on position `p` by
    /// `on(p)`; returns what goes back and keeps the scene in step.
    fn commit(
        revision: &mut Revision,
        scene: &mut Scene,
        chosen: &[usize],
        token: u32,
        on: impl Fn(usize) -> f32,
    ) -> Vec<usize> {
        let masked = scene.masked();
        let size = masked.len();
        let cell = |at: usize| if at / size == at % size { 0.0 } else { on(masked[at % size]) };
        let dependency = Dependency::from_rows((0..size * size).map(cell).collect(), size);
        let again = revision.commit(
            &Step {
                index: scene.index,
                block: scene.block,
                canvas: &scene.canvas,
                masked: &masked,
                marginals: &scene.marginals,
                rows: None,
                sampling: &crate::sampler::Sampling::default(),
                hidden: None,
                resident: None,
                attention: None,
                rng: Rng::new(0, 0),
                probe: &Silent,
            },
            &dependency,
            chosen,
        );
        for &i in chosen {
            scene.commit(masked[i], token, 0.9);
        }
        scene.canvas.remask(&again);
        scene.block.step += 1;
        again
    }

    #[test]
    fn a_token_goes_back_once_when_its_context_moved_by_more_than_the_limit() {
        let (mut revision, mut scene) = (Revision::new(0.5), Scene::new(&[0.9; 9]));
        let on = |p: usize| [0.0, 0.0, 0.25, 0.25, 0.125, 0.0, 0.0, 0.0, 0.0, 0.0][p];
        // Position 1 stands. Then 2 and 3 are revealed: 0.5 is not more than the limit.
        assert!(commit(&mut revision, &mut scene, &[0], 7, on).is_empty());
        assert!(commit(&mut revision, &mut scene, &[0, 1], 7, on).is_empty());
        // Position 4 makes it 0.625; a step that commits one takes none back, the next one may.
        assert!(commit(&mut revision, &mut scene, &[0], 7, on).is_empty());
        assert_eq!(commit(&mut revision, &mut scene, &[0, 1], 7, on), [1]);
        // It stands again and moves again, but stays.
        scene.marginals.insert(0, scene.marginals[0]);
        assert!(commit(&mut revision, &mut scene, &[0], 7, |_| 9.0).is_empty());
        assert!(commit(&mut revision, &mut scene, &[0, 1], 7, |_| 9.0).iter().all(|&p| p != 1));
    }

    #[test]
    fn what_moved_most_goes_first_and_an_end_of_sequence_stays() {
        let (mut revision, mut scene) = (Revision::new(0.1), Scene::new(&[0.9; 6]));
        assert!(commit(&mut revision, &mut scene, &[0], 7, |_| 0.25).is_empty());
        assert!(commit(&mut revision, &mut scene, &[0], EOS, |_| 0.5).is_empty());
        assert!(commit(&mut revision, &mut scene, &[0], 7, |_| 0.75).is_empty());
        // Position 1 moved by 4·0.25, position 2 (an end) by 3·0.5, position 3 by 2·0.75; one may go.
        assert_eq!(commit(&mut revision, &mut scene, &[0, 1], 7, |_| 0.0), [3]);
    }
}
