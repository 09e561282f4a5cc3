//! Figure 1 of the paper: accuracy against mean steps, one colour and shape per strategy, darker where the confidence
//! threshold is higher, the Pareto frontier of each strategy dashed, the one-token baseline marked.

use std::collections::BTreeMap;

use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::report::frontier::{Point, frontier, methods};
use crate::report::summary::is_one_token_entropy;
use demask_plot::{COLOURS, Drawn, FONT, Figure};

/// Width of the column that names the strategies.
const LEGEND: u32 = 190;
const ROW: i32 = 19;
const GREY: RGBColor = RGBColor(120, 120, 120);
/// Keys that are a confidence threshold, in the order they are looked for.
const CONFIDENCE: [&str; 4] = ["conf", "gamma", "threshold", "high"];

/// The figure.
pub struct Tradeoff<'a> {
    /// The axes say what is plotted; this says of what.
    pub title: String,
    /// The points.
    pub points: &'a [Point],
    /// Chosen configurations, ringed.
    pub chosen: Vec<&'a Point>,
}

impl Tradeoff<'_> {
    /// Points by method, methods in the order they were first met.
    fn series(&self) -> Vec<(&str, Vec<&Point>)> {
        let of = |method| (method, self.points.iter().filter(|p| p.method == method).collect());
        methods(self.points).into_iter().map(of).collect()
    }

    fn range(values: impl Iterator<Item = f64>, least: f64) -> std::ops::Range<f64> {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        values.for_each(|v| (low, high) = (low.min(v), high.max(v)));
        if low > high {
            return 0.0..1.0;
        }
        let margin = (0.07 * (high - low)).max(least);
        (low - margin).max(0.0)..high + margin
    }
}

impl Figure for Tradeoff<'_> {
    fn size(&self) -> (u32, u32) {
        (980, 560.max(120 + ROW as u32 * self.series().len() as u32))
    }

    fn draw<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>) -> Drawn<DB> {
        let (width, _) = self.size();
        let (left, right) = area.split_horizontally(width - LEGEND);
        let x = Self::range(self.points.iter().map(|p| p.forwards), 0.5);
        let y = Self::range(self.points.iter().map(|p| 100.0 * p.accuracy.value), 1.0);
        let y = y.start..y.end.min(101.5);
        let mut chart = ChartBuilder::on(&left)
            .caption(&self.title, (FONT, 18))
            .margin(12)
            .x_label_area_size(42)
            .y_label_area_size(56)
            .build_cartesian_2d(x.clone(), y)?;
        chart
            .configure_mesh()
            .light_line_style(WHITE)
            .x_desc("mean steps (forward passes)")
            .y_desc("accuracy (%)")
            .label_style((FONT, 13))
            .axis_desc_style((FONT, 14))
            .draw()?;
        if let Some(base) = self.points.iter().find(|p| is_one_token_entropy(&p.strategy)) {
            let level = 100.0 * base.accuracy.value;
            chart.draw_series(DashedLineSeries::new(
                [(x.start, level), (x.end, level)],
                2,
                4,
                GREY.stroke_width(1),
            ))?;
        }
        let series = self.series();
        for (number, (_, points)) in series.iter().enumerate() {
            self.draw_series(&mut chart, number, points)?;
        }
        self.name_points(&chart, &left)?;
        legend(&right, &series, !self.chosen.is_empty())
    }
}

type Chart<'a, DB> = ChartContext<'a, DB, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

