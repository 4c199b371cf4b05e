//! Flame graphs: a picture of folded stacks.

use fullbore_sys::{Error, Result};
use inferno::flamegraph::{self, Options};

use super::fold::Folded;
use crate::report::font::Font;

/// The picture's width, and what its title leaves free at both sides for the links there.
const WIDTH: f64 = 1200.0;
const LINKS: f64 = 120.0;
const TITLE: Font = Font::regular(17.0);

/// Draws a flame graph as a self-contained SVG.
///
/// # Errors
/// There are no stacks to draw.
pub fn draw(folded: &[Folded], title: &str) -> Result<String> {
    drawn(folded, title, true)
}

/// The same without its script, for where it is shown as an image.
///
/// # Errors
/// As [`draw`].
pub fn still(folded: &[Folded], title: &str) -> Result<String> {
    drawn(folded, title, false)
}

fn drawn(folded: &[Folded], title: &str, can_be_searched: bool) -> Result<String> {
    let failed = |e: std::io::Error| Error::system("no flame graph", e, "profile for longer");
    let lines = lines(folded);
    let mut options = Options::default();
    options.image_width = Some(WIDTH as usize);
    options.title = TITLE.fitted(title, WIDTH - 2.0 * LINKS);
    // A name is cut to as many characters as its block has room for: of the width of an n in the widest font, since names
    // are mostly small letters.
    options.font_width = Font::regular(1.0).width("n");
    options.deterministic = true;
    options.no_javascript = !can_be_searched;
    options.colors = flamegraph::Palette::Multi(flamegraph::color::MultiPalette::Java); // the kernel apart
    let mut svg = Vec::new();
    flamegraph::from_lines(&mut options, lines.lines(), &mut svg).map_err(failed)?;
    String::from_utf8(svg).map_err(|e| failed(std::io::Error::other(e)))
}

/// Folded stacks in the form that other tools read, one on a line.
pub fn lines(folded: &[Folded]) -> String {
    folded
        .iter()
        .map(|(stack, count)| format!("{stack} {count}\n"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picture_has_every_function_and_escapes_names() {
        let folded = [
            ("main;<A>::f;anon_pipe_write_[k]".to_owned(), 3),
            ("main;&g".to_owned(), 1),
        ];
        let svg = draw(&folded, "a <title>").unwrap();
        assert!(svg.contains("<svg") && svg.contains("a &lt;title&gt;"));
        assert!(svg.contains("anon_pipe_write") && svg.contains("&lt;A&gt;::f"));
        assert_eq!(lines(&folded).lines().count(), 2);
    }

    #[test]
    fn nothing_to_draw_is_said() {
        assert!(draw(&[], "x").is_err());
    }
}
