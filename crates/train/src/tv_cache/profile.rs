//! Sums over the pairs of a cache: dependency by distance, and how much two draws of one mask disagree.

/// Distances told apart; longer ones count as the last.
const LONGEST: usize = 1024;

/// Mean dependency by distance between the affected and the revealed position.
#[derive(Debug, Clone, PartialEq)]
pub struct Distances {
    /// Sum and count by distance where the revealed position stands before the affected one.
    before: Vec<(f64, u64)>,
    /// The same where it stands after.
    after: Vec<(f64, u64)>,
}

impl Default for Distances {
    fn default() -> Self {
        Self { before: vec![(0.0, 0); LONGEST + 1], after: vec![(0.0, 0); LONGEST + 1] }
    }
}

impl Distances {
    /// Adds the off-diagonal pairs of a matrix.
    pub fn add(&mut self, positions: &[usize], dependency: &[f32]) {
        let size = positions.len();
        for (i, row) in dependency.chunks_exact(size.max(1)).enumerate() {
            for (j, &value) in row.iter().enumerate().filter(|(j, _)| *j != i) {
                let side = if j < i { &mut self.before } else { &mut self.after };
                let slot = &mut side[distance(positions[i], positions[j])];
                slot.0 += f64::from(value);
                slot.1 += 1;
            }
        }
    }

    /// Mean over both directions at a distance, or over all pairs where that distance was never seen.
    pub fn mean(&self, affected: usize, revealed: usize) -> f64 {
        let distance = distance(affected, revealed);
        let (before, after) = (self.before[distance], self.after[distance]);
        match before.1 + after.1 {
            0 => self.overall(),
            count => (before.0 + after.0) / count as f64,
        }
    }

    /// Mean over all pairs.
    pub fn overall(&self) -> f64 {
        let all = self.before.iter().chain(&self.after);
        let (sum, count) = all.fold((0.0, 0), |(sum, count), slot| (sum + slot.0, count + slot.1));
        sum / count.max(1) as f64
    }

    /// Mean where the revealed position stands before the affected one, by distance; seen distances only.
    pub fn before(&self) -> Vec<(usize, f64)> {
        means(&self.before)
    }

    /// Mean where it stands after.
    pub fn after(&self) -> Vec<(usize, f64)> {
        means(&self.after)
    }
}

fn distance(a: usize, b: usize) -> usize {
    a.abs_diff(b).min(LONGEST)
}

fn means(slots: &[(f64, u64)]) -> Vec<(usize, f64)> {
    let seen = slots.iter().enumerate().filter(|(_, slot)| slot.1 > 0);
    seen.map(|(distance, slot)| (distance, slot.0 / slot.1 as f64)).collect()
}

/// The variance of `D_ij(y)` over draws of `y`, which no predictor of the mean can explain.
///
/// Half the squared difference of two independent draws is an unbiased estimate of it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Repeats {
    sum: f64,
    pairs: u64,
}

impl Repeats {
    /// Adds two draws of one mask.
    pub fn add(&mut self, first: &[f32], second: &[f32], size: usize) {
        let squares = first.iter().zip(second).map(|(a, b)| f64::from(a - b).powi(2));
        self.sum += squares.sum::<f64>() / 2.0;
        // The diagonals are zero in both.
        self.pairs += (size * size.saturating_sub(1)) as u64;
    }

    /// The variance, if any mask was drawn twice.
    pub fn variance(&self) -> Option<f64> {
        (self.pairs > 0).then(|| self.sum / self.pairs as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_those_of_the_positions() {
        let mut profile = Distances::default();
        // Positions 3, 4, 9: D[0][1] is revealed after at distance 1, D[2][0] before at 6.
        profile.add(&[3, 4, 9], &[0.0, 0.5, 0.1, 0.7, 0.0, 0.2, 0.4, 0.3, 0.0]);
        let rounded = |means: Vec<(usize, f64)>| -> Vec<(usize, i64)> {
            means.into_iter().map(|(d, m)| (d, (m * 1e3).round() as i64)).collect()
        };
        assert_eq!(rounded(profile.after()), [(1, 500), (5, 200), (6, 100)]);
        assert_eq!(rounded(profile.before()), [(1, 700), (5, 300), (6, 400)]);
        assert!((profile.mean(10, 11) - 0.6).abs() < 1e-6);
        assert!((profile.mean(0, 900) - 2.2 / 6.0).abs() < 1e-6);
    }

    #[test]
    fn repeated_draws_estimate_the_variance() {
        let mut repeats = Repeats::default();
        assert_eq!(repeats.variance(), None);
        repeats.add(&[0.0, 0.2, 0.4, 0.0], &[0.0, 0.4, 0.4, 0.0], 2);
        assert!((repeats.variance().unwrap() - 0.01).abs() < 1e-6);
    }
}
