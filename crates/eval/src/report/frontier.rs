//! The accuracy/steps trade-off: which points nothing beats, and AUP, one number for a curve of points.

use demask_decode::StrategySpec;

use crate::report::summary::{Line, Share, Summary};

/// One configuration of a strategy in the plane of steps and accuracy.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// The configuration.
    pub strategy: StrategySpec,
    /// What it is a configuration of: the strategy's name, or the label of the grid it comes from.
    pub method: String,
    /// Mean forward passes.
    pub forwards: f64,
    /// Accuracy.
    pub accuracy: Share,
    /// Response tokens per forward pass.
    pub tokens_per_forward: f64,
}

impl Point {
    fn of(line: &Line) -> Self {
        Self {
            strategy: line.strategy.clone(),
            method: line.strategy.name().to_owned(),
            forwards: line.forwards,
            accuracy: line.accuracy,
            tokens_per_forward: line.tokens_per_forward,
        }
    }

    /// At least as accurate and as fast, and better in one of the two.
    pub fn dominates(&self, other: &Self) -> bool {
        let no_worse = self.forwards <= other.forwards && self.accuracy.value >= other.accuracy.value;
        no_worse && (self.forwards < other.forwards || self.accuracy.value > other.accuracy.value)
    }
}

/// Every strategy of a summary as a point, its means over the suites.
pub fn points(summary: &Summary) -> Vec<Point> {
    summary.means.iter().map(Point::of).collect()
}

/// Points that no other dominates, by ascending forward passes; of equal points the first stays.
pub fn frontier<'a>(points: &[&'a Point]) -> Vec<&'a Point> {
    let mut best: Vec<&Point> = Vec::new();
    for (number, &point) in points.iter().enumerate() {
        let same =
            |other: &Point| other.forwards == point.forwards && other.accuracy.value == point.accuracy.value;
        let beaten = points.iter().any(|other| other.dominates(point));
        if !beaten && !points[..number].iter().any(|other| same(other)) {
            best.push(point);
        }
    }
    best.sort_by(|a, b| a.forwards.total_cmp(&b.forwards));
    best
}

/// Non-dominated rank of every point: 0 is the frontier, 1 the frontier of the rest, and so on.
pub fn ranks(points: &[Point]) -> Vec<usize> {
    let mut ranks = vec![usize::MAX; points.len()];
    for rank in 0.. {
        let left: Vec<usize> = (0..points.len()).filter(|&i| ranks[i] == usize::MAX).collect();
        if left.is_empty() {
            break;
        }
        let beaten = |i: usize| left.iter().any(|&j| points[j].dominates(&points[i]));
        let front: Vec<usize> = left.iter().copied().filter(|&i| !beaten(i)).collect();
        front.iter().for_each(|&i| ranks[i] = rank);
    }
    ranks
}

/// Accuracy (in points of a hundred) below the slowest point's at which a point no longer counts.
const TOLERATED: f64 = 5.0;
/// How sharply accuracy below the best of all methods is discounted.
const SHARPNESS: f64 = 3.0;

/// Accuracy under parallelism (d3LLM): with ρ the tokens per forward pass, ascending, and y the accuracy in percent,
/// `ρ₁y₁ + Σ ½(ρ_i − ρ_{i−1})(y_iW(y_i) + y_{i−1}W(y_{i−1}))`, `W(y) = min(e^{−3(1 − y/y_max)}, 1)`, over the points
/// with `y ≥ y₁ − 5`; `y_max` (percent) is the best of all methods compared.
pub fn aup(points: &[&Point], y_max: f64) -> f64 {
    let mut curve: Vec<(f64, f64)> =
        points.iter().map(|p| (p.tokens_per_forward, 100.0 * p.accuracy.value)).collect();
    curve.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)));
    let Some(&(rho, y)) = curve.first() else { return 0.0 };
    curve.retain(|p| p.1 >= y - TOLERATED);
    let weighted = |y: f64| y * (-SHARPNESS * (1.0 - y / y_max.max(f64::MIN_POSITIVE))).exp().min(1.0);
    let area = |w: &[(f64, f64)]| 0.5 * (w[1].0 - w[0].0) * (weighted(w[1].1) + weighted(w[0].1));
    rho * y + curve.windows(2).map(area).sum::<f64>()
}

/// AUP of every method, best first.
pub fn aups(points: &[Point]) -> Vec<(&str, f64)> {
    let y_max = points.iter().map(|p| 100.0 * p.accuracy.value).fold(0.0, f64::max);
    let of = |method| {
        let own: Vec<&Point> = points.iter().filter(|p| p.method == method).collect();
        (method, aup(&own, y_max))
    };
    let mut all: Vec<(&str, f64)> = methods(points).into_iter().map(of).collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    all
}

/// Every method once, in the order they are first met.
pub fn methods(points: &[Point]) -> Vec<&str> {
    let mut methods: Vec<&str> = Vec::new();
    for point in points {
        if !methods.contains(&point.method.as_str()) {
            methods.push(&point.method);
        }
    }
    methods
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(forwards: f64, accuracy: f64, tokens_per_forward: f64) -> Point {
        Point {
            strategy: "entropy".parse().unwrap(),
            method: "entropy".into(),
            forwards,
            accuracy: Share::known(accuracy, 0.0),
            tokens_per_forward,
        }
    }

    #[test]
    fn the_frontier_holds_what_nothing_beats() {
        let points =
            [point(10.0, 0.9, 1.0), point(5.0, 0.8, 2.0), point(7.0, 0.7, 1.5), point(5.0, 0.8, 2.0)];
        let front = frontier(&points.iter().collect::<Vec<_>>());
        assert_eq!(front.iter().map(|p| p.forwards).collect::<Vec<_>>(), [5.0, 10.0]);
        assert_eq!(ranks(&points), [0, 0, 1, 0]);
    }

    #[test]
    fn aup_is_the_definition_by_hand() {
        // ρ = 1, 2, 4; y = 80, 78, 60: the last is more than five points below the first and does not count.
        let points = [point(1.0, 0.8, 1.0), point(1.0, 0.6, 4.0), point(1.0, 0.78, 2.0)];
        let all: Vec<&Point> = points.iter().collect();
        let w = (-3.0_f64 * (1.0 - 78.0 / 80.0)).exp();
        let expected = 80.0 + 0.5 * (78.0 * w + 80.0);
        assert!((aup(&all, 80.0) - expected).abs() < 1e-9);
        assert!(aup(&all, 90.0) < expected && aup(&[], 80.0) == 0.0);
    }
}
