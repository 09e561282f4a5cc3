//! Pictures as SVG and PNG with no system library: charts of a few series, and matrices as heat maps.
//!
//! Text is drawn as kerned outlines of a font that is compiled in, so a picture looks the same everywhere; the PNG has
//! twice the pixels. Colours are told apart with any kind of colour vision. Invariant: a picture appears under its name
//! only when it is complete.

mod raster;
mod text;
mod vector;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Once;

use demask_model::file::replace;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::{FontStyle, register_font};

pub use plotters;

/// The font of all text.
pub const FONT: &str = "sans-serif";

/// DEMASK's colour in every picture.
pub const DEMASK: RGBColor = RGBColor(213, 94, 0);

/// Colours of other series, in order (Okabe and Ito's, as DEMASK's).
pub const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(90, 90, 90),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
];

/// Colours of what a picture is not about: quiet, and of different lightness.
pub const MUTED: [RGBColor; 5] = [
    RGBColor(84, 98, 116),
    RGBColor(132, 145, 160),
    RGBColor(106, 120, 104),
    RGBColor(140, 118, 140),
    RGBColor(160, 150, 128),
];

/// Width and height of a line of text in pixels of the picture.
pub fn extent(text: &str, size: f64) -> (u32, u32) {
    text::Line::new(text, size).extent()
}

/// A result of drawing on some backend.
pub type Drawn<DB> = std::result::Result<(), DrawingAreaErrorKind<<DB as DrawingBackend>::ErrorType>>;

/// Something that can be drawn on any backend.
pub trait Figure {
    /// Width and height in pixels.
    fn size(&self) -> (u32, u32);
    /// Draws it on a white area.
    fn draw<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>) -> Drawn<DB>;
}

/// Why a picture was not drawn.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The drawing library refused.
    #[error("cannot draw {}: {problem}", path.display())]
    Draw {
        /// The picture.
        path: PathBuf,
        /// What the drawing library said.
        problem: String,
    },
    /// The file could not be written.
    #[error(transparent)]
    Write(#[from] demask_model::Error),
}

/// Writes `path` with the endings `.svg` and, in twice the size, `.png`.
///
/// ```
/// use demask_plot::{Chart, Mark, Series};
/// let points = vec![(0.0, 1.0), (1.0, 0.5), (2.0, 0.25)];
/// let series = vec![Series { label: "loss".into(), mark: Mark::Line, points }];
/// let folder = tempfile::tempdir()?;
/// demask_plot::write(&folder.path().join("curve"), &Chart { series, ..Chart::default() })?;
/// assert!(folder.path().join("curve.svg").exists() && folder.path().join("curve.png").exists());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn write(path: &Path, figure: &impl Figure) -> Result<(), Error> {
    static FONTS: Once = Once::new();
    FONTS.call_once(|| {
        // A font that does not register shows as an error of the first picture.
        let _ = register_font(FONT, FontStyle::Normal, epaint_default_fonts::UBUNTU_LIGHT);
    });
    let (svg, png) = (path.with_extension("svg"), path.with_extension("png"));
    let failed = |file: &Path, problem: String| Error::Draw { path: file.to_owned(), problem };
    let mut text = String::new();
    on(vector::Vector::new(&mut text, figure.size()), figure).map_err(|cause| failed(&svg, cause))?;
    replace(&svg, |out| out.write_all(text.as_bytes()))?;
    let (width, height) = figure.size();
    let (wide, high) = (raster::ZOOM * width, raster::ZOOM * height);
    let mut pixels = vec![0; 3 * (wide * high) as usize];
    on(raster::Raster::new(&mut pixels, (width, height)), figure).map_err(|cause| failed(&png, cause))?;
    let bytes = encode(&pixels, wide, high).map_err(|cause| failed(&png, cause.to_string()))?;
    replace(&png, |out| out.write_all(&bytes))?;
    Ok(())
}

/// The PNG file of RGB pixels.
fn encode(pixels: &[u8], width: u32, height: u32) -> std::result::Result<Vec<u8>, png::EncodingError> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.write_header()?.write_image_data(pixels)?;
    Ok(bytes)
}

fn on<DB: DrawingBackend>(backend: DB, figure: &impl Figure) -> std::result::Result<(), String> {
    let area = backend.into_drawing_area();
    let draw = || {
        area.fill(&WHITE)?;
        figure.draw(&area)?;
        area.present()
    };
    draw().map_err(|cause| cause.to_string())
}

/// How a series is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// A line through the points.
    Line,
    /// A thin grey line, for reference.
    Reference,
    /// A dot for each point.
    Dots,
    /// A bar from the bottom to each point.
    Bars,
}

