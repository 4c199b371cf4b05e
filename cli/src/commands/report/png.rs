//! SVG to PNG, with a font of our own: the same picture on every machine, whatever is installed there.

use std::sync::Arc;

use fullbore_sys::{Error, Result};
use resvg::usvg::{self, fontdb};
use resvg::{tiny_skia, usvg::Tree};

/// Roboto, cut down to Latin, Greek and Cyrillic; its licence is beside it.
const FONTS: [&[u8]; 2] = [
    include_bytes!("../../../fonts/Roboto-Regular.ttf"),
    include_bytes!("../../../fonts/Roboto-Bold.ttf"),
];

/// Pixels per unit: sharp on the screens of today.
const SCALE: f32 = 2.0;

/// Draws it in the colours of light mode.
pub fn png(svg: &str) -> Result<Vec<u8>> {
    let mut fonts = fontdb::Database::new();
    for font in FONTS {
        fonts.load_font_data(font.to_vec());
    }
    let options = usvg::Options {
        font_family: "Roboto".into(),
        fontdb: Arc::new(fonts),
        ..usvg::Options::default()
    };
    let tree = Tree::from_str(svg, &options).map_err(|e| not_drawn(&e))?;
    let size = tree.size();
    let (width, height) = (size.width() * SCALE, size.height() * SCALE);
    let mut pixels = tiny_skia::Pixmap::new(width.ceil() as u32, height.ceil() as u32)
        .ok_or_else(|| not_drawn(&"it is too large"))?;
    let transform = tiny_skia::Transform::from_scale(SCALE, SCALE);
    resvg::render(&tree, transform, &mut pixels.as_mut());
    pixels.encode_png().map_err(|e| not_drawn(&e))
}

fn not_drawn(why: &dyn std::fmt::Display) -> Error {
    Error::new(
        "the chart cannot be drawn as PNG",
        why.to_string(),
        "use --svg",
    )
}
