//! Figure 1 of the paper: accuracy against mean forward passes, each with its 95 % interval. DEMASK has its own strong
//! colour, the others are quiet and have shapes of their own; methods are named beside their points, where no line is,
//! and those that find no room there in a column at the side.
//! Darker is a higher confidence threshold; the Pareto frontier of a method is dashed, the one-token baseline dotted.

use std::collections::BTreeMap;

use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

use crate::report::frontier::{Point, frontier, methods};
use crate::report::labels::{Labels, Segment};
use crate::report::summary::is_one_token_entropy;
use demask_plot::{DEMASK, Drawn, FONT, Figure, MUTED, extent};

/// Sizes of text: a column of a paper is little more than half as wide as the picture.
const TITLE: u32 = 16;
const TEXT: u32 = 15;
const SMALL: u32 = 13;
const GREY: RGBColor = RGBColor(120, 120, 120);
const RULE: RGBColor = RGBColor(232, 232, 232);
/// Keys that are a confidence threshold, in the order they are looked for.
const CONFIDENCE: [&str; 4] = ["conf", "gamma", "threshold", "high"];
/// More methods than this need room for their names, and a column for those that find none.
const FEW: usize = 12;
/// Width of that column.
const COLUMN: u32 = 130;
/// More points than this, and only those that count get an interval.
const CROWD: usize = 40;

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
    /// Points by method, in the order they were first met, DEMASK last so that it lies on top.
    fn series(&self) -> Vec<(&str, Vec<&Point>)> {
        let of = |method| (method, self.points.iter().filter(|p| p.method == method).collect());
        let mut series: Vec<(&str, Vec<&Point>)> = methods(self.points).into_iter().map(of).collect();
        series.sort_by_key(|(name, _)| is_demask(name));
        series
    }

    fn many(&self) -> bool {
        self.series().len() > FEW
    }

    fn range(values: impl Iterator<Item = f64>, least: f64) -> std::ops::Range<f64> {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        values.for_each(|v| (low, high) = (low.min(v), high.max(v)));
        if low > high {
            return 0.0..1.0;
        }
        let margin = (0.06 * (high - low)).max(least);
        (low - margin).max(0.0)..high + margin
    }

    /// Points whose interval is drawn and whose method is named there: the baseline, the chosen, what nothing beats.
    fn counts(&self, point: &Point) -> bool {
        let all: Vec<&Point> = self.points.iter().collect();
        is_one_token_entropy(&point.strategy)
            || self.chosen.contains(&point)
            || frontier(&all).contains(&point)
    }
}

impl Figure for Tradeoff<'_> {
    fn size(&self) -> (u32, u32) {
        if self.many() { (680 + COLUMN, 560) } else { (600, 420) }
    }

    fn draw<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>) -> Drawn<DB> {
        let x = Self::range(self.points.iter().map(|p| p.forwards), 0.8);
        let ends = self.points.iter().flat_map(|p| {
            let shown = self.points.len() <= CROWD || self.counts(p);
            let (low, high) = if shown { (p.accuracy.low, p.accuracy.high) } else { (1.0, 0.0) };
            [100.0 * p.accuracy.value.min(low), 100.0 * p.accuracy.value.max(high)]
        });
        let y = Self::range(ends, 1.0);
        let y = y.start..y.end.min(101.0);
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, (FONT, TITLE))
            .margin(10)
            .margin_right(if self.many() { COLUMN } else { 10 })
            .x_label_area_size(46)
            .y_label_area_size(58)
            .build_cartesian_2d(x.clone(), y)?;
        chart
            .configure_mesh()
            .light_line_style(WHITE)
            .bold_line_style(RULE)
            .axis_style(GREY)
            .max_light_lines(0)
            .x_labels(8)
            .y_labels(8)
            .x_desc("forward passes per answer (mean)")
            .y_desc("accuracy (%)")
            .x_label_formatter(&|x| plain(*x))
            .y_label_formatter(&|y| plain(*y))
            .label_style((FONT, SMALL))
            .axis_desc_style((FONT, TEXT))
            .draw()?;
        if let Some(base) = self.points.iter().find(|p| is_one_token_entropy(&p.strategy)) {
            let level = 100.0 * base.accuracy.value;
            let ends = [(x.start, level), (x.end, level)];
            chart.draw_series(DashedLineSeries::new(ends, 2, 4, GREY.stroke_width(1)))?;
        }
        let series = self.series();
        for (number, (name, points)) in series.iter().enumerate() {
            self.draw_series(&mut chart, area, Look::of(name, number), points)?;
        }
        self.name_points(&chart, area, &series)
    }
}