/// One series of a chart.
#[derive(Debug, Clone)]
pub struct Series {
    /// Its name in the legend; empty leaves it out.
    pub label: String,
    /// How it is drawn.
    pub mark: Mark,
    /// Its points, by ascending x.
    pub points: Vec<(f64, f64)>,
}

/// A chart of a few series.
#[derive(Debug, Clone, Default)]
pub struct Chart {
    /// Headline.
    pub title: String,
    /// What x is.
    pub x: String,
    /// What y is.
    pub y: String,
    /// Whether y is logarithmic; points that are not positive are left out.
    pub log: bool,
    /// The series.
    pub series: Vec<Series>,
}

impl Chart {
    /// Adds a point to the series of this label, which is begun with this mark if there is none.
    pub fn point(&mut self, label: &str, mark: Mark, point: (f64, f64)) {
        match self.series.iter_mut().find(|series| series.label == label) {
            Some(series) => series.points.push(point),
            None => self.series.push(Series { label: label.to_owned(), mark, points: vec![point] }),
        }
    }

    /// Draws the chart into an area.
    pub fn draw<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>) -> Drawn<DB> {
        let scale = |y: f64| if self.log { y.log10() } else { y };
        let visible = |(x, y): &(f64, f64)| x.is_finite() && y.is_finite() && (!self.log || *y > 0.0);
        let points = |series: &Series| -> Vec<(f64, f64)> {
            series.points.iter().filter(|p| visible(p)).map(|&(x, y)| (x, scale(y))).collect()
        };
        let all: Vec<(f64, f64)> = self.series.iter().flat_map(&points).collect();
        // A dot on the edge would be cut in half.
        let dots = self.series.iter().any(|series| series.mark == Mark::Dots);
        let x = range(all.iter().map(|p| p.0), if dots { 0.02 } else { 0.0 });
        let y = range(all.iter().map(|p| p.1).chain((!self.log).then_some(0.0)), 0.05);
        let floor = y.start;
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, (FONT, 17))
            .margin(10)
            .x_label_area_size(40)
            .y_label_area_size(62)
            .build_cartesian_2d(x.clone(), y.clone())?;
        let label = |y: &f64| if self.log { short(two_digits(10_f64.powf(*y))) } else { short(*y) };
        let style = (FONT, 14).into_font();
        chart
            .configure_mesh()
            .light_line_style(WHITE)
            .x_desc(&self.x)
            .y_desc(&self.y)
            .x_label_formatter(&|x| short(*x))
            .y_label_formatter(&label)
            .label_style(style.clone())
            .axis_desc_style(style.clone())
            .draw()?;
        let width = (x.end - x.start) / all.len().max(1) as f64 * 0.9;
        for (index, series) in self.series.iter().enumerate() {
            let colour = match series.label.to_lowercase().starts_with("demask") {
                true => DEMASK,
                false => COLOURS[index % COLOURS.len()],
            };
            let points = points(series);
            let drawn = match series.mark {
                Mark::Line => chart.draw_series(LineSeries::new(points, colour.stroke_width(2)))?,
                Mark::Reference => chart.draw_series(LineSeries::new(points, RGBColor(160, 160, 160)))?,
                Mark::Dots => {
                    chart.draw_series(points.iter().map(|&p| Circle::new(p, 4, colour.filled())))?
                }
                Mark::Bars => chart.draw_series(points.iter().map(|&(x, y)| {
                    Rectangle::new([(x - width / 2.0, floor), (x + width / 2.0, y)], colour.mix(0.7).filled())
                }))?,
            };
            if !series.label.is_empty() {
                let sample = move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2));
                drawn.label(series.label.as_str()).legend(sample);
            }
        }
        if self.series.iter().any(|series| !series.label.is_empty()) {
            chart
                .configure_series_labels()
                .position(emptiest_corner(&all, &x, &y))
                .background_style(WHITE.mix(0.8))
                .border_style(RGBColor(200, 200, 200))
                .label_font(style)
                .draw()?;
        }
        Ok(())
    }
}

/// A positive number rounded to two digits, for the marks of a logarithmic axis.
fn two_digits(value: f64) -> f64 {
    let unit = 10_f64.powf(value.log10().floor() - 1.0);
    (value / unit).round() * unit
}

/// A chart alone is a picture.
impl Figure for Chart {
    fn size(&self) -> (u32, u32) {
        (640, 400)
    }

    fn draw<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>) -> Drawn<DB> {
        Self::draw(self, area)
    }
}

