//! Values that may be typed behind options of several commands.

use std::error::Error;
use std::str::FromStr;

use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use fullbore_lab::saved::load::Kind;
use fullbore_lab::worker::config::{ReadWith, WriteWith};
use fullbore_sys::pages::PageKind;
use fullbore_sys::size::Size;
use fullbore_sys::wait::Wait;

/// Names, each with a line of help.
type Names<const N: usize> = [(&'static str, &'static str); N];

const WRITE_METHODS: Names<8> = [
    ("write", "write(2)"),
    ("vmsplice", "vmsplice(2) of two buffers in turn"),
    (
        "reuse",
        "Copy into memory that is lent and written again; sound for readers that copy",
    ),
    ("fresh", "Copy into huge pages that are lent and abandoned"),
    ("fat", "Copy into a socket and splice from there"),
    (
        "cow",
        "Copy into huge pages that are lent, and written again once they are copy-on-write",
    ),
    ("auto", "The library's own choice among its methods"),
    ("tee", "Constant data by tee(2) from a second pipe"),
];
const READ_METHODS: Names<3> = [
    ("read", "read(2)"),
    ("splice", "splice(2) to /dev/null"),
    (
        "relay",
        "Splice whole slots into a private pipe, dropped there",
    ),
];
const PAGES: Names<3> = [
    ("small", "Pages of the base size"),
    ("huge", "Transparent huge pages"),
    ("hugetlb", "Reserved huge pages"),
];
const WAITS: Names<5> = [
    ("block", "Sleep inside the call"),
    ("poll", "poll(2), then a call that may block"),
    ("spin", "Repeat the call"),
    ("poll-spin", "poll(2) without sleeping until ready"),
    ("adaptive", "Spin while that pays, then sleep"),
];
pub fn write_method() -> impl TypedValueParser<Value = WriteWith> {
    one_of(WRITE_METHODS)
}

pub fn read_method() -> impl TypedValueParser<Value = ReadWith> {
    one_of(READ_METHODS)
}

/// A write method or a read method.
pub fn method() -> PossibleValuesParser {
    let names = WRITE_METHODS.into_iter().chain(READ_METHODS);
    names.map(|(name, _)| PossibleValue::new(name)).into()
}

pub fn pages() -> impl TypedValueParser<Value = PageKind> {
    one_of(PAGES)
}

pub fn wait() -> impl TypedValueParser<Value = Wait> {
    one_of(WAITS)
}

pub fn kind() -> impl TypedValueParser<Value = Kind> {
    let names = Kind::ALL.map(|(kind, _)| kind.to_string());
    PossibleValuesParser::new(names).try_map(|name| name.parse())
}

/// Takes one of these names, and lets help, errors and completions know them.
fn one_of<T, E, const N: usize>(names: Names<N>) -> impl TypedValueParser<Value = T>
where
    T: FromStr<Err = E> + Clone + Send + Sync + 'static,
    E: Into<Box<dyn Error + Send + Sync>>,
{
    let value = |(name, help)| PossibleValue::new(name).help(help);
    PossibleValuesParser::new(names.map(value)).try_map(|name| name.parse())
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_the_lab_knows() {
        let names = |of: &[(&'static str, &str)]| of.iter().map(|n| n.0).collect::<Vec<_>>();
        assert_eq!(names(&WRITE_METHODS), WriteWith::ALL.map(|m| m.1));
        assert_eq!(names(&READ_METHODS), ReadWith::ALL.map(|m| m.1));
        assert_eq!(names(&PAGES), PageKind::ALL.map(|p| p.to_string()));
        assert_eq!(names(&WAITS), Wait::ALL.map(|w| w.to_string()));
    }
}
