//! The seeded generator behind every synthetic problem: SplitMix64.
//!
//! It is written out here, and not taken from a crate, because the stream of a seed is part of a task's
//! version: training data and held-out sets must be the same bytes in every release.

/// A small seeded random number generator with a stream fixed for ever.
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// The stream of `seed`.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The stream numbered `index` of `seed`: item `index` of a data set needs no item before it.
    pub fn stream(seed: u64, index: u64) -> Self {
        Self { state: mix(mix(seed) ^ index.wrapping_mul(0xd1b5_4a32_d192_ed03)) }
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// A uniform number below `bound`.
    ///
    /// # Panics
    /// If `bound` is zero.
    pub fn below(&mut self, bound: usize) -> usize {
        assert!(bound > 0, "a random number below zero was asked for");
        let product = u128::from(self.next_u64()) * bound as u128;
        (product >> 64) as usize
    }

    /// A uniform number of `low..=high`.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low + 1) as usize) as i64
    }

    /// A fair coin.
    pub fn coin(&mut self) -> bool {
        self.below(2) == 1
    }

    /// One item of a non-empty slice.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// A uniform permutation in place.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }

    /// `count` different items of a slice in random order.
    pub fn sample<T: Clone>(&mut self, items: &[T], count: usize) -> Vec<T> {
        let mut pool = items.to_vec();
        self.shuffle(&mut pool);
        pool.truncate(count);
        pool
    }
}

/// The finalizer of SplitMix64: a bijection that spreads every input bit over all output bits.
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_of_a_seed_is_the_published_splitmix64() {
        let mut rng = Rng::new(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| rng.next_u64()).collect();
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn between_covers_its_ends_and_nothing_else() {
        let mut rng = Rng::new(3);
        let mut seen = [0usize; 5];
        for _ in 0..5000 {
            seen[(rng.between(-2, 2) + 2) as usize] += 1;
        }
        assert!(seen.iter().all(|&count| (800..1200).contains(&count)), "{seen:?}");
    }

    #[test]
    fn a_sample_has_no_repetition() {
        let mut rng = Rng::new(9);
        let mut sample = rng.sample(&(0..20).collect::<Vec<_>>(), 12);
        sample.sort_unstable();
        sample.dedup();
        assert_eq!(sample.len(), 12);
    }
}