/// Draws a square matrix with values between 0 and `top`: dark is large.
pub fn heat_map<DB: DrawingBackend>(
    area: &DrawingArea<DB, Shift>,
    title: &str,
    values: &[f32],
    size: usize,
    top: f32,
) -> Drawn<DB> {
    let area = area.titled(title, (FONT, 17))?.margin(10, 10, 10, 10);
    let (width, height) = area.dim_in_pixel();
    let cell = (width.min(height) as usize / size.max(1)).max(1) as i32;
    for (index, value) in values.iter().enumerate() {
        let (row, column) = ((index / size) as i32, (index % size) as i32);
        let share = f64::from((value / top.max(1e-6)).clamp(0.0, 1.0));
        let fade = |dark: u8| (255.0 - share * (255.0 - f64::from(dark))) as u8;
        let colour = RGBColor(fade(COLOURS[0].0 / 2), fade(COLOURS[0].1 / 2), fade(COLOURS[0].2));
        let corner = (column * cell, row * cell);
        area.draw(&Rectangle::new([corner, (corner.0 + cell, corner.1 + cell)], colour.filled()))?;
    }
    let edge = size as i32 * cell;
    area.draw(&Rectangle::new([(0, 0), (edge, edge)], RGBColor(120, 120, 120)))
}

/// The corner with the fewest points, for the legend.
fn emptiest_corner(points: &[(f64, f64)], x: &Range<f64>, y: &Range<f64>) -> SeriesLabelPosition {
    use SeriesLabelPosition::{LowerLeft, LowerRight, UpperLeft, UpperRight};
    let far = |value: f64, range: &Range<f64>| (value - range.start) / (range.end - range.start) > 0.6;
    let near = |value: f64, range: &Range<f64>| (value - range.start) / (range.end - range.start) < 0.4;
    let right = |p: &&(f64, f64)| far(p.0, x);
    let left = |p: &&(f64, f64)| near(p.0, x);
    let counts = [
        (points.iter().filter(right).filter(|p| far(p.1, y)).count(), UpperRight),
        (points.iter().filter(left).filter(|p| far(p.1, y)).count(), UpperLeft),
        (points.iter().filter(right).filter(|p| near(p.1, y)).count(), LowerRight),
        (points.iter().filter(left).filter(|p| near(p.1, y)).count(), LowerLeft),
    ];
    counts.into_iter().min_by_key(|(count, _)| *count).map_or(UpperRight, |(_, corner)| corner)
}

fn range(values: impl Iterator<Item = f64>, margin: f64) -> Range<f64> {
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
    if low > high {
        return 0.0..1.0;
    }
    let room = ((high - low) * margin).max(f64::from(u8::from(high == low)) * 0.5);
    let bottom = if low == 0.0 { 0.0 } else { low - room };
    bottom..high + room
}

fn short(value: f64) -> String {
    let size = value.abs();
    if size != 0.0 && !(1e-3..1e5).contains(&size) {
        return format!("{value:.0e}");
    }
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    struct Two(Chart);

    impl Figure for Two {
        fn size(&self) -> (u32, u32) {
            (600, 300)
        }

        fn draw<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>) -> Drawn<DB> {
            let (left, right) = area.split_horizontally(300);
            self.0.draw(&left)?;
            heat_map(&right, "D", &[0.0, 0.5, 1.0, 0.0], 2, 1.0)
        }
    }

    #[test]
    fn both_files_are_written_with_text_and_lines() {
        let folder = tempfile::tempdir().unwrap();
        let points = vec![(0.0, 1.0), (1.0, 0.1), (2.0, 0.0), (3.0, f64::NAN)];
        let series = vec![
            Series { label: "training".into(), mark: Mark::Line, points: points.clone() },
            Series { label: String::new(), mark: Mark::Bars, points },
        ];
        let chart = Chart { title: "loss".into(), x: "step".into(), y: "MSE".into(), log: true, series };
        write(&folder.path().join("picture"), &Two(chart)).unwrap();
        let svg = fs::read_to_string(folder.path().join("picture.svg")).unwrap();
        assert!(svg.contains("training") && svg.contains("MSE") && svg.contains("polyline"));
        let png = fs::read(folder.path().join("picture.png")).unwrap();
        assert!(png.starts_with(b"\x89PNG") && png.len() > 2000, "{}", png.len());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            ["0.25", "0", "1", "1e-4", "2e6"],
            [0.25, 0.0, 1.0, 1e-4, 2e6].map(short).each_ref().map(String::as_str)
        );
    }
}