impl Tradeoff<'_> {
    fn draw_series<DB: DrawingBackend>(
        &self,
        chart: &mut Chart<'_, DB>,
        number: usize,
        points: &[&Point],
    ) -> Drawn<DB> {
        let colour = colour(number);
        let at = |p: &Point| (p.forwards, 100.0 * p.accuracy.value);
        let front: Vec<(f64, f64)> = frontier(points).into_iter().map(at).collect();
        if front.len() > 1 {
            chart.draw_series(DashedLineSeries::new(front, 6, 4, colour.stroke_width(1)))?;
        }
        let shades = shades(points);
        for (point, shade) in points.iter().zip(shades) {
            let fill = lighter(colour, shade);
            let (inside, line) = (fill.filled(), colour.stroke_width(1));
            let here = EmptyElement::at(at(point));
            match corners(number) {
                None => {
                    _ = chart
                        .draw_series([here + Circle::new((0, 0), 5, inside) + Circle::new((0, 0), 5, line)])?
                }
                Some(shape) => {
                    let outline = PathElement::new(closed(&shape), line);
                    chart.draw_series([here + Polygon::new(shape, inside) + outline])?;
                }
            }
            if is_one_token_entropy(&point.strategy) {
                chart.draw_series([
                    EmptyElement::at(at(point)) + Circle::new((0, 0), 10, BLACK.stroke_width(2))
                ])?;
            }
            if self.chosen.contains(point) {
                let ring = Circle::new((0, 0), 9, colour.stroke_width(2));
                chart.draw_series([EmptyElement::at(at(point)) + ring])?;
            }
        }
        Ok(())
    }

    /// Writes the spelling beside the baseline, the chosen and the points nothing beats, where there is room.
    fn name_points<DB: DrawingBackend>(
        &self,
        chart: &Chart<'_, DB>,
        area: &DrawingArea<DB, Shift>,
    ) -> Drawn<DB> {
        let pixel = |p: &Point| chart.backend_coord(&(p.forwards, 100.0 * p.accuracy.value));
        let mut taken: Vec<Box2> = self.points.iter().map(|p| Box2::around(pixel(p))).collect();
        let (across, down) = chart.plotting_area().get_pixel_range();
        let inside = Box2 { left: across.start, top: down.start, right: across.end, bottom: down.end };
        let baseline = self.points.iter().filter(|p| is_one_token_entropy(&p.strategy));
        let front = frontier(&self.points.iter().collect::<Vec<_>>());
        let mut named: Vec<&Point> = Vec::new();
        for point in baseline.chain(self.chosen.iter().copied()).chain(front) {
            if named.contains(&point) {
                continue;
            }
            named.push(point);
            let text = point.strategy.to_string();
            let free = |place: &Box2| place.within(&inside) && !taken.iter().any(|other| place.meets(other));
            if let Some(place) = Box2::beside(pixel(point), &text).into_iter().find(free) {
                let style = (FONT, 12).into_font().color(&RGBColor(20, 20, 20));
                area.draw(&Text::new(text, (place.left, place.top), style))?;
                taken.push(place);
            }
        }
        Ok(())
    }
}

/// A rectangle of pixels.
#[derive(Debug, Clone, Copy)]
struct Box2 {
    left: i32,
    top: i32,
    right: i32,
    bottom: i32,
}

impl Box2 {
    fn around((x, y): (i32, i32)) -> Self {
        Self { left: x - 6, top: y - 6, right: x + 6, bottom: y + 6 }
    }

    /// Places of a text near a point, the best first.
    fn beside((x, y): (i32, i32), text: &str) -> Vec<Self> {
        let (width, height) = (text.chars().count() as i32 * 6 + 4, 14);
        let corners = [
            (x + 11, y - 7),
            (x - 11 - width, y - 7),
            (x - width / 2, y - 26),
            (x - width / 2, y + 12),
            (x + 9, y - 22),
            (x + 9, y + 9),
            (x - 9 - width, y - 22),
            (x - 9 - width, y + 9),
        ];
        corners.map(|(left, top)| Self { left, top, right: left + width, bottom: top + height }).to_vec()
    }

    fn meets(&self, other: &Self) -> bool {
        self.left < other.right
            && other.left < self.right
            && self.top < other.bottom
            && other.top < self.bottom
    }

    fn within(&self, other: &Self) -> bool {
        self.left >= other.left
            && self.right <= other.right
            && self.top >= other.top
            && self.bottom <= other.bottom
    }
}

/// The names of the strategies beside their markers.
fn legend<DB: DrawingBackend>(
    area: &DrawingArea<DB, Shift>,
    series: &[(&str, Vec<&Point>)],
    chosen: bool,
) -> Drawn<DB> {
    let style = (FONT, 13).into_font().color(&BLACK).pos(Pos::new(HPos::Left, VPos::Center));
    for (number, (name, _)) in series.iter().enumerate() {
        let y = 50 + ROW * number as i32;
        let inside = colour(number).filled();
        match corners(number) {
            None => area.draw(&Circle::new((12, y), 5, inside))?,
            Some(shape) => area.draw(&(EmptyElement::at((12, y)) + Polygon::new(shape, inside)))?,
        }
        area.draw(&Text::new((*name).to_owned(), (26, y), style.clone()))?;
    }
    let small = (FONT, 12).into_font().color(&GREY).pos(Pos::new(HPos::Left, VPos::Center));
    let mut y = 50 + ROW * series.len() as i32 + 8;
    if series.iter().any(|(_, points)| points.iter().any(|p| is_one_token_entropy(&p.strategy))) {
        area.draw(&Circle::new((12, y), 7, BLACK.stroke_width(2)))?;
        area.draw(&Text::new("one token a step", (26, y), small.clone()))?;
        y += ROW;
    }
    if chosen {
        area.draw(&Circle::new((12, y), 7, GREY.stroke_width(2)))?;
        area.draw(&Text::new("the chosen configuration", (26, y), small.clone()))?;
        y += ROW;
    }
    if series.iter().any(|(_, points)| points.len() > 1) {
        area.draw(&Text::new("dashed: Pareto frontier", (5, y), small.clone()))?;
        area.draw(&Text::new("darker: higher confidence", (5, y + ROW), small))?;
    }
    Ok(())
}

