//! Numbers, sizes, counts and times.

use fullbore_sys::size::Size;

/// Three digits, no more than four behind the point, and an exponent where they would stand in a long row of zeros.
pub fn number(value: f64) -> String {
    match value.abs() {
        v if v.is_nan() => "–".into(),
        0.0 => "0".into(),
        v if !(1e-3..1e7).contains(&v) => format!("{value:.2e}"),
        v => format!("{value:.*}", decimals(v)),
    }
}

/// Two digits, where there is little room.
pub fn two_digits(value: f64) -> String {
    format!("{value:.*}", decimals(10.0 * value.abs()).min(2))
}

/// Digits behind the point, so that 99.97 becomes 100 and not 100.0.
fn decimals(size: f64) -> usize {
    match size {
        99.95.. => 0,
        9.995.. => 1,
        0.0995.. => 2,
        0.00995.. => 3,
        _ => 4,
    }
}

/// The number, or a dash.
pub fn maybe(value: Option<f64>) -> String {
    value.map_or_else(|| "–".into(), number)
}

/// A factor: `×1.25`.
pub fn times(ratio: f64) -> String {
    match ratio {
        r if r < 100.0 => format!("×{r:.2}"),
        r => format!("×{r:.0}"),
    }
}

/// One word with a plural.
pub fn count(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

/// A size as it is typed: `64K`.
pub fn typed_size(bytes: u64) -> String {
    let text = Size(bytes).to_string();
    let short = text.strip_suffix("iB").or_else(|| text.strip_suffix('B'));
    short.unwrap_or(&text).into()
}

/// An amount of memory, to a tenth of a GiB: what a kernel keeps for itself differs by some KiB from boot to boot.
pub fn memory(bytes: u64) -> String {
    format!("{:.1}GiB", bytes as f64 / (1u64 << 30) as f64)
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_stay_short_whatever_they_are() {
        for (value, text) in [
            (0.0, "0"),
            (0.0123, "0.012"),
            (0.665, "0.67"),
            (3.714, "3.71"),
            (9.996, "10.0"),
            (62.49, "62.5"),
            (99.97, "100"),
            (5732.1, "5732"),
            (1e308, "1.00e308"),
            (-12.0, "-12.0"),
            (f64::NAN, "–"),
            (f64::INFINITY, "inf"),
            (f64::MIN_POSITIVE, "2.23e-308"),
        ] {
            assert_eq!(number(value), text);
        }
        assert_eq!([0.312, 3.12, 9.998].map(two_digits), ["0.31", "3.1", "10"]);
    }

    proptest! {
        #[test]
        fn any_number_is_at_most_ten_characters(value in any::<f64>()) {
            prop_assert!(number(value).chars().count() <= 10, "{}", number(value));
        }
    }
}
