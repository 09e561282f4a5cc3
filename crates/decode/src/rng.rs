//! Counter-based randomness: a draw is a function of (seed, stream, step, position, purpose), so it
//! does not depend on the order of evaluation, the batch, or the number of threads.

use demask_model::hash::Hash;

/// A source of draws for one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rng {
    key: u64,
}

/// What a draw is for; different purposes never share a draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Purpose {
    /// The token of a position.
    Token = 1,
    /// The choice of a position.
    Position = 2,
    /// A token revealed to measure dependency.
    Reveal = 3,
    /// A random mask or subset.
    Mask = 4,
    /// Whether a committed token is masked again.
    Remask = 5,
    /// Noise on the logit of a token.
    Noise = 6,
}

impl Rng {
    /// `stream` tells requests of one seed apart.
    pub fn new(seed: u64, stream: u64) -> Self {
        Self { key: mix(mix(seed ^ 0x9E37_79B9_7F4A_7C15) ^ stream.wrapping_mul(0xD1B5_4A32_D192_ED03)) }
    }

    /// The stream of a name, e.g. the id of an example of a dataset.
    pub fn named(seed: u64, name: &str) -> Self {
        Self::new(seed, Hash::new().bytes(name.as_bytes()).value())
    }

    /// 64 random bits.
    pub fn bits(&self, purpose: Purpose, step: u64, position: u64) -> u64 {
        let a = mix(self.key ^ (purpose as u64).wrapping_mul(0xA076_1D64_78BD_642F));
        let b = mix(a ^ step.wrapping_mul(0xE703_7ED1_A0B4_28DB));
        mix(b ^ position.wrapping_mul(0x8EBC_6AF0_9C88_C6E3))
    }

    /// A number in the open interval (0, 1).
    pub fn uniform(&self, purpose: Purpose, step: u64, position: u64) -> f64 {
        ((self.bits(purpose, step, position) >> 12) as f64 + 0.5) / (1_u64 << 52) as f64
    }

    /// A draw of the standard Gumbel distribution; adding it to log-weights and taking the largest
    /// samples without replacement.
    pub fn gumbel(&self, purpose: Purpose, step: u64, position: u64) -> f64 {
        -(-self.uniform(purpose, step, position).ln()).ln()
    }
}

/// SplitMix64's finaliser.
fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_uniform_and_distinct() {
        let rng = Rng::new(7, 0);
        let draws: Vec<f64> = (0..20_000).map(|i| rng.uniform(Purpose::Token, i / 100, i % 100)).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let spread = draws.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / draws.len() as f64;
        assert!((mean - 0.5).abs() < 0.01 && (spread - 1.0 / 12.0).abs() < 0.002, "{mean} {spread}");
        assert!(draws.iter().all(|&d| d > 0.0 && d < 1.0));
        assert_ne!(rng.bits(Purpose::Token, 1, 2), rng.bits(Purpose::Token, 2, 1));
        assert_ne!(rng.bits(Purpose::Token, 1, 2), rng.bits(Purpose::Position, 1, 2));
        assert_ne!(Rng::new(7, 1), rng);
    }
}
