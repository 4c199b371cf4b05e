//! A comparison as a table, for people. Whatever comes from a file is escaped.

use std::fmt::Write;

use anstyle::{AnsiColor, Style};
use fullbore_lab::compare::{Against, Comparison, Difference, Figure, GroupSummary, Row, Unit};
use fullbore_lab::saved::load::shown;
use fullbore_lab::stats::{Estimate, Verdict};

use crate::output::table::short;

const HEAD: Style = Style::new().bold();
const BETTER: Style = AnsiColor::Green.on_default();
const WORSE: Style = AnsiColor::Red.on_default();
const WARNING: Style = AnsiColor::Yellow.on_default();

/// Draws a comparison, with ANSI styles that the caller may strip.
pub fn draw(comparison: &Comparison) -> String {
    let mut out = String::new();
    for group in &comparison.groups {
        let _ = writeln!(out, "{}", who(group));
    }
    if comparison.differences.is_empty() {
        out.push_str("\nMachines and methods are the same, as far as the runs say.\n");
    } else {
        let _ = writeln!(out, "\n{HEAD}What differs{HEAD:#}");
        for difference in &comparison.differences {
            let _ = writeln!(out, "{}", told(difference, &comparison.groups));
        }
    }
    for against in &comparison.comparisons {
        out.push_str(&table(against));
    }
    let _ = writeln!(out, "\n{}", footnote(comparison));
    if !comparison.warnings.is_empty() {
        out.push('\n');
    }
    for warning in &comparison.warnings {
        let _ = writeln!(out, "{WARNING}warning:{WARNING:#} {}", shown_long(warning));
    }
    out
}

fn who(group: &GroupSummary) -> String {
    let when = match group.started_unix_s[..] {
        [one] => i64::try_from(one)
            .ok()
            .and_then(|s| jiff::Timestamp::from_second(s).ok())
            .map_or("at an unknown time".into(), |t| {
                t.strftime("%Y-%m-%d %H:%M UTC").to_string()
            }),
        _ => format!("{} runs", group.runs),
    };
    let labels: Vec<_> = group.labels.iter().map(|l| shown(l)).collect();
    let labels = match labels[..] {
        [] => String::new(),
        _ => format!(" ({})", labels.join("; ")),
    };
    let (name, machine) = (shown(&group.name), shown(&group.machine));
    if name == machine {
        format!("{HEAD}{}{HEAD:#}  {name}, {when}{labels}", group.letter)
    } else {
        format!(
            "{HEAD}{}{HEAD:#}  {name}: {machine}, {when}{labels}",
            group.letter
        )
    }
}

/// `kernel: A, C 6.18 · B 6.19`.
fn told(difference: &Difference, groups: &[GroupSummary]) -> String {
    let mut told: Vec<(&str, Vec<&str>)> = Vec::new();
    for (value, group) in difference.values.iter().zip(groups) {
        match told.iter_mut().find(|(v, _)| v == value) {
            Some((_, letters)) => letters.push(&group.letter),
            None => told.push((value, vec![&group.letter])),
        }
    }
    let told: Vec<_> = told
        .into_iter()
        .map(|(value, letters)| format!("{} {}", letters.join(", "), shown(value)))
        .collect();
    format!("  {}: {}", shown(&difference.what), told.join(" · "))
}

fn table(against: &Against) -> String {
    let b = &against.letter;
    let names = against.rows.iter().map(|r| name(r).chars().count());
    let wide = names.max().unwrap_or(0).clamp(12, 32);
    let title = format!("{b} against A");
    let ratio = format!("{b} / A");
    let mut out = format!(
        "\n{HEAD}{title:<wide$} {:<7} {:>7} {:>7} {ratio:>7}  {:<13} {:<9} {:>9} {:>7} {ratio:>9}{HEAD:#}\n",
        "state", "A", b, "95 % interval", "", "× first A", b,
    );
    // What one side never measured, in whatever state, is no line of a comparison.
    let has = |id: &str, side: fn(&Row) -> &Option<Figure>| {
        let mut rows = against.rows.iter().filter(|r| r.id == id);
        rows.any(|r| side(r).is_some())
    };
    let (mut only_a, mut only_b) = (Vec::new(), Vec::new());
    for row in &against.rows {
        let only = match (has(&row.id, |r| &r.base), has(&row.id, |r| &r.other)) {
            (true, false) => &mut only_a,
            (false, true) => &mut only_b,
            _ => {
                let _ = writeln!(out, "{}", line(row, wide));
                continue;
            }
        };
        let name = shown(&row.id);
        if !only.contains(&name) {
            only.push(name);
        }
    }
    for (letter, only) in [("A", only_a), (&**b, only_b)] {
        if !only.is_empty() {
            let _ = writeln!(out, "only in {letter}: {}", only.join(", "));
        }
    }
    out
}

