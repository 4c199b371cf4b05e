//! What the doctor found, for people.

use std::fmt::Write;

use anstyle::{AnsiColor, Style};
use fullbore_lab::doctor::{Check, Report, State};

use crate::output::table;

const HEAD: Style = Style::new().bold();
const FAINT: Style = Style::new().dimmed();
/// Text begins here, behind state and name.
const INDENT: usize = 36;
const WIDTH: usize = 100;

/// Draws a report, with ANSI styles that the caller may strip.
pub fn draw(report: &Report) -> String {
    let mut out = table::machine(&report.head.machine) + "\n";
    for group in &report.groups {
        let _ = writeln!(out, "\n{HEAD}{}{HEAD:#}", group.title);
        for check in &group.checks {
            draw_check(&mut out, check);
        }
    }
    let counts: Vec<_> = State::ALL
        .into_iter()
        .map(|state| (state, report.checks().filter(|c| c.state == state).count()))
        .filter(|&(_, count)| count > 0)
        .map(|(state, count)| format!("{count} {}", state.word()))
        .collect();
    let verdict = if report.is_usable {
        "Fullbore works here."
    } else {
        "Fullbore cannot work here."
    };
    let _ = writeln!(out, "\n{}. {verdict}", counts.join(", "));
    out
}

fn style(state: State) -> Style {
    match state {
        State::Ok => AnsiColor::Green.on_default(),
        State::Costs => AnsiColor::Yellow.on_default(),
        State::Missing => AnsiColor::Red.on_default(),
        State::Unknown => FAINT,
    }
}

fn draw_check(out: &mut String, check: &Check) {
    let style = style(check.state);
    let found = wrapped(&check.found);
    let _ = writeln!(
        out,
        "  {style}{:<10}{style:#} {:<22} {found}",
        check.state.word(),
        check.id
    );
    let more = [("costs: ", &check.costs), ("change: ", &check.change)];
    for (label, text) in more {
        if let Some(text) = text {
            let text = wrapped(&format!("{label}{text}"));
            // The label after wrapping, so that its style does not count as width.
            let text = text.trim_start_matches(label);
            let _ = writeln!(out, "{:INDENT$}{FAINT}{label}{FAINT:#}{text}", "");
        }
    }
}

/// Breaks text between words; lines after the first are indented.
fn wrapped(text: &str) -> String {
    let mut out = String::new();
    let mut column = 0;
    for word in text.split(' ') {
        let len = word.chars().count();
        if column > 0 && column + 1 + len > WIDTH - INDENT {
            let _ = write!(out, "\n{:INDENT$}", "");
            column = 0;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += len;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_broken_between_words_and_none_is_lost() {
        let text = "a word and another one ".repeat(10);
        let lines = wrapped(text.trim());
        assert!(lines.lines().count() > 2);
        assert!(
            lines
                .lines()
                .all(|l| l.trim().chars().count() <= WIDTH - INDENT)
        );
        let words = |text: &str| {
            text.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(words(&lines), words(&text));
        // What is longer than a line stays whole: it may be a command.
        let long = "x".repeat(200);
        assert_eq!(wrapped(&long), long);
    }
}
