//! Pictures as SVG and PNG with no system library; the font is compiled in.
//!
//! Invariant: a picture appears under its name only when it is complete.

use std::path::Path;
use std::sync::Once;

use demask_model::checkpoint::write::replace;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::{FontStyle, register_font};

use crate::error::{Error, Result};

/// The font of all text.
pub const FONT: &str = "sans-serif";

/// Colours of series, in order.
pub const COLOURS: [RGBColor; 6] = [
    RGBColor(27, 108, 168),
    RGBColor(209, 73, 91),
    RGBColor(46, 147, 60),
    RGBColor(224, 142, 0),
    RGBColor(142, 108, 138),
    RGBColor(61, 90, 128),
];

/// A result of drawing on some backend.
pub type Drawn<DB> = std::result::Result<(), DrawingAreaErrorKind<<DB as DrawingBackend>::ErrorType>>;

/// Something that can be drawn on any backend.
pub trait Figure {
    /// Width and height in pixels.
    fn size(&self) -> (u32, u32);
    /// Draws it on a white area.
    fn draw<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>) -> Drawn<DB>;
}

/// Writes `path` with the endings `.svg` and `.png`.
pub fn write(path: &Path, figure: &impl Figure) -> Result<()> {
    static FONTS: Once = Once::new();
    FONTS.call_once(|| {
        // A font that does not register shows as an error of the first picture.
        let _ = register_font(FONT, FontStyle::Normal, epaint_default_fonts::UBUNTU_LIGHT);
    });
    let (svg, png) = (path.with_extension("svg"), path.with_extension("png"));
    let failed = |file: &Path, problem: String| Error::Plot { path: file.to_owned(), problem };
    let mut text = String::new();
    on(SVGBackend::with_string(&mut text, figure.size()), figure).map_err(|cause| failed(&svg, cause))?;
    replace(&svg, |out| out.write_all(text.as_bytes()))?;
    let (width, height) = figure.size();
    let mut pixels = vec![0; 3 * (width * height) as usize];
    on(BitMapBackend::with_buffer(&mut pixels, (width, height)), figure)
        .map_err(|cause| failed(&png, cause))?;
    let bytes = encode(&pixels, width, height).map_err(|cause| failed(&png, cause.to_string()))?;
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
    draw().map_err(|cause: DrawingAreaErrorKind<DB::ErrorType>| cause.to_string())
}
