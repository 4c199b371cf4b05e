//! A comparison as a table, for people. Whatever comes from a file is escaped.

use std::fmt::Write;

use anstyle::Style;
use fullbore_lab::compare::{
    Against, ComparedRow, Comparison, Difference, Figure, GroupSummary, Unit,
};
use fullbore_lab::show::escape::{shown, visible};
use fullbore_lab::show::number::{maybe, number, times, when};
use fullbore_lab::stats::{Estimate, Verdict};

use crate::output::style::{HEAD, mark, paint, warnings};
use crate::output::table::Table;

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
            let _ = writeln!(out, "{}", values(difference, &comparison.groups));
        }
    }
    for against in &comparison.comparisons {
        out.push_str(&table(against));
    }
    let _ = writeln!(out, "\n{}", footnote(comparison));
    if !comparison.warnings.is_empty() {
        out.push('\n');
    }
    out + &warnings(comparison.warnings.iter().map(|w| visible(w)))
}

fn who(group: &GroupSummary) -> String {
    let when = match group.started_unix_s[..] {
        [one] => when(one),
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
fn values(difference: &Difference, groups: &[GroupSummary]) -> String {
    let mut values: Vec<(&str, Vec<&str>)> = Vec::new();
    for (value, group) in difference.values.iter().zip(groups) {
        match values.iter_mut().find(|(v, _)| v == value) {
            Some((_, letters)) => letters.push(&group.letter),
            None => values.push((value, vec![&group.letter])),
        }
    }
    let values: Vec<_> = values
        .into_iter()
        .map(|(value, letters)| format!("{} {}", letters.join(", "), shown(value)))
        .collect();
    format!("  {}: {}", shown(&difference.what), values.join(" · "))
}

fn table(against: &Against) -> String {
    let b = &against.letter;
    let ratio = format!(">{b} / A");
    let titles = [
        &format!("{b} against A"),
        "state",
        ">A",
        &format!(">{b}"),
        &ratio,
        "95 % interval",
        "",
        ">× first A",
        &format!(">{b}"),
        &ratio,
    ];
    let mut table = Table::new(titles);
    // What one side never measured, in whatever state, is no line of a comparison.
    let has = |id: &str, side: fn(&ComparedRow) -> &Option<Figure>| {
        let mut rows = against.rows.iter().filter(|r| r.id == id);
        rows.any(|r| side(r).is_some())
    };
    let (mut only_a, mut only_b) = (Vec::new(), Vec::new());
    for row in &against.rows {
        let only = match (has(&row.id, |r| &r.base), has(&row.id, |r| &r.other)) {
            (true, false) => &mut only_a,
            (false, true) => &mut only_b,
            _ => {
                table.row(cells(row));
                continue;
            }
        };
        let name = shown(&row.id);
        if !only.contains(&name) {
            only.push(name);
        }
    }
    let mut out = format!("\n{}", table.draw());
    for (letter, only) in [("A", only_a), (&**b, only_b)] {
        if !only.is_empty() {
            let _ = writeln!(out, "only in {letter}: {}", only.join(", "));
        }
    }
    out
}

/// With the unit, where it is not the usual one.
fn name(row: &ComparedRow) -> String {
    let unit = match row.unit {
        Unit::GibPerS => "",
        Unit::Us => ", µs",
    };
    shown(&row.id) + unit
}

fn cells(row: &ComparedRow) -> [String; 10] {
    let value = |f: &Option<Figure>| maybe(f.as_ref().map(|f| f.value.median));
    let ratio = row.ratio.map_or(String::new(), |r| times(r.median));
    let interval = match row.ratio {
        Some(Estimate {
            ci95: [low, high], ..
        }) => format!("{}–{}", number(low), number(high)),
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
        let (mark, style) = mark(row.verdict_inside);
        paint(&format!("{} {mark}", times(r.median)), style)
    });
    [
        name(row),
        row.state.to_string(),
        value(&row.base),
        value(&row.other),
        paint(&ratio, style),
        interval,
        paint(words.trim_end(), style),
        first(&row.base),
        first(&row.other),
        inside,
    ]
}

fn judged(verdict: Option<Verdict>, ratio: Option<Estimate>) -> (String, Style) {
    let clear = ratio.is_some_and(|r| r.ci95[0] > 1.0 || r.ci95[1] < 1.0);
    let word = match verdict {
        Some(Verdict::Faster) => "faster",
        Some(Verdict::Slower) => "slower",
        // The trials agree, but so few of them may by chance.
        Some(Verdict::NotDistinguishable) if clear => "too few",
        Some(Verdict::NotDistinguishable) => "noise",
        None => "",
    };
    let (mark, style) = mark(verdict);
    (format!("{mark} {word}"), style)
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
         comes from both runs' trials, resampled. The intervals are simultaneous: identical runs show a difference in\n\
         about 5 % of comparisons. ≈ where noise explains the difference, or trials are too few. × first: ratio to the\n\
         first line inside each run, round by round, and how that changed: what slows a whole run down (another day,\n\
         another machine) cancels out of it.{of_groups}"
    )
}
