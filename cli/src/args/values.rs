//! Values that may be typed behind options of several commands.

use clap::ValueEnum;
use fullbore_sys::size::Size;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    Always,
    Never,
}

pub fn size(text: &str) -> Result<u64, fullbore_sys::size::ParseSizeError> {
    text.parse::<Size>().map(|s| s.0)
}

pub fn positive_size(text: &str) -> Result<u64, String> {
    match size(text) {
        Ok(0) => Err("nothing would be moved; use for example 1G".into()),
        other => other.map_err(|e| e.to_string()),
    }
}

pub fn seconds(text: &str) -> Result<f64, &'static str> {
    text.parse()
        .ok()
        .filter(|s: &f64| s.is_finite() && *s > 0.0 && *s <= 86_400.0)
        .ok_or("not a time; use seconds between 0 and 86400, for example 0.5")
}

/// A trial must be long enough for both sides to see its beginning and its end.
pub fn trial_seconds(text: &str) -> Result<f64, &'static str> {
    match seconds(text) {
        Ok(s) if s < 0.01 => Err("too short for a trial; use at least 0.01"),
        other => other,
    }
}

pub fn two_cpus(text: &str) -> Result<(usize, usize), &'static str> {
    let wrong = "not two CPUs; write for example 0,1";
    let (writer, reader) = text.split_once(',').ok_or(wrong)?;
    let number = |text: &str| text.trim().parse().map_err(|_| wrong);
    Ok((number(writer)?, number(reader)?))
}
