//! What the machine allows: every product takes at least the longer of its arithmetic at the measured peak and of its
//! operands read once at the measured bandwidth.

use anyhow::Result;
use demask::model::layer::{Parameter, Use};
use demask::model::{Precision, Spec, arch};

use super::bandwidth;
use super::peak::Peak;
use super::report::Report;

/// The measured peak and bandwidth of this machine.
#[derive(Debug, Clone, Copy)]
pub(super) struct Machine {
    pub(super) peak: Peak,
    /// Bytes a second.
    pub(super) bandwidth: f64,
}

impl Machine {
    /// Measures for about two seconds.
    pub(super) fn measure() -> Self {
        Self { peak: Peak::measure(), bandwidth: bandwidth::measure() }
    }

    /// The better of two measurements: the peak of a busy machine is what its best moment shows.
    pub(super) fn or(self, other: Self) -> Self {
        Self { peak: self.peak.or(other.peak), bandwidth: self.bandwidth.max(other.bandwidth) }
    }

    /// Says both under a table.
    pub(super) fn note(&self, report: &mut Report) {
        self.peak.note(report);
        let sentence = format!("memory {:.1} GB/s read", self.bandwidth / 1e9);
        report.note("bandwidth", self.bandwidth, sentence);
    }

    fn seconds(&self, operations: f64, peak: f64, bytes: f64) -> f64 {
        (operations / peak).max(bytes / self.bandwidth)
    }

    /// The least seconds of `rows` rows times a map.
    fn map(&self, map: &Parameter, precision: Precision, rows: f64) -> f64 {
        let (peak, size) = match (precision.packing(map), precision) {
            // Four bits are multiplied as bytes, so their limit is that of bytes, though they may come closer to it or pass it.
            (Some(packing), _) => (self.peak.int8, packing.size()),
            (None, Precision::Float(dtype)) => (self.peak.f32, dtype.size() as f64),
            (None, _) => (self.peak.f32, 4.0),
        };
        let weights = map.elements() as f64;
        let [n, k] = map.matrix()[..] else { return 0.0 };
        self.seconds(2.0 * rows * weights, peak, weights * size + 4.0 * rows * (n + k) as f64)
    }

    /// The least seconds of a pass of `rows` fresh rows that see `keys` keys, and of its head for as many: products and
    /// attention, nothing else. Every expert of a mixture counts as read.
    pub(super) fn step(&self, spec: &Spec, precision: Precision, rows: usize, keys: usize) -> Result<f64> {
        let (rows, keys) = (rows as f64, keys as f64);
        let all = arch::parameters(spec)?;
        let maps = all.iter().filter(|p| matches!(p.kind, Use::Map { .. } | Use::Table { tied: true }));
        let products: f64 = maps.map(|map| self.map(map, precision, rows)).sum();
        let (q, kv) = (spec.q_width() as f64, spec.kv_width() as f64);
        let attention = self.seconds(4.0 * rows * keys * q, self.peak.f32, 8.0 * keys * kv);
        Ok(products + attention * spec.layers as f64)
    }
}