fn colour(number: usize) -> RGBColor {
    COLOURS[number % COLOURS.len()]
}

/// Corners of the marker of a series: a shape of its own for every round of the colours, the first a circle (`None`).
fn corners(number: usize) -> Option<Vec<(i32, i32)>> {
    match number / COLOURS.len() {
        0 => None,
        1 => Some(vec![(-5, -5), (5, -5), (5, 5), (-5, 5)]),
        2 => Some(vec![(0, -6), (6, 5), (-6, 5)]),
        3 => Some(vec![(0, -6), (6, 0), (0, 6), (-6, 0)]),
        _ => Some(vec![(-6, -5), (6, -5), (0, 6)]),
    }
}

/// Corners and back to the first.
fn closed(corners: &[(i32, i32)]) -> Vec<(i32, i32)> {
    corners.iter().chain(corners.first()).copied().collect()
}

/// Of each point, how dark: 1 at the highest confidence threshold among them, 0 at the lowest.
fn shades(points: &[&Point]) -> Vec<f64> {
    let threshold = |point: &Point| {
        let given: BTreeMap<&str, &str> =
            point.strategy.given().iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        CONFIDENCE.iter().find_map(|key| given.get(key)?.parse::<f64>().ok())
    };
    let all: Vec<Option<f64>> = points.iter().map(|p| threshold(p)).collect();
    let low = all.iter().flatten().copied().fold(f64::INFINITY, f64::min);
    let high = all.iter().flatten().copied().fold(f64::NEG_INFINITY, f64::max);
    all.iter().map(|t| t.filter(|_| high > low).map_or(1.0, |t| (t - low) / (high - low))).collect()
}

/// A colour mixed with white; at 1 it is itself.
fn lighter(colour: RGBColor, shade: f64) -> RGBColor {
    let mix = |c: u8| (255.0 - (255.0 - f64::from(c)) * (0.2 + 0.8 * shade)) as u8;
    RGBColor(mix(colour.0), mix(colour.1), mix(colour.2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::summary::Share;

    fn point(spelling: &str, forwards: f64, accuracy: f64) -> Point {
        Point {
            strategy: spelling.parse().unwrap(),
            method: spelling.split(':').next().unwrap_or_default().into(),
            forwards,
            accuracy: Share { value: accuracy, error: 0.01 },
            tokens_per_forward: 1.0,
        }
    }

    #[test]
    fn darker_is_more_confident() {
        let points = [
            point("klass:conf=0.5,kl=0.01", 4.0, 0.5),
            point("klass:conf=0.9,kl=0.01", 8.0, 0.6),
            point("klass:conf=0.7,kl=0.01", 6.0, 0.55),
        ];
        let shades = shades(&points.iter().collect::<Vec<_>>());
        assert!((shades[0], shades[1]) == (0.0, 1.0) && (shades[2] - 0.5).abs() < 1e-9);
        assert!(lighter(COLOURS[0], 0.0).0 > lighter(COLOURS[0], 1.0).0);
    }

    #[test]
    fn it_draws_on_both_backends() {
        let points = [
            point("entropy", 30.0, 0.9),
            point("demask:tau=0.04,gamma=0.9", 10.0, 0.9),
            point("demask:tau=0.5,gamma=0.5", 6.0, 0.8),
        ];
        let folder = tempfile::tempdir().unwrap();
        let figure = Tradeoff { title: "t".into(), points: &points, chosen: vec![&points[1]] };
        demask_plot::write(&folder.path().join("figure"), &figure).unwrap();
        let svg = std::fs::read_to_string(folder.path().join("figure.svg")).unwrap();
        assert!(svg.contains("demask:tau=0.04,gamma=0.9") && svg.contains("accuracy (%)"));
        assert!(std::fs::metadata(folder.path().join("figure.png")).unwrap().len() > 1000);
    }
}
