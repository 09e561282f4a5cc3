//! A share of right answers and how sure it is: the standard error, and an interval that holds at 0, at 1 and of few.

use serde::Serialize;

/// What stands behind a share, in the words of a caption.
pub const ERRORS: &str =
    "± standard error ([95 % Wilson interval] of few problems, and where all or none are right)";

/// The normal deviate of a 95 % interval.
const Z: f64 = 1.959_963_984_540_054;
/// Fewer than these are few.
const FEW: usize = 30;

/// A share with its standard error and its interval.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Share {
    /// From 0 to 1.
    pub value: f64,
    /// Standard error: the sample deviation over √n, as the evaluation harness reports it.
    pub error: f64,
    /// Lower end of the 95 % interval (Wilson's; of a mean, put together by the squares of the distances).
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// Whether the standard error says too little: of few items, and where all or none are right.
    #[serde(skip)]
    rough: bool,
}

impl Share {
    /// Of `right` among `n`.
    pub fn of(right: usize, n: usize) -> Self {
        let (value, count) = (right as f64 / n.max(1) as f64, n.max(1) as f64);
        let centre = (value + Z * Z / (2.0 * count)) / (1.0 + Z * Z / count);
        let reach = Z / (1.0 + Z * Z / count)
            * (value * (1.0 - value) / count + Z * Z / (4.0 * count * count)).sqrt();
        Self {
            value,
            error: (value * (1.0 - value) / (n.max(2) - 1) as f64).sqrt(),
            low: if right == 0 { 0.0 } else { centre - reach },
            high: if right == n { 1.0 } else { centre + reach },
            rough: n < FEW || right == 0 || right == n,
        }
    }

    /// Of a value whose standard error is known.
    pub fn known(value: f64, error: f64) -> Self {
        let (low, high) = ((value - Z * error).max(0.0), (value + Z * error).min(1.0));
        Self { value, error, low, high, rough: false }
    }

    /// The plain mean of shares of independent items.
    pub fn mean(shares: &[Self]) -> Self {
        if let [one] = shares {
            return *one;
        }
        let n = shares.len().max(1) as f64;
        let value = shares.iter().map(|s| s.value).sum::<f64>() / n;
        let root = |of: &dyn Fn(&Self) -> f64| shares.iter().map(|s| of(s) * of(s)).sum::<f64>().sqrt() / n;
        let error = root(&|s| s.error);
        Self {
            value,
            error,
            low: value - root(&|s| s.value - s.low),
            high: value + root(&|s| s.high - s.value),
            rough: error == 0.0,
        }
    }

    /// In percent, one digit, with its error or its interval.
    pub fn percent(&self) -> String {
        let [value, error, low, high] = [self.value, self.error, self.low, self.high].map(|x| 100.0 * x);
        match self.rough {
            true => format!("{value:.1} [{low:.1}, {high:.1}]"),
            false => format!("{value:.1}±{error:.1}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The interval's ends solve (p - x)² = z² x (1 - x) / n, which is how Wilson found them.
    #[test]
    fn the_interval_is_wilsons() {
        for (right, n) in [(0, 10), (3, 10), (10, 10), (97, 100), (1, 2), (150, 200)] {
            let share = Share::of(right, n);
            for end in [share.low, share.high] {
                let exact = [0.0, 1.0].contains(&end);
                let off = (share.value - end).powi(2) - Z * Z * end * (1.0 - end) / n as f64;
                assert!(off.abs() < 1e-12 || (exact && off.abs() < 1e-9), "{right}/{n}: {end} {off}");
            }
            assert!(share.low <= share.value && share.value <= share.high);
        }
    }

    #[test]
    fn all_and_none_and_few_have_an_interval() {
        assert_eq!(Share::of(100, 100).percent(), "100.0 [96.3, 100.0]");
        assert_eq!(Share::of(0, 40).percent(), "0.0 [0.0, 8.8]");
        assert_eq!(Share::of(5, 10).percent(), "50.0 [23.7, 76.3]");
        assert_eq!(Share::of(90, 100).percent(), "90.0±3.0");
        let mean = Share::mean(&[Share::of(100, 100), Share::of(100, 100)]);
        assert_eq!(mean.percent(), "100.0 [97.4, 100.0]");
        assert_eq!(Share::mean(&[Share::of(90, 100), Share::of(100, 100)]).percent(), "95.0±1.5");
    }
}
