//! The curve as a picture: loss on a logarithmic axis above, validation scores below.

use plotters::coord::Shift;
use plotters::prelude::{DrawingArea, DrawingBackend};

use super::config::Objective;
use super::curve::Curve;
use demask_plot::{Chart, Drawn, Figure, Mark, Series};

const SIZE: (u32, u32) = (860, 720);

impl Figure for Curve {
    fn size(&self) -> (u32, u32) {
        SIZE
    }

    fn draw<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>) -> Drawn<DB> {
        let (above, below) = area.split_vertically(SIZE.1 / 2);
        self.losses().draw(&above)?;
        self.validations().draw(&below)
    }
}

impl Curve {
    fn losses(&self) -> Chart {
        let stages = [
            (Objective::Autoregressive, "autoregressive"),
            (Objective::Diffusion, "masked diffusion"),
            (Objective::Certainty, "certainty"),
        ];
        let series = stages.map(|(objective, label)| {
            let own = self.points.iter().filter(|point| point.objective == objective);
            line(label, own.map(|point| (point.step as f64, point.loss)).collect())
        });
        Chart {
            title: "Loss per token".into(),
            x: "updates".into(),
            y: "nats".into(),
            log: true,
            series: series.into_iter().filter(|series| !series.points.is_empty()).collect(),
        }
    }

    fn validations(&self) -> Chart {
        let mut names: Vec<&str> =
            self.scores.iter().flat_map(|(_, all)| all).map(|score| score.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let series = names.into_iter().map(|name| {
            let own = self.scores.iter().filter_map(|(step, all)| {
                let score = all.iter().find(|score| score.name == name)?;
                Some((*step as f64, score.value))
            });
            line(name, own.collect())
        });
        let series = series.collect();
        Chart { title: "Validation".into(), x: "updates".into(), y: "share right".into(), log: false, series }
    }
}

fn line(label: &str, points: Vec<(f64, f64)>) -> Series {
    Series { label: label.to_owned(), mark: Mark::Line, points }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pretrain::curve::tests::curve;

    #[test]
    fn every_series_of_the_record_is_drawn() {
        let (losses, validations) = (curve().losses(), curve().validations());
        let counts = |chart: &Chart| chart.series.iter().map(|s| s.points.len()).collect::<Vec<_>>();
        assert_eq!((counts(&losses), counts(&validations)), (vec![2, 3], vec![2, 1]));
    }

    #[test]
    fn pictures_of_full_and_empty_records_are_written() {
        let folder = tempfile::tempdir().unwrap();
        for (name, record) in [("full", curve()), ("empty", Curve::default())] {
            demask_plot::write(&folder.path().join(name), &record).unwrap();
            let svg = std::fs::read_to_string(folder.path().join(name).with_extension("svg")).unwrap();
            assert_eq!(svg.contains("masked diffusion"), name == "full");
            assert!(folder.path().join(name).with_extension("png").is_file());
        }
    }
}
