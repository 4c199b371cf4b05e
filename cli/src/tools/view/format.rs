//! Format strings: what pv's display is made of. Parsed once, rendered at every update. Pure.

use super::bar::Style;

/// A part of a format string.
#[derive(Clone, Debug, PartialEq)]
pub enum FormatPiece {
    /// Shown as it is.
    Text(String),
    /// Shown by its meaning, in so many columns (0: as many as it needs).
    Part(Part, usize),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// Bar with sides and percentage.
    Progress,
    /// The percentage alone, or the highest rate.
    Amount,
    /// The bar alone, in a style or in the one that was chosen.
    Bar(Option<Style>),
    Timer,
    Eta,
    FinishTime,
    Rate,
    AverageRate,
    Bytes,
    /// Of the two sides of a monitored command, of which there is none.
    Ratio,
    BufferPercent,
    LastWritten,
    PreviousLine,
    Name,
    /// Colours, as names or numbers with commas.
    Colour(String),
}

impl Part {
    /// Whether it takes the columns that the others leave.
    pub fn fills(&self) -> bool {
        matches!(self, Self::Progress | Self::Bar(_) | Self::PreviousLine)
    }

    /// Whether the bytes themselves must be seen for it.
    pub fn shows_data(&self) -> bool {
        matches!(self, Self::LastWritten | Self::PreviousLine)
    }

    fn of_letter(letter: char) -> Option<Self> {
        Some(match letter {
            'p' => Self::Progress,
            't' => Self::Timer,
            'e' => Self::Eta,
            'I' => Self::FinishTime,
            'r' => Self::Rate,
            'a' => Self::AverageRate,
            'b' => Self::Bytes,
            'T' => Self::BufferPercent,
            'A' => Self::LastWritten,
            'L' => Self::PreviousLine,
            'N' => Self::Name,
            _ => return None,
        })
    }

    fn of_name(name: &str) -> Option<Self> {
        if let Some(colours) = name.strip_prefix("sgr:") {
            return Some(Self::Colour(colours.to_owned()));
        }
        Some(match name {
            "progress" => Self::Progress,
            "progress-amount-only" => Self::Amount,
            "progress-bar-only" => Self::Bar(None),
            "bar-plain" => Self::Bar(Some(Style::Plain)),
            "bar-block" => Self::Bar(Some(Style::Block)),
            "bar-granular" => Self::Bar(Some(Style::Granular)),
            "bar-shaded" => Self::Bar(Some(Style::Shaded)),
            "timer" => Self::Timer,
            "eta" => Self::Eta,
            "fineta" => Self::FinishTime,
            "rate" => Self::Rate,
            "average-rate" => Self::AverageRate,
            "bytes" | "transferred" => Self::Bytes,
            "ratio" => Self::Ratio,
            "buffer-percent" => Self::BufferPercent,
            "last-written" => Self::LastWritten,
            "previous-line" => Self::PreviousLine,
            "name" => Self::Name,
            _ => return None,
        })
    }
}

/// Columns that may be asked for at most.
const WIDEST: usize = 65_535;

/// Splits a format string. What is unknown after a `%` is shown as it is; `%%` is `%`.
pub fn parse(format: &str) -> Vec<FormatPiece> {
    let mut pieces = Vec::new();
    let mut text = String::new();
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        let (part, len) = sequence(&rest[1..]);
        let taken = &rest[..1 + len];
        rest = &rest[1 + len..];
        match part {
            Some(part) => {
                if !text.is_empty() {
                    pieces.push(FormatPiece::Text(std::mem::take(&mut text)));
                }
                pieces.push(part);
            }
            None if taken == "%%" => text.push('%'),
            None => text.push_str(taken),
        }
    }
    text.push_str(rest);
    if !text.is_empty() {
        pieces.push(FormatPiece::Text(text));
    }
    pieces
}

