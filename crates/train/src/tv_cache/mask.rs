//! Random masks of a response, as the decoder's crate draws them, and how many times each is drawn from.
//!
//! Invariant: a mask is a function of (seed, response id, mask index) and the place of the response.

use std::ops::Range;

use demask_decode::mask::RandomMask;
use demask_decode::rng::{Purpose, Rng};
use demask_model::Spec;

use super::settings::TvCacheSettings;

/// Slots of random numbers that belong to no position.
const REPEAT: u64 = u64::MAX - 1;
const LENGTH: u64 = u64::MAX - 2;
const BLOCK: u64 = u64::MAX - 3;

/// One mask of one response.
#[derive(Debug, Clone, PartialEq)]
pub struct Mask {
    /// The drawn ratio.
    pub ratio: f64,
    /// Masked positions of the canvas, ascending.
    pub positions: Vec<usize>,
    /// How many times tokens are drawn and revealed.
    pub draws: u32,
}

/// Randomness of a response.
pub(super) fn randomness(settings: &TvCacheSettings, id: &str) -> Rng {
    Rng::named(settings.seed, id)
}

/// The length a response is filled up to: one of those it fits into with its end, each as likely as the next.
pub(super) fn padded(settings: &TvCacheSettings, rng: Rng, least: usize) -> usize {
    let fitting: Vec<usize> = settings.pad_to.iter().copied().filter(|&length| length >= least).collect();
    match fitting.len() as u64 {
        0 => least,
        count => fitting[(rng.bits(Purpose::Mask, 0, LENGTH) % count) as usize],
    }
}

/// Where a mask of a response lies: anywhere in it, and where the model attends block by block within one of its blocks,
/// since a step of decoding never sees masks of two. Every block with a pair of positions is as likely as the next.
pub(super) fn place(spec: &Spec, rng: Rng, index: u32, response: Range<usize>) -> Range<usize> {
    let Some(grid) = spec.grid(response.start, None) else { return response };
    let (mut blocks, mut start) = (Vec::new(), response.start);
    while start < response.end {
        let end = grid.end(start).min(response.end);
        blocks.extend((end - start >= 2).then_some(start..end));
        start = end;
    }
    match blocks.len() as u64 {
        0 => response,
        count => blocks.swap_remove((rng.bits(Purpose::Mask, u64::from(index), BLOCK) % count) as usize),
    }
}

impl Mask {
    /// Mask number `index` of a response (two tokens at least) that occupies `response` of its canvas.
    pub(super) fn draw(settings: &TvCacheSettings, rng: Rng, index: u32, response: Range<usize>) -> Self {
        let RandomMask { ratio, positions } = RandomMask::draw(rng, u64::from(index), response);
        Self::given(settings, rng, index, ratio, positions)
    }

    /// Mask number `index` with these positions, which somebody else chose.
    pub(super) fn given(
        settings: &TvCacheSettings,
        rng: Rng,
        index: u32,
        ratio: f64,
        positions: Vec<usize>,
    ) -> Self {
        let repeated = rng.uniform(Purpose::Mask, u64::from(index), REPEAT) < settings.repeat_share;
        Self { ratio, positions, draws: 1 + u32::from(repeated) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_the_masks_is_drawn_twice() {
        let settings = TvCacheSettings { repeat_share: 0.25, ..TvCacheSettings::default() };
        let draws = |id: u32| Mask::draw(&settings, randomness(&settings, &id.to_string()), 3, 10..30).draws;
        let twice = (0..4000).filter(|&id| draws(id) == 2).count();
        assert!((900..1100).contains(&twice), "{twice}");
    }

    #[test]
    fn a_block_causal_model_is_masked_in_one_block() {
        use demask_model::SpecialIds;
        use demask_model::config::{Origin, Visibility};
        let ids = SpecialIds { mask: 1, eos: vec![2], pad: None, bos: None };
        let full = Spec::plain("x", ids);
        let blocks = Spec {
            attention: Visibility::BlockCausal,
            origin: Origin::Prompt,
            block: Some(8),
            ..full.clone()
        };
        // A response from 5 to 26 in blocks of 8: 5..8, 8..16, 16..24 and 24..26.
        let drawn = |id: u64| place(&blocks, Rng::new(1, id), 0, 5..26);
        let all: std::collections::BTreeSet<_> =
            (0..200).map(|id| (drawn(id).start, drawn(id).end)).collect();
        assert_eq!(all.into_iter().collect::<Vec<_>>(), [(5, 8), (8, 16), (16, 24), (24, 26)]);
        assert_eq!(place(&blocks, Rng::new(1, 2), 0, 7..9), 7..9, "no block holds a pair");
        assert_eq!(place(&full, Rng::new(1, 2), 0, 5..26), 5..26);
    }

    #[test]
    fn a_mask_depends_on_seed_id_and_index() {
        let draw = |seed, id: &str, index| {
            let settings = TvCacheSettings { seed, ..TvCacheSettings::default() };
            Mask::draw(&settings, randomness(&settings, id), index, 0..50)
        };
        assert_eq!(draw(1, "a", 0), draw(1, "a", 0));
        for other in [draw(2, "a", 0), draw(1, "b", 0), draw(1, "a", 1)] {
            assert_ne!(draw(1, "a", 0), other);
        }
    }

    #[test]
    fn responses_are_filled_up_to_a_length_they_fit_into() {
        let settings = TvCacheSettings { pad_to: vec![16, 32, 64], ..TvCacheSettings::default() };
        let lengths: Vec<usize> =
            (0..300).map(|id: i32| padded(&settings, randomness(&settings, &id.to_string()), 20)).collect();
        let count = |length| lengths.iter().filter(|&&l| l == length).count();
        assert!(count(32) > 100 && count(64) > 100 && count(32) + count(64) == 300);
        assert_eq!(padded(&settings, randomness(&settings, "a"), 65), 65);
        assert_eq!(padded(&TvCacheSettings::default(), randomness(&settings, "a"), 9), 9);
    }
}