type Chart<'a, DB> = ChartContext<'a, DB, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// How a method's points look.
#[derive(Clone, Copy)]
struct Look {
    colour: RGBColor,
    /// Which of the shapes; 0 is a circle.
    shape: usize,
    large: bool,
}

impl Look {
    fn of(method: &str, number: usize) -> Self {
        match is_demask(method) {
            true => Self { colour: DEMASK, shape: 0, large: true },
            false => {
                Self { colour: MUTED[number % MUTED.len()], shape: 1 + number / MUTED.len(), large: false }
            }
        }
    }
}

impl Look {
    /// One marker at a pixel; at shade 1 in its own colour.
    fn mark<DB: DrawingBackend>(
        self,
        area: &DrawingArea<DB, Shift>,
        at: (i32, i32),
        shade: f64,
    ) -> Drawn<DB> {
        let (inside, line) = (lighter(self.colour, shade).filled(), self.colour.stroke_width(1));
        let Some(corners) = corners(self.shape) else {
            let size = if self.large { 6 } else { 4 };
            area.draw(&Circle::new(at, size, inside))?;
            return area.draw(&Circle::new(at, size, line));
        };
        let corners: Vec<(i32, i32)> = corners.into_iter().map(|(x, y)| (at.0 + x, at.1 + y)).collect();
        area.draw(&Polygon::new(corners.clone(), inside))?;
        area.draw(&PathElement::new(closed(&corners), line))
    }
}

fn is_demask(method: &str) -> bool {
    method.starts_with("demask")
}

