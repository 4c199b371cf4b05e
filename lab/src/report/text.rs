//! Text and numbers as a reader sees them.

use maud::{Markup, html};

/// More characters than this of one text are cut: a name is no place for a book.
const LONGEST: usize = 600;

/// Text of a saved run, made fit for a page or a picture: no control characters (XML has none), none that turn the
/// direction of what follows, and no more than a line or two.
pub fn safe(text: &str) -> String {
    let mut clean: String = text
        .chars()
        .take(LONGEST)
        .map(|c| if is_printable(c) { c } else { '\u{FFFD}' })
        .collect();
    if text.chars().nth(LONGEST).is_some() {
        clean.push('…');
    }
    clean
}

fn is_printable(c: char) -> bool {
    !(c.is_control()
        || matches!(c, '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{206F}'
            | '\u{FEFF}' | '\u{FFFE}' | '\u{FFFF}'))
}

/// Three significant digits, and an exponent where they would stand in a long row of zeros.
pub fn number(value: f64) -> String {
    match value.abs() {
        v if v.is_nan() => "–".into(),
        0.0 => "0".into(),
        v if !(1e-3..1e7).contains(&v) => format!("{value:.2e}"),
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 0.1 => format!("{value:.2}"),
        v if v >= 0.01 => format!("{value:.3}"),
        _ => format!("{value:.4}"),
    }
}

/// The number, or a dash.
pub fn maybe(value: Option<f64>) -> String {
    value.map_or_else(|| "–".into(), number)
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

/// One word with a plural.
pub fn count(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

/// Time as UTC, to the minute.
pub fn when(unix_s: u64) -> String {
    i64::try_from(unix_s)
        .ok()
        .and_then(|s| jiff::Timestamp::from_second(s).ok())
        .map_or_else(
            || "at an unknown time".into(),
            |t| t.strftime("%Y-%m-%d %H:%M UTC").to_string(),
        )
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_stay_short_whatever_they_are() {
        let texts = [
            0.0,
            0.0123,
            0.665,
            3.714,
            62.49,
            5732.1,
            1e308,
            -12.0,
            f64::NAN,
            f64::INFINITY,
            f64::MIN_POSITIVE,
        ]
        .map(number);
        assert_eq!(
            texts,
            [
                "0",
                "0.012",
                "0.67",
                "3.71",
                "62.5",
                "5732",
                "1.00e308",
                "-12.0",
                "–",
                "inf",
                "2.23e-308"
            ]
        );
    }

    proptest! {
        #[test]
        fn any_text_becomes_one_that_xml_can_hold(text in any::<String>()) {
            let safe = safe(&text);
            prop_assert!(safe.chars().all(|c| !c.is_control()));
            prop_assert!(safe.chars().count() <= LONGEST + 1);
        }

        #[test]
        fn any_number_is_at_most_ten_characters(value in any::<f64>()) {
            prop_assert!(number(value).chars().count() <= 10, "{}", number(value));
        }
    }
}
