//! The bitmap backend: a picture in twice its size, so that it is crisp on any screen, text from the same outlines.

use ab_glyph_rasterizer::{Rasterizer, point};
use plotters::prelude::BitMapBackend;
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind,
};
use ttf_parser::OutlineBuilder;

use crate::text::{Line, WEIGHT};

/// Pixels for each of the picture's own.
pub(crate) const ZOOM: u32 = 2;

type Failure = DrawingErrorKind<<BitMapBackend<'static> as DrawingBackend>::ErrorType>;

/// A picture being painted.
pub(crate) struct Raster<'a> {
    pixels: BitMapBackend<'a>,
    size: (u32, u32),
}

impl<'a> Raster<'a> {
    /// Of a picture of this size; `pixels` has room for [`ZOOM`] times as many both ways, three bytes each.
    pub(crate) fn new(pixels: &'a mut [u8], size: (u32, u32)) -> Self {
        Self { pixels: BitMapBackend::with_buffer(pixels, (ZOOM * size.0, ZOOM * size.1)), size }
    }
}

fn zoomed((x, y): BackendCoord) -> BackendCoord {
    (ZOOM as i32 * x, ZOOM as i32 * y)
}

/// A style whose lines are as many times as wide.
struct Wide(BackendColor, u32);

impl Wide {
    fn of(style: &impl BackendStyle) -> Self {
        Self(style.color(), ZOOM * style.stroke_width())
    }
}

impl BackendStyle for Wide {
    fn color(&self) -> BackendColor {
        self.0
    }

    fn stroke_width(&self) -> u32 {
        self.1
    }
}

impl DrawingBackend for Raster<'_> {
    type ErrorType = <BitMapBackend<'static> as DrawingBackend>::ErrorType;

    fn get_size(&self) -> (u32, u32) {
        self.size
    }

    fn ensure_prepared(&mut self) -> Result<(), Failure> {
        self.pixels.ensure_prepared()
    }

    fn present(&mut self) -> Result<(), Failure> {
        self.pixels.present()
    }

    fn draw_pixel(&mut self, at: BackendCoord, color: BackendColor) -> Result<(), Failure> {
        let (x, y) = zoomed(at);
        self.pixels.draw_rect((x, y), (x + 1, y + 1), &color, true)
    }

    fn draw_line<S: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &S,
    ) -> Result<(), Failure> {
        self.pixels.draw_line(zoomed(from), zoomed(to), &Wide::of(style))
    }

    fn draw_rect<S: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &S,
        filled: bool,
    ) -> Result<(), Failure> {
        self.pixels.draw_rect(zoomed(from), zoomed(to), &Wide::of(style), filled)
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        path: I,
        style: &S,
    ) -> Result<(), Failure> {
        self.pixels.draw_path(path.into_iter().map(zoomed), &Wide::of(style))
    }

    fn draw_circle<S: BackendStyle>(
        &mut self,
        centre: BackendCoord,
        radius: u32,
        style: &S,
        filled: bool,
    ) -> Result<(), Failure> {
        self.pixels.draw_circle(zoomed(centre), ZOOM * radius, &Wide::of(style), filled)
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        corners: I,
        style: &S,
    ) -> Result<(), Failure> {
        self.pixels.fill_polygon(corners.into_iter().map(zoomed), &Wide::of(style))
    }

    fn draw_text<S: BackendTextStyle>(
        &mut self,
        text: &str,
        style: &S,
        at: BackendCoord,
    ) -> Result<(), Failure> {
        let (width, height) = self.pixels.get_size();
        // Drawn twice, a little apart: as much thicker as the outlines of the other backend.
        let apart = (WEIGHT * style.size() * f64::from(ZOOM)) as f32;
        let mut area = Area {
            to: Rasterizer::new(width as usize, height as usize),
            shift: 0.0,
            first: (0.0, 0.0),
            last: (0.0, 0.0),
        };
        for shift in [-apart / 2.0, apart / 2.0] {
            area.shift = shift;
            Line::new(text, style.size()).draw(style, at, f64::from(ZOOM), &mut area);
        }
        let (color, mut outcome) = (style.color(), Ok(()));
        area.to.for_each_pixel_2d(|x, y, share| {
            if share > 0.0 && outcome.is_ok() {
                let alpha = color.alpha * f64::from(share.min(1.0));
                let color = BackendColor { alpha, rgb: color.rgb };
                outcome = self.pixels.draw_pixel((x as i32, y as i32), color);
            }
        });
        outcome
    }

    fn estimate_text_size<S: BackendTextStyle>(&self, text: &str, style: &S) -> Result<(u32, u32), Failure> {
        Ok(Line::new(text, style.size()).extent())
    }
}

/// Outlines as the lines and curves of a rasterizer.
struct Area {
    to: Rasterizer,
    shift: f32,
    first: (f32, f32),
    last: (f32, f32),
}

impl Area {
    fn at(&self, x: f32, y: f32) -> ab_glyph_rasterizer::Point {
        // The rasterizer takes no place outside.
        let (width, height) = self.to.dimensions();
        point((x + self.shift).clamp(0.0, width as f32 - 1.0), y.clamp(0.0, height as f32 - 1.0))
    }
}

impl OutlineBuilder for Area {
    fn move_to(&mut self, x: f32, y: f32) {
        (self.first, self.last) = ((x, y), (x, y));
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let (from, to) = (self.at(self.last.0, self.last.1), self.at(x, y));
        self.to.draw_line(from, to);
        self.last = (x, y);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let (from, by, to) = (self.at(self.last.0, self.last.1), self.at(x1, y1), self.at(x, y));
        self.to.draw_quad(from, by, to);
        self.last = (x, y);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let from = self.at(self.last.0, self.last.1);
        let (first, second, to) = (self.at(x1, y1), self.at(x2, y2), self.at(x, y));
        self.to.draw_cubic(from, first, second, to);
        self.last = (x, y);
    }

    fn close(&mut self) {
        self.line_to(self.first.0, self.first.1);
    }
}
