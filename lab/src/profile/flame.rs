//! Flame graphs: a picture of folded stacks.

use fullbore::{Error, Result};
use inferno::flamegraph::{self, Options};

use super::fold::Folded;

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
    options.title = title.to_owned();
    options.deterministic = true;
    options.no_javascript = !can_be_searched;
    options.colors = flamegraph::Palette::Multi(flamegraph::color::MultiPalette::Java); // the kernel apart
    let mut svg = Vec::new();
    flamegraph::from_lines(&mut options, lines.lines(), &mut svg).map_err(failed)?;
    String::from_utf8(svg).map_err(|e| failed(std::io::Error::other(e)))
}

/// Folded stacks in the form that other tools read, one on a line.
#[must_use]
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