impl Tradeoff<'_> {
    fn draw_series<DB: DrawingBackend>(
        &self,
        chart: &mut Chart<'_, DB>,
        area: &DrawingArea<DB, Shift>,
        look: Look,
        points: &[&Point],
    ) -> Drawn<DB> {
        let Look { colour, large, .. } = look;
        let at = |p: &Point| (p.forwards, 100.0 * p.accuracy.value);
        let front: Vec<(f64, f64)> = frontier(points).into_iter().map(at).collect();
        if front.len() > 1 {
            let line = colour.stroke_width(if large { 2 } else { 1 });
            chart.draw_series(DashedLineSeries::new(front, 6, 4, line))?;
        }
        for point in points.iter().filter(|p| self.points.len() <= CROWD || self.counts(p)) {
            let (x, ends) = (point.forwards, [point.accuracy.low, point.accuracy.high].map(|v| 100.0 * v));
            let line = colour.mix(if large { 0.9 } else { 0.55 }).stroke_width(1);
            chart.draw_series([PathElement::new([(x, ends[0]), (x, ends[1])], line)])?;
            let cap = |y| EmptyElement::at((x, y)) + PathElement::new([(-3, 0), (3, 0)], line);
            chart.draw_series(ends.map(cap))?;
        }
        for (point, shade) in points.iter().zip(shades(points)) {
            look.mark(area, chart.backend_coord(&at(point)), shade)?;
            if self.chosen.contains(point) {
                let ring = Circle::new((0, 0), 10, colour.stroke_width(2));
                chart.draw_series([EmptyElement::at(at(point)) + ring])?;
            }
        }
        Ok(())
    }

    /// Names every method once, beside its best point, where there is room beside everything that is drawn.
    fn name_points<DB: DrawingBackend>(
        &self,
        chart: &Chart<'_, DB>,
        area: &DrawingArea<DB, Shift>,
        series: &[(&str, Vec<&Point>)],
    ) -> Drawn<DB> {
        let pixel = |x: f64, y: f64| chart.backend_coord(&(x, 100.0 * y));
        let of = |p: &Point| pixel(p.forwards, p.accuracy.value);
        let (across, down) = chart.plotting_area().get_pixel_range();
        let mut labels = Labels::within(across.start, down.start, across.end, down.end);
        for point in self.points {
            labels.avoid_point(of(point), if is_demask(&point.method) { 8 } else { 6 });
            if self.points.len() <= CROWD || self.counts(point) {
                let ends = [point.accuracy.low, point.accuracy.high].map(|y| pixel(point.forwards, y));
                labels.avoid_line(Segment(ends[0], ends[1]));
            }
        }
        for (_, points) in series {
            let front: Vec<(i32, i32)> = frontier(points).into_iter().map(of).collect();
            front.windows(2).for_each(|pair| labels.avoid_line(Segment(pair[0], pair[1])));
        }
        if let Some(base) = self.points.iter().find(|p| is_one_token_entropy(&p.strategy)) {
            let level = of(base).1;
            labels.avoid_line(Segment((across.start, level), (across.end, level)));
        }
        // Those that count first: they get the best places.
        let mut order: Vec<(usize, &str, &Point)> = Vec::new();
        for (number, (name, points)) in series.iter().enumerate() {
            let chosen = points.iter().find(|p| self.chosen.contains(p));
            let best = chosen.or(points.iter().find(|p| self.counts(p))).or(points.first());
            order.extend(best.map(|point| (number, *name, *point)));
        }
        order.sort_by_key(|(_, name, point)| (!is_demask(name), !self.counts(point)));
        let mut unplaced = Vec::new();
        for (number, name, point) in order {
            let one = is_one_token_entropy(&point.strategy);
            let text = match self.chosen.contains(&point) {
                _ if one => format!("{name}, one token a pass"),
                true => point.strategy.to_string(),
                false => name.to_owned(),
            };
            let size = if is_demask(name) { TEXT } else { SMALL };
            let Some(place) = labels.place(of(point), &text, size) else {
                unplaced.push((Look::of(name, number), text));
                continue;
            };
            let colour = Look::of(name, number).colour;
            if let Some(Segment(from, to)) = place.leader {
                area.draw(&PathElement::new([from, to], colour.mix(0.5).stroke_width(1)))?;
            }
            // Grey of a marker is too light for letters.
            let ink = if is_demask(name) { DEMASK } else { darker(colour) };
            area.draw(&Text::new(text, (place.left, place.top), (FONT, size).into_font().color(&ink)))?;
        }
        // A name wider than the column, or a picture without one: over the plot's edge, on white, never out of the picture.
        let edge = area.get_pixel_range().0.end - 4;
        for (row, (look, text)) in unplaced.into_iter().enumerate() {
            let (width, height) = extent(&text, f64::from(SMALL));
            let (width, height) = (width as i32, height as i32);
            let (left, middle) =
                ((across.end + 14).min(edge - width - 10), down.start + 12 + 20 * row as i32);
            let paper = [(left - 8, middle - 10), (left + 10 + width, middle + 10)];
            area.draw(&Rectangle::new(paper, WHITE.filled()))?;
            look.mark(area, (left, middle), 1.0)?;
            let style = (FONT, SMALL).into_font().color(&darker(look.colour));
            area.draw(&Text::new(text, (left + 10, middle - height / 2), style))?;
        }
        Ok(())
    }
}

/// A tick without a needless fraction.
fn plain(value: f64) -> String {
    if (value - value.round()).abs() < 1e-9 { format!("{value:.0}") } else { format!("{value:.1}") }
}

