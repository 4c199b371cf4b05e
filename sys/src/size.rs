//! Sizes in bytes, as people write and read them: powers of 1024, `4096`, `256K`, `1MiB`.

use std::fmt;
use std::str::FromStr;

/// A number of bytes. Displays in the largest unit that divides it: `256KiB`, `10GiB`, `5001B`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Size(pub u64);

const UNITS: [(char, u32); 4] = [('T', 40), ('G', 30), ('M', 20), ('K', 10)];

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, shift) in UNITS {
            if self.0 != 0 && self.0 & ((1 << shift) - 1) == 0 {
                return write!(f, "{}{unit}iB", self.0 >> shift);
            }
        }
        write!(f, "{}B", self.0)
    }
}

/// Why a text is not a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseSizeError {
    /// It does not begin with a whole number.
    NoNumber,
    /// What follows the number is no unit.
    Unit,
    /// More than 2⁶⁴ − 1 bytes.
    TooLarge,
}

impl fmt::Display for ParseSizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoNumber => "not a whole number of bytes; write for example 4096, 256K or 1M",
            Self::Unit => "unknown unit; use K, M, G or T (or KiB, MiB, GiB, TiB), powers of 1024",
            Self::TooLarge => "larger than a 64-bit size; use a smaller one",
        })
    }
}

impl std::error::Error for ParseSizeError {}

impl FromStr for Size {
    type Err = ParseSizeError;

    fn from_str(text: &str) -> Result<Self, ParseSizeError> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        if number.is_empty() {
            return Err(ParseSizeError::NoNumber);
        }
        let number: u64 = number.parse().map_err(|_| ParseSizeError::TooLarge)?;
        let shift = if unit.is_empty() || unit == "B" {
            0
        } else {
            UNITS
                .iter()
                .find(|(c, _)| {
                    unit.strip_prefix([*c, c.to_ascii_lowercase()])
                        .is_some_and(|rest| rest.is_empty() || rest == "iB")
                })
                .map(|&(_, shift)| shift)
                .ok_or(ParseSizeError::Unit)?
        };
        number
            .checked_mul(1 << shift)
            .map(Size)
            .ok_or(ParseSizeError::TooLarge)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn accepts_every_spelling_of_a_quarter_mebibyte() {
        for text in ["262144", "262144B", "256K", "256k", "256KiB"] {
            assert_eq!(text.parse(), Ok(Size(262_144)), "{text}");
        }
    }

    #[test]
    fn refuses_what_is_not_a_size() {
        for (text, why) in [
            ("", ParseSizeError::NoNumber),
            ("-1", ParseSizeError::NoNumber),
            ("K", ParseSizeError::NoNumber),
            ("1.5M", ParseSizeError::Unit),
            ("1MB", ParseSizeError::Unit),
            ("12Q", ParseSizeError::Unit),
            ("16777216T", ParseSizeError::TooLarge),
            ("99999999999999999999", ParseSizeError::TooLarge),
        ] {
            assert_eq!(text.parse::<Size>(), Err(why), "{text}");
        }
    }

    proptest! {
        #[test]
        fn displayed_size_parses_back(bytes: u64) {
            prop_assert_eq!(Size(bytes).to_string().parse(), Ok(Size(bytes)));
        }

        #[test]
        fn any_text_is_parsed_or_refused_without_panic(text in ".{0,12}") {
            let _ = text.parse::<Size>();
        }
    }
}
