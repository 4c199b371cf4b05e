//! Text that someone else wrote: a file's name, a label, an error of another program.

use std::borrow::Cow;
use std::fmt::Write;

/// More characters than this of a name are cut.
const NAME: usize = 120;

/// Whether a character, shown as it is, would change what a reader sees of the others: a control character, one that turns
/// the direction of writing, one without width, a separator of lines, a tag. Those that XML cannot hold count, too.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}'
            | '\u{e0000}'..='\u{e007f}')
}

/// The text with `\n` and `\u{1b}` for what [`is_hidden`].
pub fn visible(text: &str) -> Cow<'_, str> {
    if text.contains(is_hidden) {
        cut(text, usize::MAX).into()
    } else {
        text.into()
    }
}

/// [`visible`], and cut where it is too long for a name.
pub fn shown(text: &str) -> String {
    cut(text, NAME)
}

/// [`visible`], and cut after about so many characters.
pub fn cut(text: &str, most: usize) -> String {
    let (mut out, mut taken) = (String::new(), 0);
    for c in text.chars() {
        if taken >= most {
            out.push('…');
            break;
        }
        if is_hidden(c) {
            let escape = c.escape_default();
            taken += escape.len();
            out.extend(escape);
        } else {
            taken += 1;
            out.push(c);
        }
    }
    out
}

/// JSON text without what [`is_hidden`], which is in its strings only; the same JSON otherwise.
pub fn json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_a_terminal_would_obey_is_escaped_and_nothing_else() {
        assert_eq!(visible("a\u{1b}[2Jb\n"), "a\\u{1b}[2Jb\\n");
        assert_eq!(visible("\u{9b}2J\u{202e}"), "\\u{9b}2J\\u{202e}");
        assert_eq!(visible("Zürich ×8"), "Zürich ×8");
        assert_eq!(shown(&"x".repeat(500)).chars().count(), NAME + 1);
    }

    #[test]
    fn json_for_a_terminal_is_the_same_json() {
        let text = "a\u{9b}\u{202e}\u{7f}\u{e0001}ä";
        let safe = json(&serde_json::to_string(text).unwrap());
        assert_eq!(safe, r#""a\u009b\u202e\u007f\udb40\udc01ä""#);
        assert_eq!(serde_json::from_str::<String>(&safe).unwrap(), text);
    }

    proptest! {
        #[test]
        fn any_text_becomes_one_that_xml_can_hold(text in any::<String>(), most in 0_usize..700) {
            let cut = cut(&text, most);
            prop_assert!(!cut.contains(is_hidden));
            prop_assert!(cut.chars().count() <= most + 10);
        }
    }
}
