//! Text as outlines of one font that is compiled in, with its kerning: a picture looks the same everywhere, in every form.

use std::sync::OnceLock;

use plotters_backend::text_anchor::{HPos, VPos};
use plotters_backend::{BackendCoord, BackendTextStyle, FontTransform};
use ttf_parser::gpos::{PairAdjustment, PositioningSubtable};
use ttf_parser::{Face, GlyphId, OutlineBuilder};

/// Height of capitals, by which text is centred.
const CAPITALS: f64 = 0.69;
/// Room above the base line.
const ASCENT: f64 = 0.78;
/// Room below it.
const DESCENT: f64 = 0.2;
/// How much thicker than the font's own strokes are drawn, which are light for small print; in shares of the size.
pub(crate) const WEIGHT: f64 = 0.026;

fn face() -> Option<&'static Face<'static>> {
    static FACE: OnceLock<Option<Face<'static>>> = OnceLock::new();
    FACE.get_or_init(|| Face::parse(epaint_default_fonts::UBUNTU_LIGHT, 0).ok()).as_ref()
}

/// A line of text, its glyphs placed.
pub(crate) struct Line {
    glyphs: Vec<(GlyphId, f64)>,
    /// Pixels in an em's unit.
    scale: f64,
    width: f64,
    size: f64,
}

impl Line {
    /// Of a text in this size; an unknown character is the font's box.
    pub(crate) fn new(text: &str, size: f64) -> Self {
        let Some(face) = face() else { return Self { glyphs: Vec::new(), scale: 0.0, width: 0.0, size } };
        let scale = size / f64::from(face.units_per_em());
        let (mut glyphs, mut pen, mut previous) = (Vec::new(), 0.0, None);
        for glyph in text.chars().map(|c| face.glyph_index(c).unwrap_or_default()) {
            pen += previous.map_or(0.0, |previous| f64::from(kerning(face, previous, glyph)));
            glyphs.push((glyph, pen * scale));
            pen += f64::from(face.glyph_hor_advance(glyph).unwrap_or(0));
            previous = Some(glyph);
        }
        Self { glyphs, scale, width: pen * scale, size }
    }

    /// Width and height in whole pixels.
    pub(crate) fn extent(&self) -> (u32, u32) {
        (self.width.ceil() as u32, ((ASCENT + DESCENT) * self.size).ceil() as u32)
    }

    /// Draws the outlines where a style puts the text, all coordinates `zoom` times as large.
    pub(crate) fn draw<S: BackendTextStyle>(
        &self,
        style: &S,
        at: BackendCoord,
        zoom: f64,
        to: &mut dyn OutlineBuilder,
    ) {
        let Some(face) = face() else { return };
        let anchor = style.anchor();
        let left = match anchor.h_pos {
            HPos::Left => 0.0,
            HPos::Center => -self.width / 2.0,
            HPos::Right => -self.width,
        };
        let base = match anchor.v_pos {
            VPos::Top => ASCENT * self.size,
            VPos::Center => CAPITALS / 2.0 * self.size,
            VPos::Bottom => -DESCENT * self.size,
        };
        let turn = match style.transform() {
            FontTransform::None => [1.0, 0.0, 0.0, 1.0],
            FontTransform::Rotate90 => [0.0, -1.0, 1.0, 0.0],
            FontTransform::Rotate180 => [-1.0, 0.0, 0.0, -1.0],
            FontTransform::Rotate270 => [0.0, 1.0, -1.0, 0.0],
        };
        for &(glyph, x) in &self.glyphs {
            let mut pen = Pen {
                to,
                origin: (left + x, base),
                scale: self.scale,
                turn,
                at: (f64::from(at.0), f64::from(at.1)),
                zoom,
            };
            face.outline_glyph(glyph, &mut pen);
        }
    }
}

/// Units that a pair is moved together or apart.
fn kerning(face: &Face<'_>, left: GlyphId, right: GlyphId) -> i16 {
    let Some(gpos) = face.tables().gpos else { return 0 };
    for lookup in gpos.lookups {
        for subtable in lookup.subtables.into_iter::<PositioningSubtable<'_>>() {
            let PositioningSubtable::Pair(pair) = subtable else { continue };
            let Some(index) = pair.coverage().get(left) else { continue };
            let moved = match pair {
                PairAdjustment::Format1 { sets, .. } => sets.get(index).and_then(|set| set.get(right)),
                PairAdjustment::Format2 { classes, matrix, .. } => {
                    matrix.get((classes.0.get(left), classes.1.get(right)))
                }
            };
            if let Some((first, _)) = moved {
                return first.x_advance;
            }
        }
    }
    0
}

/// From a font's units to a picture's pixels: y grows downwards there.
struct Pen<'a> {
    to: &'a mut dyn OutlineBuilder,
    origin: (f64, f64),
    scale: f64,
    turn: [f64; 4],
    at: (f64, f64),
    zoom: f64,
}

impl Pen<'_> {
    fn place(&self, x: f32, y: f32) -> (f32, f32) {
        let (x, y) = (self.origin.0 + f64::from(x) * self.scale, self.origin.1 - f64::from(y) * self.scale);
        let [a, b, c, d] = self.turn;
        let place = (self.at.0 + a * x + b * y, self.at.1 + c * x + d * y);
        ((place.0 * self.zoom) as f32, (place.1 * self.zoom) as f32)
    }
}

impl OutlineBuilder for Pen<'_> {
    fn move_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.place(x, y);
        self.to.move_to(x, y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.place(x, y);
        self.to.line_to(x, y);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let ((x1, y1), (x, y)) = (self.place(x1, y1), self.place(x, y));
        self.to.quad_to(x1, y1, x, y);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let ((x1, y1), (x2, y2), (x, y)) = (self.place(x1, y1), self.place(x2, y2), self.place(x, y));
        self.to.curve_to(x1, y1, x2, y2, x, y);
    }

    fn close(&mut self) {
        self.to.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_kerned_and_every_letter_of_ours_is_there() {
        let width = |text| Line::new(text, 100.0).width;
        assert!(width("AV") < width("A") + width("V") - 2.0, "{} {}", width("AV"), width("A") + width("V"));
        let face = face().unwrap();
        for c in ('!'..='~').chain("τγ×±≥–…".chars()) {
            assert!(face.glyph_index(c).is_some(), "{c}");
        }
    }
}
