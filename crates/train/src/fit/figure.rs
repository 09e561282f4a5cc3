//! The picture of a run: errors by step, and predicted against measured dependency.

use plotters::coord::Shift;
use plotters::prelude::*;

use super::curve::Curve;
use super::report::Report;
use demask_plot::{Chart, Drawn, Figure, Mark, Series};

pub(super) struct FitFigure<'a> {
    pub(super) report: &'a Report,
    pub(super) curve: &'a Curve,
}

impl Figure for FitFigure<'_> {
    fn size(&self) -> (u32, u32) {
        (1100, 460)
    }

    fn draw<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>) -> Drawn<DB> {
        let (left, right) = area.split_horizontally(620);
        self.errors().draw(&left)?;
        self.calibration().draw(&right)
    }
}

impl FitFigure<'_> {
    fn errors(&self) -> Chart {
        let points = &self.curve.points;
        let line = |label: &str, mark, points: Vec<(f64, f64)>| Series { label: label.into(), mark, points };
        let last = points.last().map_or(1.0, |point| point.step as f64);
        let level = |mse: f64| vec![(0.0, mse), (last, mse)];
        let training = points.iter().map(|point| (point.step as f64, point.training)).collect();
        let validation =
            points.iter().filter_map(|point| Some((point.step as f64, point.validation?))).collect();
        let mut series = vec![
            line("training", Mark::Line, training),
            line("validation", Mark::Line, validation),
            line("best constant", Mark::Line, level(self.report.constant_mse)),
            line("distance only", Mark::Line, level(self.report.distance_mse)),
        ];
        series.extend(self.report.irreducible_mse.map(|mse| line("irreducible", Mark::Line, level(mse))));
        let title = format!("mean squared error, hidden row {}", self.report.hidden_row);
        Chart { title, x: "update".into(), y: "MSE (eq. 6)".into(), log: true, series }
    }

    fn calibration(&self) -> Chart {
        let bins = &self.report.calibration;
        let top = bins.iter().map(|bin| bin.predicted.max(bin.measured)).fold(0.0, f64::max);
        let dots = bins.iter().map(|bin| (bin.predicted, bin.measured)).collect();
        Chart {
            title: "calibration on held-out pairs".into(),
            x: "predicted D".into(),
            y: "measured D".into(),
            log: false,
            series: vec![
                Series { label: String::new(), mark: Mark::Dots, points: dots },
                Series { label: String::new(), mark: Mark::Reference, points: vec![(0.0, 0.0), (top, top)] },
            ],
        }
    }
}