/// Corners of the marker of a series; a circle has none.
fn corners(shape: usize) -> Option<Vec<(i32, i32)>> {
    match shape {
        0 | 1 => None,
        2 => Some(vec![(-4, -4), (4, -4), (4, 4), (-4, 4)]),
        3 => Some(vec![(0, -5), (5, 4), (-5, 4)]),
        4 => Some(vec![(0, -5), (5, 0), (0, 5), (-5, 0)]),
        _ => Some(vec![(-5, -4), (5, -4), (0, 5)]),
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

/// The same colour for letters.
fn darker(colour: RGBColor) -> RGBColor {
    let mix = |c: u8| (f64::from(c) * 0.72) as u8;
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
            accuracy: Share::known(accuracy, 0.01),
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
        assert!(lighter(DEMASK, 0.0).2 > lighter(DEMASK, 1.0).2);
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

    #[test]
    fn in_a_crowd_every_method_is_named_somewhere() {
        let names =
            demask_decode::strategy::ALL.iter().map(|entry| entry.name).filter(|name| *name != "origin");
        let points: Vec<Point> = names
            .clone()
            .enumerate()
            .map(|(i, name)| point(name, 7.0 + 0.11 * (i % 7) as f64, 0.9 + 0.002 * (i % 5) as f64))
            .collect();
        let folder = tempfile::tempdir().unwrap();
        let figure = Tradeoff { title: "t".into(), points: &points, chosen: Vec::new() };
        demask_plot::write(&folder.path().join("figure"), &figure).unwrap();
        let svg = std::fs::read_to_string(folder.path().join("figure.svg")).unwrap();
        for name in names {
            assert!(svg.contains(&format!("aria-label=\"{name}")), "{name} is not named");
        }
    }

    #[test]
    fn a_name_without_room_stays_in_the_picture() {
        // One method all over the plot leaves the others no place beside their points.
        let mut points: Vec<Point> =
            (0..900).map(|i| point("klass", f64::from(i % 30), f64::from(i / 30) / 30.0)).collect();
        let others = ["eb", "threshold", "factor", "demask:tau=0.04,gamma=0.95,start=confident"];
        points.extend(others.iter().map(|name| point(name, 7.0, 0.9)));
        let folder = tempfile::tempdir().unwrap();
        let chosen = points.iter().rev().take(others.len()).collect();
        let figure = Tradeoff { title: "t".into(), points: &points, chosen };
        assert_eq!(figure.size().0, 600, "no column is kept for so few");
        demask_plot::write(&folder.path().join("figure"), &figure).unwrap();
        let svg = std::fs::read_to_string(folder.path().join("figure.svg")).unwrap();
        for name in others {
            assert!(svg.contains(&format!("aria-label=\"{name}")), "{name} is not named");
        }
        let marks: Vec<f64> =
            svg.split("cx=\"").skip(1).filter_map(|rest| rest.split('"').next()?.parse().ok()).collect();
        assert!(marks.len() > 900 && marks.iter().all(|x| *x < 600.0), "a mark stands outside the picture");
    }

    #[test]
    fn demask_has_one_colour_and_every_method_its_name() {
        let mut points = vec![point("demask:tau=0.04,gamma=0.9", 8.0, 0.95), point("entropy", 30.0, 0.97)];
        let others =
            ["klass", "eb", "threshold", "factor", "dapd", "punt", "saber", "wino", "margin", "top1"];
        points.extend(
            others
                .iter()
                .enumerate()
                .map(|(i, name)| point(name, 7.0 + 1.3 * i as f64, 0.9 + 0.006 * i as f64)),
        );
        let folder = tempfile::tempdir().unwrap();
        let figure = Tradeoff { title: "t".into(), points: &points, chosen: Vec::new() };
        demask_plot::write(&folder.path().join("figure"), &figure).unwrap();
        let svg = std::fs::read_to_string(folder.path().join("figure.svg")).unwrap();
        for name in others.iter().chain(&["demask", "entropy, one token a pass"]) {
            assert!(svg.contains(&format!("aria-label=\"{name}\"")), "{name} is not named");
        }
        let (first, later) = (Look::of("demask", 0), Look::of("demask:start=confident", 7));
        assert_eq!((first.colour, later.colour), (DEMASK, DEMASK));
    }
}
