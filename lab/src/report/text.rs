//! Text and numbers as a reader sees them.

use maud::{Markup, html};

use crate::show::escape::cut;

/// More characters than this of one text are cut.
const LONGEST: usize = 600;

/// Text of a saved run, made fit for a page or a picture, which hold no more than a line or two of it.
pub fn safe(text: &str) -> String {
    cut(text, LONGEST)
}

/// Bytes in the largest unit that divides them.
pub fn bytes(n: u64) -> String {
    fullbore_sys::size::Size(n).to_string()
}

/// The number, if it can be drawn on a scale of rates or times.
pub fn drawable(value: f64) -> Option<f64> {
    // Beyond these, differences of pixels are lost to rounding, and nothing that moves bytes is there.
    (value.is_finite() && value > 1e-9 && value < 1e12).then_some(value)
}

/// A list of remarks; nothing where there are none.
pub fn remarks<'a>(texts: impl Iterator<Item = &'a String>) -> Markup {
    let mut texts = texts.peekable();
    html! {
        @if texts.peek().is_some() {
            ul.warnings { @for text in texts { li { (safe(text)) } } }
        }
    }
}
