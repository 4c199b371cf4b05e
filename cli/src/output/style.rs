//! The styles of what is printed for people, and the signs that need no colour.

use std::fmt::Write;

use anstyle::{AnsiColor, Style};
use fullbore_lab::stats::Verdict;

pub const PLAIN: Style = Style::new();
pub const HEAD: Style = Style::new().bold();
pub const FAINT: Style = Style::new().dimmed();
pub const BAR: Style = AnsiColor::Cyan.on_default();
pub const GOOD: Style = AnsiColor::Green.on_default();
pub const BAD: Style = AnsiColor::Red.on_default();
pub const WARNING: Style = AnsiColor::Yellow.on_default();

/// The text in this style; nothing stays nothing.
pub fn paint(text: &str, style: Style) -> String {
    if text.is_empty() || style == PLAIN {
        return text.to_owned();
    }
    format!("{style}{text}{style:#}")
}

/// How a verdict is marked.
pub fn mark(verdict: Option<Verdict>) -> (&'static str, Style) {
    match verdict {
        Some(Verdict::Faster) => ("▲", GOOD),
        Some(Verdict::Slower) => ("▼", BAD),
        Some(Verdict::NotDistinguishable) => ("≈", PLAIN),
        None => (" ", PLAIN),
    }
}

/// What every reader should know, one line each.
pub fn warnings(texts: impl IntoIterator<Item = impl std::fmt::Display>) -> String {
    texts.into_iter().fold(String::new(), |mut out, text| {
        let _ = writeln!(out, "{WARNING}warning:{WARNING:#} {text}");
        out
    })
}
