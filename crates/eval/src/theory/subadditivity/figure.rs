//! Figure 2 of the paper: the empirical distribution of the slack, one curve per size of the set.

use plotters::coord::Shift;
use plotters::prelude::*;

use super::report::{Report, SizeReport};
use demask_plot::{COLOURS, Drawn, FONT, Figure};

/// Points of a curve; more would not be seen.
const POINTS: usize = 400;

/// The figure.
pub(super) struct Cdf<'a> {
    pub(super) report: &'a Report,
}

impl Cdf<'_> {
    fn curves(&self) -> impl Iterator<Item = (usize, &SizeReport)> {
        self.report.sizes.iter().filter_map(|s| Some((s.size?, s)))
    }

    /// From a little left of zero (or the lowest percent of violations) to where nearly all lie.
    fn range(&self) -> std::ops::Range<f64> {
        let low = self.curves().map(|(_, s)| s.quantiles[0]).fold(0.0, f64::min);
        let high = self.curves().map(|(_, s)| s.quantiles[6]).fold(0.0, f64::max).max(0.01);
        low - 0.05 * (high - low)..high
    }
}

impl Figure for Cdf<'_> {
    fn size(&self) -> (u32, u32) {
        (760, 480)
    }

    fn draw<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>) -> Drawn<DB> {
        let range = self.range();
        let mut chart = ChartBuilder::on(area)
            .caption("Sub-additivity: distribution of the slack by |S|", (FONT, 18))
            .margin(12)
            .x_label_area_size(42)
            .y_label_area_size(56)
            .build_cartesian_2d(range.clone(), 0.0..1.0)?;
        chart
            .configure_mesh()
            .light_line_style(WHITE)
            .x_desc("slack RHS - LHS")
            .y_desc("share of targets")
            .label_style((FONT, 13))
            .axis_desc_style((FONT, 14))
            .draw()?;
        chart.draw_series(LineSeries::new([(0.0, 0.0), (0.0, 1.0)], RGBColor(150, 150, 150)))?;
        for (size, s) in self.curves() {
            let colour = COLOURS[(size - 1) % COLOURS.len()];
            let label = format!(
                "|S| = {size}: {:.1} % below zero, mean {:.3}",
                100.0 * s.violation_rate(),
                s.mean_slack
            );
            chart
                .draw_series(LineSeries::new(steps(&s.slack, &range), colour.stroke_width(2)))?
                .label(label)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::LowerRight)
            .background_style(WHITE.mix(0.85))
            .border_style(RGBColor(200, 200, 200))
            .label_font((FONT, 13))
            .draw()
    }
}

/// The cumulative distribution of ascending values inside a range.
fn steps(ascending: &[f32], range: &std::ops::Range<f64>) -> Vec<(f64, f64)> {
    let count = ascending.len() as f64;
    let at = |x: f64| ascending.partition_point(|&v| f64::from(v) <= x) as f64 / count;
    let width = (range.end - range.start) / POINTS as f64;
    let mut points: Vec<(f64, f64)> =
        (0..=POINTS).map(|i| range.start + i as f64 * width).map(|x| (x, at(x))).collect();
    // A jump (all of |S| = 1 lies at zero) must be drawn upright.
    for jump in [0.0, f64::from(ascending[0])] {
        let before = ascending.partition_point(|&v| f64::from(v) < jump) as f64 / count;
        if range.contains(&jump) && at(jump) > before {
            points.extend([(jump, before), (jump, at(jump))]);
        }
    }
    points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_rises_from_zero_to_one_and_jumps_upright() {
        let points = steps(&[0.0; 10], &(-0.1..0.5));
        assert!(points.windows(2).all(|w| w[0].0 <= w[1].0 && w[0].1 <= w[1].1));
        assert!(points.contains(&(0.0, 0.0)) && points.contains(&(0.0, 1.0)));
        let spread: Vec<f32> = (0..100).map(|i| i as f32 / 100.0).collect();
        let points = steps(&spread, &(0.0..1.0));
        assert!((points[POINTS / 2].1 - 0.5).abs() < 0.02 && points[points.len() - 1].1 == 1.0);
    }
}
