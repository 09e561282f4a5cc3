//! Which examples train, which are held out, and in what order an epoch visits them.
//!
//! The split is by response: all masks and draws of a response are on one side. Invariant: the side of a response
//! depends on its id alone, the order of an epoch on (seed, epoch) alone.

use demask_decode::rng::{Purpose, Rng};

use super::config::Config;
use crate::error::{Error, Result};
use crate::tv_cache::{Cache, Columns};

/// A constant of the project: another one would be another split.
const SPLIT_SEED: u64 = 0x5350_4c49_5421;

/// Where an example lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The file.
    pub file: usize,
    /// The row in it.
    pub row: usize,
}

/// Both sides of a cache.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Split {
    /// Training examples by file.
    pub training: Vec<Place>,
    /// Held-out examples by file.
    pub validation: Vec<Place>,
}

impl Split {
    /// Reads the ids of a cache.
    pub fn of(cache: &Cache, config: &Config) -> Result<Self> {
        let mut split = Self::default();
        for file in 0..cache.manifest().files.len() {
            for (row, example) in cache.read(file, Columns::default())?.iter().enumerate() {
                let side = if held_out(&example.id, config.validation) {
                    &mut split.validation
                } else {
                    &mut split.training
                };
                side.push(Place { file, row });
            }
        }
        split.validation = thin(split.validation, config.validation_examples);
        for (side, share) in [(&split.training, "training"), (&split.validation, "validation")] {
            if side.is_empty() {
                let value = format!("{} (none of the responses is left for {share})", config.validation);
                let name = "the share of held-out responses";
                return Err(Error::Setting {
                    name,
                    value,
                    allowed: "such that both sides have some; or make a larger cache",
                });
            }
        }
        Ok(split)
    }

    /// Updates of one epoch; the last one may be smaller.
    pub fn updates(&self, batch: usize) -> u64 {
        self.training.len().div_ceil(batch) as u64
    }

    /// The training examples in the order of an epoch: files at random, examples at random among `window` files.
    pub fn order(&self, seed: u64, epoch: u64, window: usize) -> Vec<Place> {
        let rng = Rng::new(seed, epoch);
        let mut by_file: Vec<&[Place]> = self.training.chunk_by(|a, b| a.file == b.file).collect();
        by_file.sort_by_key(|places| rng.bits(Purpose::Position, 0, places[0].file as u64));
        let mut order = Vec::with_capacity(self.training.len());
        for files in by_file.chunks(window) {
            let mut places: Vec<Place> = files.concat();
            places
                .sort_by_key(|place| (rng.bits(Purpose::Mask, place.file as u64, place.row as u64), *place));
            order.extend(places);
        }
        order
    }
}

/// Whether a response is held out.
pub(crate) fn held_out(id: &str, share: f64) -> bool {
    Rng::named(SPLIT_SEED, id).uniform(Purpose::Mask, 0, 0) < share
}

/// At most `count` of the places, spread evenly.
fn thin(places: Vec<Place>, count: usize) -> Vec<Place> {
    if places.len() <= count {
        return places;
    }
    (0..count).map(|index| places[index * places.len() / count]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_visits_every_example_once_in_its_own_order() {
        let places = (0..10).flat_map(|file| (0..7).map(move |row| Place { file, row })).collect::<Vec<_>>();
        let split = Split { training: places.clone(), validation: Vec::new() };
        let first = split.order(3, 0, 4);
        let mut sorted = first.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, places);
        assert_eq!(first, split.order(3, 0, 4));
        assert_ne!(first, split.order(3, 1, 4));
        assert_ne!(first, split.order(4, 0, 4));
        // Four files at a time: the first 28 examples come from four files.
        let mut files: Vec<usize> = first[..28].iter().map(|place| place.file).collect();
        files.sort_unstable();
        files.dedup();
        assert_eq!(files.len(), 4);
        assert_eq!(split.updates(32), 3);
    }

    #[test]
    fn a_share_of_the_responses_is_held_out() {
        let count = (0..10_000).filter(|id: &i32| held_out(&id.to_string(), 0.05)).count();
        assert!((400..600).contains(&count), "{count}");
        assert_eq!(thin((0..10).map(|row| Place { file: 0, row }).collect(), 3).len(), 3);
    }
}
