//! The SVG backend: shapes as they are, text as outlines that also carry their words for whoever reads or searches them.

use std::convert::Infallible;
use std::fmt::Write as _;

use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind,
};
use ttf_parser::OutlineBuilder;

use crate::text::{Line, WEIGHT};

type Done = Result<(), DrawingErrorKind<Infallible>>;

/// A picture being written.
pub(crate) struct Vector<'a> {
    out: &'a mut String,
    size: (u32, u32),
}

impl<'a> Vector<'a> {
    /// Begins a picture.
    pub(crate) fn new(out: &'a mut String, size: (u32, u32)) -> Self {
        let (width, height) = size;
        let _ = writeln!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" role=\"img\">"
        );
        Self { out, size }
    }

    fn element(&mut self, shape: &str, style: &impl BackendStyle, filled: bool) -> Done {
        let paint = match filled {
            true => fill(style.color()),
            false => stroke(style),
        };
        let _ = writeln!(self.out, "<{shape} {paint}/>");
        Ok(())
    }
}

fn hex(color: BackendColor) -> String {
    let (r, g, b) = color.rgb;
    format!("#{r:02x}{g:02x}{b:02x}")
}

fn opacity(name: &str, color: BackendColor) -> String {
    if color.alpha >= 1.0 { String::new() } else { format!(" {name}-opacity=\"{:.3}\"", color.alpha) }
}

fn fill(color: BackendColor) -> String {
    format!("fill=\"{}\"{}", hex(color), opacity("fill", color))
}

fn stroke(style: &impl BackendStyle) -> String {
    let (color, width) = (style.color(), style.stroke_width());
    format!("fill=\"none\" stroke=\"{}\" stroke-width=\"{width}\"{}", hex(color), opacity("stroke", color))
}

fn points(path: impl IntoIterator<Item = BackendCoord>) -> String {
    path.into_iter().map(|(x, y)| format!("{x},{y}")).collect::<Vec<_>>().join(" ")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

impl DrawingBackend for Vector<'_> {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        self.size
    }

    fn ensure_prepared(&mut self) -> Done {
        Ok(())
    }

    fn present(&mut self) -> Done {
        if !self.out.ends_with("</svg>\n") {
            self.out.push_str("</svg>\n");
        }
        Ok(())
    }

    fn draw_pixel(&mut self, (x, y): BackendCoord, color: BackendColor) -> Done {
        self.element(&format!("rect x=\"{x}\" y=\"{y}\" width=\"1\" height=\"1\""), &color, true)
    }

    fn draw_line<S: BackendStyle>(&mut self, from: BackendCoord, to: BackendCoord, style: &S) -> Done {
        let line = format!("line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"", from.0, from.1, to.0, to.1);
        self.element(&line, style, false)
    }

    fn draw_rect<S: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &S,
        filled: bool,
    ) -> Done {
        let (left, right) = (from.0.min(to.0), from.0.max(to.0));
        let (top, bottom) = (from.1.min(to.1), from.1.max(to.1));
        let (width, height) = (right - left, bottom - top);
        let rect = format!("rect x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height}\"");
        self.element(&rect, style, filled)
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        path: I,
        style: &S,
    ) -> Done {
        self.element(&format!("polyline points=\"{}\" stroke-linejoin=\"round\"", points(path)), style, false)
    }

    fn draw_circle<S: BackendStyle>(
        &mut self,
        centre: BackendCoord,
        radius: u32,
        style: &S,
        filled: bool,
    ) -> Done {
        let circle = format!("circle cx=\"{}\" cy=\"{}\" r=\"{radius}\"", centre.0, centre.1);
        self.element(&circle, style, filled)
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        corners: I,
        style: &S,
    ) -> Done {
        self.element(&format!("polygon points=\"{}\"", points(corners)), style, true)
    }

    fn draw_text<S: BackendTextStyle>(&mut self, text: &str, style: &S, at: BackendCoord) -> Done {
        let mut path = Path::default();
        Line::new(text, style.size()).draw(style, at, 1.0, &mut path);
        let (color, words, weight) = (style.color(), escaped(text), WEIGHT * style.size());
        let paint = fill(color);
        let edge = format!("stroke=\"{}\" stroke-width=\"{weight:.2}\"", hex(color));
        let _ = writeln!(self.out, "<path aria-label=\"{words}\" {paint} {edge} d=\"{}\"/>", path.0);
        Ok(())
    }

    fn estimate_text_size<S: BackendTextStyle>(
        &self,
        text: &str,
        style: &S,
    ) -> Result<(u32, u32), DrawingErrorKind<Infallible>> {
        Ok(Line::new(text, style.size()).extent())
    }
}

/// The data of a path.
#[derive(Default)]
struct Path(String);

impl OutlineBuilder for Path {
    fn move_to(&mut self, x: f32, y: f32) {
        let _ = write!(self.0, "M{x:.2} {y:.2}");
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let _ = write!(self.0, "L{x:.2} {y:.2}");
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let _ = write!(self.0, "Q{x1:.2} {y1:.2} {x:.2} {y:.2}");
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let _ = write!(self.0, "C{x1:.2} {y1:.2} {x2:.2} {y2:.2} {x:.2} {y:.2}");
    }

    fn close(&mut self) {
        self.0.push('Z');
    }
}
