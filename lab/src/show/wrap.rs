//! Text in lines.

use textwrap::core::Fragment;
use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm};

/// Columns of a terminal that a text takes, of which styles take none.
pub fn columns(text: &str) -> usize {
    textwrap::core::display_width(text)
}

/// Breaks a text between words into lines of at most `width` columns of a terminal, of which styles take none. The first
/// line begins with one indent, the others with another. A longer word, which may be a command, stays whole.
pub fn wrap(text: &str, width: usize, [first, others]: [&str; 2]) -> Vec<String> {
    let options = Options::new(width)
        .initial_indent(first)
        .subsequent_indent(others)
        .break_words(false)
        .word_separator(WordSeparator::AsciiSpace)
        .word_splitter(WordSplitter::NoHyphenation)
        .wrap_algorithm(WrapAlgorithm::FirstFit);
    let lines = textwrap::wrap(text, options);
    lines.into_iter().map(String::from).collect()
}

/// The same for words that are measured in some other way.
pub(crate) fn wrap_measured(
    words: impl Iterator<Item = String>,
    room: f64,
    measure: impl Fn(&str) -> f64,
) -> Vec<String> {
    let blank = measure(" ");
    let words: Vec<_> = words.map(|w| Word(measure(&w), blank, w)).collect();
    let lines = textwrap::wrap_algorithms::wrap_first_fit(&words, &[room]);
    let join = |words: &[Word]| words.iter().map(|w| &*w.2).collect::<Vec<_>>().join(" ");
    // Of no words it makes one empty line.
    lines
        .into_iter()
        .map(join)
        .filter(|line| !line.is_empty())
        .collect()
}

/// Its width, that of the blank behind it, and itself.
#[derive(Debug)]
struct Word(f64, f64, String);

impl Fragment for Word {
    fn width(&self) -> f64 {
        self.0
    }

    fn whitespace_width(&self) -> f64 {
        self.1
    }

    fn penalty_width(&self) -> f64 {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words_and_styles_take_no_room() {
        assert_eq!(wrap("a bc def ghijk", 6, [""; 2]), ["a bc", "def", "ghijk"]);
        assert_eq!(wrap("--no-save a", 6, ["", "  "]), ["--no-save", "  a"]);
        assert_eq!(wrap("\x1b[1ma\x1b[0m bc", 4, [""; 2]).len(), 1);
        let words = ["a", "bc", "ghijklmn"].map(String::from).into_iter();
        let lines = wrap_measured(words, 4.0, |w| w.len() as f64);
        assert_eq!(lines, ["a bc", "ghijklmn"]);
    }
}
