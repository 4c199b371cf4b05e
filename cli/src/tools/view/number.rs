//! Numbers on pv's command line. Pure.

/// A size with an optional fraction and suffix: `1.5G`, `10k`, `256KiB`. Suffixes are powers of 1024, or of 1000 where
/// `decimal` is set (those with `iB` never).
pub fn size(text: &str, decimal: bool) -> Option<u64> {
    let text = text.trim_start_matches([' ', '\t']);
    let split = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == ','))
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(split);
    if !number.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let suffix = suffix.trim_start_matches([' ', '\t']);
    let mut rest = suffix.chars();
    let power = match rest.next().map(|c| c.to_ascii_uppercase()) {
        None => 0,
        Some('K') => 1,
        Some('M') => 2,
        Some('G') => 3,
        Some('T') => 4,
        Some(_) => return None,
    };
    let base: u128 = match rest.as_str() {
        "" if decimal => 1000,
        "" | "iB" => 1024,
        _ => return None,
    };
    let unit = base.pow(power);
    let (whole, fraction) = number.split_once(['.', ',']).unwrap_or((number, ""));
    let whole = u128::from(whole.parse::<u64>().ok()?);
    // More digits than that make no whole byte of a tebibyte.
    let digits = &fraction[..fraction.len().min(15)];
    let numerator: u128 = if digits.is_empty() {
        0
    } else {
        digits.parse().ok()?
    };
    let part = unit * numerator / 10_u128.pow(digits.len() as u32);
    u64::try_from(whole.checked_mul(unit)? + part).ok()
}

/// A number of seconds: `1`, `0.5`, `0,5`.
pub fn seconds(text: &str) -> Option<f64> {
    let text = text.trim_start_matches([' ', '\t']);
    let plain = text
        .bytes()
        .all(|b| b.is_ascii_digit() || b == b'.' || b == b',');
    if !plain || !text.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    text.replace(',', ".").parse().ok()
}

/// A bare whole number.
pub fn count(text: &str) -> Option<u32> {
    let text = text.trim_start_matches([' ', '\t']);
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_are_read_as_pv_reads_them() {
        for (text, bytes) in [
            ("0", 0),
            ("123", 123),
            ("10k", 10 << 10),
            ("1.5G", 3 << 29),
            ("1,5M", 3 << 19),
            ("0.0001K", 0),
            (" 2 T", 2 << 40),
            ("256KiB", 256 << 10),
        ] {
            assert_eq!(size(text, false), Some(bytes), "{text}");
        }
        assert_eq!(size("1.5k", true), Some(1500));
        assert_eq!(size("1KiB", true), Some(1024));
        for text in [
            "",
            "abc",
            "-1",
            "1Q",
            "1.2.3",
            ".5",
            "1KB",
            "99999999T",
            "18446744073709551616",
        ] {
            assert_eq!(size(text, false), None, "{text}");
        }
    }

    #[test]
    fn seconds_and_counts_are_plain_numbers() {
        assert_eq!(seconds("0.5"), Some(0.5));
        assert_eq!(seconds("2,25"), Some(2.25));
        for text in ["", "-1", "x", "1e3", "inf", "1.2.3"] {
            assert_eq!(seconds(text), None, "{text}");
        }
        assert_eq!(count("80"), Some(80));
        assert_eq!(count("99999999999"), Some(u32::MAX));
        for text in ["", "8.0", "-8", "8k"] {
            assert_eq!(count(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[ 0-9.,kKMGTiB-]{0,30}", decimal: bool) {
            let _ = size(&text, decimal);
            let _ = seconds(&text);
            let _ = count(&text);
        }
    }
}
