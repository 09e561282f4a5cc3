//! Left and right side of the assumption for masked responses, several per forward pass.

use demask_decode::batch::measured_together;
use demask_decode::dependency::{Masked, Reveals, Set};
use demask_decode::mask::RandomMask;
use demask_decode::probe::BackboneProbe;
use demask_decode::rng::{Purpose, Rng};
use demask_model::Backbone;

use super::{Record, SubadditivitySettings};
use crate::error::Result;
use crate::theory::example::Example;

/// Slot of the draw of a set's size.
const SIZE: u64 = u64::MAX;

/// A masked response and the set to reveal.
pub(super) struct Probed {
    id: String,
    mask: u32,
    rng: Rng,
    ratio: f64,
    canvas: Vec<u32>,
    masked: Vec<usize>,
    /// Indices into `masked`, ascending.
    set: Vec<usize>,
    mask_id: u32,
}

impl Probed {
    /// Mask number `mask` of an example, and its set.
    pub(super) fn draw(example: &Example, mask: u32, settings: &SubadditivitySettings, mask_id: u32) -> Self {
        let rng = Rng::named(settings.seed, &example.id);
        let mut canvas = [example.prompt.as_slice(), &example.response].concat();
        let index = u64::from(mask);
        let RandomMask { ratio, positions: masked } =
            RandomMask::draw(rng, index, example.prompt.len()..canvas.len());
        masked.iter().for_each(|&position| canvas[position] = mask_id);
        let set = set(rng, index, &masked, settings.largest_set);
        Self { id: example.id.clone(), mask, rng, ratio, canvas, masked, set, mask_id }
    }

    fn passes(&self) -> usize {
        self.set.len() + 2
    }

    fn record(&self, revealed: &[u32], tv: &demask_model::Rows) -> Record {
        let targets: Vec<usize> = (0..self.masked.len()).filter(|i| !self.set.contains(i)).collect();
        let (alone, together) = (0..self.set.len(), self.set.len());
        let rhs = |&i: &usize| alone.clone().map(|j| f64::from(tv.row(j)[i])).sum::<f64>() as f32;
        Record {
            id: self.id.clone(),
            mask: self.mask,
            ratio: self.ratio,
            masked: self.masked.len(),
            set: self.set.iter().map(|&i| self.masked[i]).collect(),
            revealed: self.set.iter().map(|&i| revealed[i]).collect(),
            lhs: targets.iter().map(|&i| tv.row(together)[i]).collect(),
            rhs: targets.iter().map(rhs).collect(),
            targets: targets.iter().map(|&i| self.masked[i]).collect(),
        }
    }
}

/// `|S|` uniform in `1..=min(largest, |M| − 1)`, then `S` uniform among the subsets of that size; at
/// least one masked position is left as a target.
fn set(rng: Rng, mask: u64, masked: &[usize], largest: usize) -> Vec<usize> {
    let most = largest.clamp(1, masked.len() - 1);
    let size = 1 + (rng.uniform(Purpose::Position, mask, SIZE) * most as f64) as usize;
    let mut order: Vec<(u64, usize)> = masked
        .iter()
        .enumerate()
        .map(|(i, &position)| (rng.bits(Purpose::Position, mask, position as u64), i))
        .collect();
    order.sort_unstable();
    let mut set: Vec<usize> = order[..size.min(most)].iter().map(|(_, i)| *i).collect();
    set.sort_unstable();
    set
}

/// How many of the first items are measured together; at least one.
pub(super) fn gather(items: &[Probed], vocab: usize, token_budget: usize) -> usize {
    let sizes = items.iter().map(|item| (item.passes() * item.canvas.len(), item.masked.len()));
    measured_together(sizes, token_budget, vocab)
}

/// Measures items together; also says how many forward passes it took.
pub(super) fn measure(
    backbone: &dyn Backbone,
    items: &[Probed],
    token_budget: usize,
) -> Result<(Vec<Record>, usize)> {
    let probe = BackboneProbe::new(backbone, token_budget);
    let canvases: Vec<Masked<'_>> =
        items.iter().map(|item| Masked { tokens: &item.canvas, masked: &item.masked, rows: None }).collect();
    let bases = Reveals::measure_each(&probe, &canvases)?;
    let drawn: Vec<Vec<u32>> = items
        .iter()
        .zip(&bases)
        .map(|(item, base)| base.draw(item.rng, u64::from(item.mask), 0, item.mask_id))
        .collect();
    let sets = items.iter().zip(&drawn).map(|(item, y)| {
        let alone = item.set.iter().map(|&i| vec![(i, y[i])]);
        let together = item.set.iter().map(|&i| (i, y[i])).collect();
        alone.chain([together]).collect::<Vec<_>>()
    });
    let reveals: Vec<(&Reveals<'_>, Vec<Set>)> = bases.iter().zip(sets).collect();
    let measured = Reveals::reveal_sets(&probe, &reveals)?;
    let records = items.iter().zip(&drawn).zip(&measured).map(|((item, y), tv)| item.record(y, tv)).collect();
    Ok((records, probe.asked()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Section 5.4: `|S|` is uniform on 1..6 and `S` uniform among the subsets of that size; with few masks, uniform on
    /// what leaves a target.
    #[test]
    fn sizes_and_subsets_are_uniform() {
        let masked: Vec<usize> = (10..22).collect();
        let (mut sizes, mut hits, mut small) = ([0_u32; 7], [[0_u32; 12]; 7], [0_u32; 4]);
        const DRAWS: u64 = 30_000;
        for id in 0..DRAWS {
            let drawn = set(Rng::new(4, id), id % 5, &masked, 6);
            assert!(drawn.windows(2).all(|pair| pair[0] < pair[1]));
            sizes[drawn.len()] += 1;
            drawn.iter().for_each(|&i| hits[drawn.len()][i] += 1);
            small[set(Rng::new(4, id), 0, &masked[..4], 6).len()] += 1;
        }
        assert_eq!((sizes[0], small[0]), (0, 0));
        let near = |count: u32, share: f64| {
            let expected = DRAWS as f64 * share;
            (f64::from(count) - expected).abs() < 5.0 * (expected * (1.0 - share)).sqrt()
        };
        assert!(sizes[1..].iter().all(|&count| near(count, 1.0 / 6.0)), "{sizes:?}");
        assert!(small[1..].iter().all(|&count| near(count, 1.0 / 3.0)), "{small:?}");
        for (size, hits) in hits.iter().enumerate().skip(1) {
            assert!(hits.iter().all(|&count| near(count, size as f64 / 72.0)), "of size {size}: {hits:?}");
        }
    }
}
