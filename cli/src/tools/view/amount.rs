//! Amounts and times as pv writes them. Pure.

/// What is counted, and by which powers it is abbreviated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Powers of 1024: `KiB`.
    Bytes,
    /// Powers of 1000: `kB` (`--si`).
    DecimalBytes,
    /// Powers of 1000: `k`.
    Lines,
}

/// Prefixes from the smallest to the largest; the blank in the middle is none.
const DECIMAL: [char; 17] = [
    'y', 'z', 'a', 'f', 'p', 'n', 'u', 'm', ' ', 'k', 'M', 'G', 'T', 'P', 'E', 'Z', 'Y',
];
const BINARY: [char; 17] = [
    'y', 'z', 'a', 'f', 'p', 'n', 'u', 'm', ' ', 'K', 'M', 'G', 'T', 'P', 'E', 'Z', 'Y',
];
const NONE: usize = 8;

/// An amount in four characters, its prefix, and `suffix` (or `of_lines` for lines): `9.54MiB`, `12.0 `, ` 150kB`.
pub fn amount(value: f64, unit: Unit, of_lines: &str, suffix: &str) -> String {
    let (base, prefixes, suffix) = match unit {
        Unit::Bytes => (1024.0, BINARY, suffix),
        Unit::DecimalBytes => (1000.0, DECIMAL, suffix),
        Unit::Lines => (1000.0, DECIMAL, of_lines),
    };
    let mut value = value;
    let mut at = NONE;
    if value.abs() < 1e-8 {
        value = 0.0;
    } else {
        // Rounding errors of a division must not leave a large number before the prefix below: so a little early, and
        // back where that was too early.
        while value.abs() > base * 0.97 && at + 1 < prefixes.len() {
            value /= base;
            at += 1;
        }
        while value.abs() < 1.0 && at > 0 {
            value *= base;
            at -= 1;
        }
    }
    let prefix = prefixes[at];
    let prefix = match (unit, prefix) {
        (Unit::Bytes, ' ') => "  ".to_owned(),
        (Unit::Bytes, p) => format!("{p}i"),
        (_, p) => p.to_string(),
    };
    let value = value.clamp(-100_000.0, 100_000.0);
    format!("{}{prefix}{suffix}", digits(value))
}

/// Three digits and a point, or four places without one.
fn digits(value: f64) -> String {
    let size = value.abs();
    if size > 99.9 {
        return format!("{:4}", value.trunc());
    }
    // Rounding may add a digit: 9.996 is 10.0.
    let places = match size {
        s if s < 9.995 => 2,
        s if s < 99.95 => 1,
        _ => 0,
    };
    let text = format!("{value:.places$}");
    if places == 0 { text + "." } else { text }
}

/// Hours, minutes and seconds, and days where there is more than one: `0:01:05`, `1:02:03:04`.
pub fn clock(seconds: f64) -> String {
    // Beyond 100,000 hours the clock stands still.
    let s = seconds.clamp(0.0, 360_000_000.0);
    let whole = s as u64;
    let (h, m, sec) = (whole / 3600, whole / 60 % 60, whole % 60);
    if s > 86_400.0 {
        format!("{}:{:02}:{m:02}:{sec:02}", whole / 86_400, h % 24)
    } else {
        format!("{h}:{m:02}:{sec:02}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_pv_s_strings() {
        for (value, text) in [
            (0.0, "0.00  B"),
            (1.0, "1.00  B"),
            (42.0, "42.0  B"),
            (100.0, " 100  B"),
            (993.0, " 993  B"),
            (1023.0, "1023  B"),
            (1024.0, "1.00KiB"),
            (10_000_000.0, "9.54MiB"),
            (104_857_600.0, " 100MiB"),
            (1_063_256_064.0, "1014MiB"),
            (1_073_741_824.0, "1.00GiB"),
            (0.5, " 512miB"),
        ] {
            assert_eq!(amount(value, Unit::Bytes, "", "B"), text, "{value}");
        }
        assert_eq!(amount(1000.0, Unit::DecimalBytes, "", "B"), "1.00kB");
        assert_eq!(amount(12.0, Unit::DecimalBytes, "", "B"), "12.0 B");
        assert_eq!(amount(12.0, Unit::Lines, "/s", "B/s"), "12.0 /s");
        assert_eq!(amount(123_456.0, Unit::Lines, "", "B"), " 123k");
        assert_eq!(amount(9.996, Unit::Lines, "", "B"), "10.0 ");
    }

    #[test]
    fn clock_counts_days_after_the_first() {
        assert_eq!(clock(0.99), "0:00:00");
        assert_eq!(clock(3_725.0), "1:02:05");
        assert_eq!(clock(86_400.0), "24:00:00");
        assert_eq!(clock(93_784.0), "1:02:03:04");
        assert_eq!(clock(-1.0), "0:00:00");
    }
}
