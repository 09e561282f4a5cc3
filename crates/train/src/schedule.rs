//! Learning rate as a function of the step: linear warm-up, then a half cosine down to a fraction of the peak.

use serde::{Deserialize, Serialize};

/// Warm-up and cosine decay.
///
/// ```
/// use demask_train::schedule::Schedule;
/// let schedule = Schedule { peak: 3e-3, warmup: 100, floor: 0.1 };
/// assert!(schedule.rate(0, 1000) < schedule.rate(99, 1000));
/// assert_eq!(schedule.rate(99, 1000), 3e-3);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// Highest learning rate, reached at the end of the warm-up.
    pub peak: f64,
    /// Steps of linear warm-up.
    #[serde(default)]
    pub warmup: u64,
    /// Learning rate of the last step as a fraction of the peak.
    #[serde(default)]
    pub floor: f64,
}

impl Schedule {
    /// The learning rate of step `step` (from 0) of `steps`.
    pub fn rate(&self, step: u64, steps: u64) -> f64 {
        if step < self.warmup {
            return self.peak * (step + 1) as f64 / self.warmup as f64;
        }
        let decay = (steps.saturating_sub(self.warmup)).max(1) as f64;
        let progress = ((step - self.warmup) as f64 / decay).min(1.0);
        let cosine = 0.5 * (1.0 + (std::f64::consts::PI * progress).cos());
        self.peak * (self.floor + (1.0 - self.floor) * cosine)
    }

    /// What is wrong with the numbers, if anything.
    pub fn problem(&self) -> Option<String> {
        if !(self.peak > 0.0 && self.peak.is_finite()) {
            return Some(format!("peak is {}, must be a positive number", self.peak));
        }
        if !(0.0..=1.0).contains(&self.floor) {
            return Some(format!("floor is {}, must be between 0 and 1", self.floor));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_rises_to_the_peak_and_falls_to_the_floor() {
        let schedule = Schedule { peak: 2.0, warmup: 10, floor: 0.1 };
        assert_eq!(schedule.rate(0, 110), 0.2);
        assert_eq!(schedule.rate(9, 110), 2.0);
        assert_eq!(schedule.rate(10, 110), 2.0);
        assert!((schedule.rate(60, 110) - 1.1).abs() < 1e-12);
        assert!((schedule.rate(110, 110) - 0.2).abs() < 1e-12);
        assert!((10..110).all(|s| schedule.rate(s, 110) >= schedule.rate(s + 1, 110)));
    }

    #[test]
    fn no_warmup_and_no_steps_are_harmless() {
        let schedule = Schedule { peak: 1.0, warmup: 0, floor: 0.0 };
        assert_eq!(schedule.rate(0, 0), 1.0);
        assert_eq!(schedule.rate(5, 0), 0.0);
    }
}
