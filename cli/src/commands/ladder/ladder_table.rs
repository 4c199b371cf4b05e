//! The ladder as a table with bars, for people.

use std::fmt::Write;

use fullbore_lab::ladder::run::{Run, RungResult};
use fullbore_lab::report::{in_words, machine_line};
use fullbore_lab::show::number::{number, times};
use fullbore_lab::show::wrap::{columns, wrap};
use fullbore_lab::worker::timing::Until;

use crate::output::conditions::place;
use crate::output::style::{BAR, FAINT, HEAD, mark, paint, warnings};
use crate::output::table::Table;

/// Columns of the longest bar, at most and at least.
const MOST_BAR: usize = 24;
const LEAST_BAR: usize = 6;
/// Blanks between columns.
const GAP: usize = 2;

/// Draws a run, with ANSI styles that the caller may strip.
pub fn draw(run: &Run, width: usize) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{}\n", headline(run));
    out += &rows(run.rungs.iter().map(|r| &r.main), false, width);
    let _ = writeln!(out, "\n{}", footnote(run, width));
    for (state, apart) in run.apart() {
        let _ = writeln!(
            out,
            "\n{FAINT}Apart, never pooled with the above: trials {}{FAINT:#}",
            in_words(state)
        );
        out += &rows(apart.into_iter(), true, width);
    }
    let doubts = run.rungs.iter().flat_map(|r| {
        let why = r.refused.iter().chain(&r.warnings);
        why.map(move |w| format!("{}: {w}", r.id))
    });
    match warnings(run.warnings.iter().cloned().chain(doubts)) {
        none if none.is_empty() => out,
        warnings => out + "\n" + &warnings,
    }
}

/// One table within so many columns: where there is room with the names of baselines, and with bars, which are scaled to its
/// fastest.
fn rows<'a>(
    results: impl Iterator<Item = &'a RungResult> + Clone,
    is_apart: bool,
    width: usize,
) -> String {
    let whole = table(results.clone(), is_apart, true, 0).draw();
    let taken = whole.lines().map(columns).max().unwrap_or(0);
    match width.checked_sub(taken) {
        Some(room) if room >= GAP + LEAST_BAR => {
            table(results, is_apart, true, MOST_BAR.min(room - GAP)).draw()
        }
        Some(_) => whole,
        None => table(results, is_apart, false, 0).draw_narrow(),
    }
}

fn table<'a>(
    results: impl Iterator<Item = &'a RungResult> + Clone,
    is_apart: bool,
    has_names: bool,
    bar: usize,
) -> Table {
    let titles = ["rung", ">GiB/s", "95\u{a0}% interval", ">ns/page", ">ratio"];
    let mut titles = titles.to_vec();
    titles.extend(has_names.then_some("to"));
    titles.extend([">CPU/GiB", "data"]);
    titles.extend((bar > 0).then_some(""));
    let mut table = Table::new(titles);
    let rates = results.clone().filter_map(|r| r.gib_per_s);
    let fastest = rates.map(|e| e.median).fold(0.0, f64::max);
    let (mut series, mut above) = (None, None);
    for result in results {
        if let Some(new) = result.series.filter(|new| series != Some(*new)) {
            table.row([paint(&format!("{new}:"), HEAD)]);
            series = Some(new);
        }
        let baseline = result.baseline.as_deref().filter(|b| Some(*b) != above);
        let name = has_names.then(|| baseline.unwrap_or_default());
        let mut row = row(result, name, is_apart);
        if let Some(rate) = result.gib_per_s.filter(|_| bar > 0) {
            row.push(paint(&self::bar(rate.median / fastest, bar), BAR));
        }
        table.row(row);
        above = Some(&*result.id);
    }
    table
}

fn headline(run: &Run) -> String {
    let each = match run.method.until {
        Until::Seconds(s) => format!("{s:.2} s"),
        Until::Bytes(n) => fullbore_sys::size::Size(n).to_string(),
    };
    let travel = run
        .rungs
        .iter()
        .find_map(|r| Some((r.line_travel_ns.before?, r.state?)));
    let place = place(run.method.made.cpus, travel);
    format!(
        "{}\n{place}\n{} of {} rounds, {each} a trial",
        machine_line(&run.head.machine),
        run.method.made.rounds_done,
        run.method.made.rounds,
    )
}

fn footnote(run: &Run, width: usize) -> String {
    let memory = run.memory.map_or(String::new(), |m| {
        format!(
            " For scale: one CPU here reads memory at {} GiB/s and copies it at {} GiB/s.",
            number(m.read),
            number(m.copy)
        )
    });
    let text = format!(
        "Medians. ratio: to the rung that this one changes, which is the one above where none is named, round by round; \
         ≈ where it cannot be distinguished from 1. CPU/GiB: CPU seconds of both sides. data: whether the reader's CPU touches \
         it; where it does not, GiB/s is a rate of references, not of bytes touched.{memory}"
    );
    wrap(&text, width, [""; 2]).join("\n")
}

/// `baseline` is the name in the column of that, if there is one.
fn row(result: &RungResult, baseline: Option<&str>, is_apart: bool) -> Vec<String> {
    let name = result.id.to_string();
    let Some(rate) = result.gib_per_s else {
        let why = match result.refused {
            Some(_) => "refused: see below",
            None => "not measured yet",
        };
        return vec![name, "–".into(), why.into()];
    };
    let [low, high] = rate.ci95.map(number);
    let interval = match (result.samples.len(), is_apart) {
        (1, _) => "1 trial".to_owned(),
        (2, _) => "2 trials".to_owned(),
        (_, false) => format!("{low}–{high}"),
        (n, true) => format!("{low}–{high}, n={n}"),
    };
    let (mark, style) = mark(result.verdict);
    let ratio = result.ratio_to_baseline.map(|r| times(r.median));
    let mut cells = vec![
        name,
        number(rate.median),
        interval,
        number(result.ns_per_page.unwrap_or_default()),
        paint(&format!("{} {mark}", ratio.unwrap_or_default()), style),
    ];
    cells.extend(baseline.map(str::to_owned));
    cells.push(format!("{:.3}", result.cpu_s_per_gib.unwrap_or_default()));
    cells.push(if result.touches_data { "yes" } else { "no" }.into());
    cells
}

/// A bar in eighths of a character; anything above zero shows at least one.
fn bar(share: f64, width: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share.clamp(0.0, 1.0) * (width * 8) as f64).round() as usize;
    let eighths = eighths.max(usize::from(share > 0.0));
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_reach_from_a_sliver_to_the_full_width() {
        assert_eq!(bar(0.0, 24), "");
        assert_eq!(bar(0.0001, 24), "▏");
        assert_eq!(bar(1.0, 24).chars().count(), 24);
        assert_eq!(bar(0.5, 24), "█".repeat(12));
        assert_eq!(bar(f64::NAN, 24), "");
    }
}