/// With the unit, where it is not the usual one.
fn name(row: &Row) -> String {
    let unit = match row.unit {
        Unit::GibPerS => "",
        Unit::Us => ", µs",
    };
    shown(&row.id) + unit
}

fn line(row: &Row, wide: usize) -> String {
    let value = |f: &Option<Figure>| f.as_ref().map_or("–".into(), |f| short(f.value.median));
    let ratio = row.ratio.map_or(String::new(), |r| times(r.median));
    let interval = match row.ratio {
        Some(Estimate {
            ci95: [low, high], ..
        }) => format!("{}–{}", short(low), short(high)),
        None => match (&row.base, &row.other) {
            (Some(_), None) => "only in A".into(),
            (None, Some(_)) => "not in A".into(),
            _ => "no ratio".into(),
        },
    };
    let (words, style) = judged(row.verdict, row.ratio);
    // Inside each run, against its first line.
    let first = |f: &Option<Figure>| {
        let ratio = f.as_ref().and_then(|f| f.to_first);
        ratio.map_or(String::new(), |r| times(r.median))
    };
    let inside = row.ratio_of_ratios.map_or(String::new(), |r| {
        format!("{} {}", times(r.median), mark(row.verdict_inside))
    });
    let (_, inside_style) = judged(row.verdict_inside, row.ratio_of_ratios);
    let name = name(row);
    format!(
        "{name:<wide$} {:<7} {:>7} {:>7} {style}{ratio:>7}{style:#}  {interval:<13} {style}{words:<9}{style:#} {:>9} {:>7} {inside_style}{inside:>9}{inside_style:#}",
        row.state.to_string(),
        value(&row.base),
        value(&row.other),
        first(&row.base),
        first(&row.other),
    )
    .trim_end()
    .to_owned()
}

fn times(ratio: f64) -> String {
    if ratio < 100.0 {
        format!("×{ratio:.2}")
    } else {
        format!("×{ratio:.0}")
    }
}

fn mark(verdict: Option<Verdict>) -> &'static str {
    match verdict {
        Some(Verdict::Faster) => "▲",
        Some(Verdict::Slower) => "▼",
        Some(Verdict::NotDistinguishable) => "≈",
        None => " ",
    }
}

fn judged(verdict: Option<Verdict>, ratio: Option<Estimate>) -> (String, Style) {
    let clear = ratio.is_some_and(|r| r.ci95[0] > 1.0 || r.ci95[1] < 1.0);
    let (word, style) = match verdict {
        Some(Verdict::Faster) => ("faster", BETTER),
        Some(Verdict::Slower) => ("slower", WORSE),
        // The trials agree, but so few of them may by chance.
        Some(Verdict::NotDistinguishable) if clear => ("too few", Style::new()),
        Some(Verdict::NotDistinguishable) => ("noise", Style::new()),
        None => ("", Style::new()),
    };
    (format!("{} {word}", mark(verdict)), style)
}

fn footnote(comparison: &Comparison) -> String {
    let several = comparison.groups.iter().any(|g| g.runs > 1);
    let of_groups = if several {
        "\nOf a group of runs: the median of the runs' medians; runs count, not trials."
    } else {
        ""
    };
    format!(
        "GiB/s, medians. Ratios are of speeds: above 1 is faster. Trials of two runs are not paired: the interval\n\
         comes from both runs' trials drawn anew, and holds for all lines at once. ≈ where noise explains the\n\
         difference, or trials are too few. × first: ratio to the first line inside each run, round by round, and\n\
         how that changed: what slows a whole run down (another day, another machine) cancels out of it.{of_groups}"
    )
}

/// Escaped, and not cut: a warning is ours, but for a few words.
fn shown_long(text: &str) -> String {
    let words: Vec<_> = text.split(' ').map(shown).collect();
    words.join(" ")
}
