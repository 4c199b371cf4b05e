//! Text in lines.

/// Breaks a text between words, into lines of at most `width` characters; a longer word has a line of its own.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::<String>::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::wrap;

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrap("a bc  def ghijk", 6), ["a bc", "def", "ghijk"]);
        assert_eq!(wrap("ghijklmn a", 6), ["ghijklmn", "a"]);
        assert!(wrap(" ", 6).is_empty());
    }
}
