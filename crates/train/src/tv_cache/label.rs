//! Stability labels: what the model thinks of every mask of a state, and which of the unsure ones change their most
//! probable token once the tokens of all sure ones are revealed; one more pass per state.
//!
//! The mask itself is no token that could be written, so it takes no part, as when decoding.

use demask_decode::dependency::{Opinion, Reveals};
use demask_decode::probe::{Probe, Question};
use demask_decode::rule::Before;
use demask_kernels::{SoftmaxStats, softmax_stats};

use super::format::{Numbers, Stored};
use crate::error::Result;

/// It is unsure and stays what it is.
pub const KEEPS: u32 = 0;
/// It is unsure and changes.
pub const CHANGES: u32 = 1;
/// It is sure, or nothing is: there is no label.
pub const UNLABELLED: u32 = 2;

/// Numbers stored of an opinion: top-1, top-2, entropy, top-1 of the step before (−1 if there was none), whether the
/// token was the same then.
pub(super) const NUMBERS: usize = 5;

/// The labels of a state.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Labels {
    pub(super) opinions: Vec<SoftmaxStats>,
    pub(super) changes: Vec<u32>,
}

/// Labels states that were measured; each comes with its canvas and masks.
pub(super) fn label(
    probe: &dyn Probe,
    bases: &[(&Reveals<'_>, &[u32], &[usize])],
    gamma: f32,
    mask: u32,
) -> Result<Vec<Labels>> {
    let opinion = |row: &[f32]| {
        let mut row = row.to_vec();
        row[mask as usize] = f32::NEG_INFINITY;
        softmax_stats(&row)
    };
    let mut labels: Vec<Labels> = Vec::with_capacity(bases.len());
    let mut asked = Vec::new();
    for (index, (base, canvas, masked)) in bases.iter().enumerate() {
        let opinions: Vec<SoftmaxStats> = (0..masked.len()).map(|i| opinion(base.row(i))).collect();
        let unsure: Vec<usize> = (0..masked.len()).filter(|&i| opinions[i].top1 <= gamma).collect();
        if !unsure.is_empty() && unsure.len() < masked.len() {
            let mut revealed = canvas.to_vec();
            for (&at, o) in masked.iter().zip(&opinions).filter(|(_, o)| o.top1 > gamma) {
                revealed[at] = o.argmax as u32;
            }
            let positions: Vec<usize> = unsure.iter().map(|&i| masked[i]).collect();
            asked.push((index, revealed, positions, unsure));
        }
        labels.push(Labels { changes: vec![UNLABELLED; masked.len()], opinions });
    }
    let questions: Vec<Question<'_>> = asked
        .iter()
        .map(|(_, tokens, positions, _)| Question { tokens, predict: positions, hidden: None })
        .collect();
    let places: Vec<(usize, usize)> =
        asked.iter().flat_map(|(index, _, _, unsure)| unsure.iter().map(move |&i| (*index, i))).collect();
    let vocab = probe.vocab();
    probe.ask_each(&questions, &mut |first, chunk| {
        for (row, &(state, i)) in chunk.chunks_exact(vocab).zip(&places[first..]) {
            let same = opinion(row).argmax == labels[state].opinions[i].argmax;
            labels[state].changes[i] = if same { KEEPS } else { CHANGES };
        }
    })?;
    Ok(labels)
}

/// Opinions as they are stored.
pub(super) fn stored(opinions: &[SoftmaxStats], before: &[Option<Before>]) -> Numbers {
    let numbers = opinions.iter().enumerate().flat_map(|(i, o)| {
        let before = before.get(i).copied().flatten();
        let (top1, kept) = before.map_or((-1.0, 0.0), |b| (b.top1, f32::from(u8::from(b.kept))));
        [o.top1, o.top2, o.entropy, top1, kept]
    });
    Numbers::new(Stored::F32, &numbers.collect::<Vec<f32>>())
}

/// The opinions that were stored.
pub(super) fn opinions(stored: &Numbers) -> Vec<Opinion> {
    let opinion = |o: &[f32]| Opinion {
        top1: o[0],
        top2: o[1],
        entropy: o[2],
        before: (o[3] >= 0.0).then_some(Before { kept: o[4] > 0.5, top1: o[3] }),
    };
    stored.to_f32().chunks_exact(NUMBERS).map(opinion).collect()
}
