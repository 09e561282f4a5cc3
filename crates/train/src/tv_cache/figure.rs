//! The picture of a cache: distribution of D, its profile over distance, one matrix.

use plotters::coord::Shift;
use plotters::prelude::*;

use super::info::Info;
use demask_plot::{Chart, Drawn, Figure, Mark, Series, heat_map};

/// Bars of the histogram.
const BINS: usize = 40;
/// Distances shown.
const FAR: usize = 64;

/// Three panels side by side.
pub(super) struct InfoFigure<'a> {
    pub(super) info: &'a Info,
    /// One dependency matrix.
    pub(super) matrix: &'a [f32],
    /// Its positions.
    pub(super) size: usize,
}

impl Figure for InfoFigure<'_> {
    fn size(&self) -> (u32, u32) {
        (1440, 440)
    }

    fn draw<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>) -> Drawn<DB> {
        let panels = area.split_evenly((1, 3));
        let centre = |bin: usize| (bin as f64 + 0.5) / BINS as f64;
        let shares =
            self.info.histogram(BINS).into_iter().enumerate().map(|(bin, share)| (centre(bin), share));
        let bars = Series { label: String::new(), mark: Mark::Bars, points: shares.collect() };
        let histogram = Chart {
            title: "distribution of D".into(),
            x: "D".into(),
            y: "share of pairs".into(),
            log: true,
            series: vec![bars],
        };
        histogram.draw(&panels[0])?;
        let line = |label: &str, means: Vec<(usize, f64)>| Series {
            label: label.into(),
            mark: Mark::Line,
            points: means.into_iter().filter(|m| m.0 <= FAR).map(|(d, mean)| (d as f64, mean)).collect(),
        };
        let distances = &self.info.distances;
        let profile = Chart {
            title: "mean D by distance".into(),
            x: "distance in tokens".into(),
            y: "mean D".into(),
            log: false,
            series: vec![
                line("revealed before", distances.before()),
                line("revealed after", distances.after()),
            ],
        };
        profile.draw(&panels[1])?;
        let top = self.matrix.iter().copied().fold(0.0, f32::max);
        let title = format!("one D, {} masked (row: affected; darkest {top:.2})", self.size);
        heat_map(&panels[2], &title, self.matrix, self.size, top)
    }
}