/// What follows a `%`: what it means, if anything, and how long it is.
fn sequence(after: &str) -> (Option<FormatPiece>, usize) {
    let digits = after.bytes().take_while(u8::is_ascii_digit).count();
    let columns = match &after[..digits] {
        "" => 0,
        number => number.parse().map_or(WIDEST, |n: usize| n.min(WIDEST)),
    };
    let rest = &after[digits..];
    if let Some(inner) = rest.strip_prefix('{') {
        let len = inner.find(['}', '%']).unwrap_or(inner.len());
        let closed = inner[len..].starts_with('}');
        let part = if closed {
            Part::of_name(&inner[..len])
        } else {
            None
        };
        return (
            part.map(|part| FormatPiece::Part(part, columns)),
            digits + 1 + len + usize::from(closed),
        );
    }
    let letter = rest.chars().next();
    let part = letter.and_then(Part::of_letter);
    (
        part.map(|part| FormatPiece::Part(part, columns)),
        digits + letter.map_or(0, char::len_utf8),
    )
}

/// Terminal codes of a list of colours: `green,bold`, `bg-red`, `1,32`. Unknown names are left out.
pub fn colour_codes(list: &str) -> String {
    let codes: Vec<String> = list.split(',').filter_map(colour_code).collect();
    if codes.is_empty() {
        return String::new();
    }
    format!("\x1b[{}m", codes.join(";"))
}

fn colour_code(name: &str) -> Option<String> {
    if !name.is_empty() && name.bytes().all(|b| b.is_ascii_digit()) {
        return Some(name.to_owned());
    }
    let (name, base) = match name.strip_prefix("bg-") {
        Some(name) => (name, 40),
        None => (name.strip_prefix("fg-").unwrap_or(name), 30),
    };
    let colours = [
        "black", "red", "green", "brown", "blue", "magenta", "cyan", "white",
    ];
    let code = match name {
        "reset" | "none" => 0,
        "bold" => 1,
        "dim" => 2,
        "italic" => 3,
        "underscore" | "underline" => 4,
        "blink" => 5,
        "reverse" => 7,
        "no-bold" | "no-dim" => 22,
        "no-italic" => 23,
        "no-underscore" | "no-underline" => 24,
        "no-blink" => 25,
        "no-reverse" => 27,
        "yellow" => base + 3,
        "default" => base + 9,
        _ => base + colours.iter().position(|c| *c == name)?,
    };
    Some(code.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(text: &str) -> FormatPiece {
        FormatPiece::Text(text.into())
    }

    #[test]
    fn sequences_numbers_and_text_are_told_apart() {
        assert_eq!(
            parse("%N %20p:%{rate}%%"),
            [
                FormatPiece::Part(Part::Name, 0),
                text(" "),
                FormatPiece::Part(Part::Progress, 20),
                text(":"),
                FormatPiece::Part(Part::Rate, 0),
                text("%"),
            ]
        );
        assert_eq!(parse("%16A"), [FormatPiece::Part(Part::LastWritten, 16)]);
        assert_eq!(
            parse("%{sgr:green,bold}x"),
            [
                FormatPiece::Part(Part::Colour("green,bold".into()), 0),
                text("x")
            ]
        );
    }

    #[test]
    fn unknown_sequences_are_shown_as_they_are() {
        for format in ["%z", "%{nothing}", "100%", "%{foo", "%5", "%{sgr", "ü%ü"] {
            assert_eq!(parse(format), [text(format)], "{format}");
        }
        assert_eq!(
            parse("%{foo%p"),
            [text("%{foo"), FormatPiece::Part(Part::Progress, 0)]
        );
        assert_eq!(parse(""), []);
    }

    #[test]
    fn colours_have_names_and_numbers() {
        assert_eq!(colour_codes("green,bold"), "\x1b[32;1m");
        assert_eq!(colour_codes("bg-yellow,fg-default,7"), "\x1b[43;39;7m");
        assert_eq!(colour_codes("reset"), "\x1b[0m");
        assert_eq!(colour_codes("pink"), "");
    }

    proptest! {
        #[test]
        fn any_format_is_parsed_and_keeps_its_text(format in ".{0,20}") {
            let _ = parse(&format);
            let plain = format.replace('%', "");
            prop_assert_eq!(parse(&plain).len(), usize::from(!plain.is_empty()));
        }
    }
}
