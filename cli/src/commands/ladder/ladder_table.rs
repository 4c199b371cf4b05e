//! The ladder as a table with bars, for people.

use std::collections::BTreeMap;
use std::fmt::Write;

use fullbore_lab::ladder::run::{Run, RungResult};
use fullbore_lab::machine::state::State;
use fullbore_lab::report::{in_words, machine_line};
use fullbore_lab::show::number::{number, times};
use fullbore_lab::worker::timing::Until;

use crate::output::conditions::place;
use crate::output::style::{BAR, FAINT, HEAD, mark, paint, warnings};
use crate::output::table::Table;

const BAR_WIDTH: usize = 24;

/// Draws a run, with ANSI styles that the caller may strip.
pub fn draw(run: &Run) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{}\n", headline(run));
    out += &rows(run.rungs.iter().map(|r| &r.main), false);
    let _ = writeln!(out, "\n{}", footnote(run));
    for (state, apart) in apart(run) {
        let _ = writeln!(
            out,
            "\n{FAINT}Apart, never pooled with the above: trials {}{FAINT:#}",
            in_words(state)
        );
        out += &rows(apart.into_iter(), true);
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

/// One table; bars are scaled to its fastest.
fn rows<'a>(results: impl Iterator<Item = &'a RungResult> + Clone, is_apart: bool) -> String {
    let titles = [
        "rung",
        ">GiB/s",
        "95 % interval",
        ">ns/page",
        ">ratio",
        "to",
        ">CPU/GiB",
        "data",
        "",
    ];
    let mut table = Table::new(titles);
    let rates = results.clone().filter_map(|r| r.gib_per_s);
    let fastest = rates.map(|e| e.median).fold(0.0, f64::max);
    let (mut series, mut above) = (None, None);
    for result in results {
        if let Some(new) = result.series.filter(|new| series != Some(*new)) {
            table.row([""]);
            table.row([paint(&format!("{new}:"), HEAD)]);
            series = Some(new);
        }
        table.row(row(result, above, fastest, is_apart));
        above = Some(&*result.id);
    }
    table.draw()
}

/// What was measured in other states than the one that prevailed, by state.
fn apart(run: &Run) -> BTreeMap<State, Vec<&RungResult>> {
    let mut states = BTreeMap::<_, Vec<_>>::new();
    for result in run.rungs.iter().flat_map(|r| &r.apart) {
        if let Some(state) = result.state {
            states.entry(state).or_default().push(result);
        }
    }
    states
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
    let place = place(run.method.cpus, travel);
    format!(
        "{}\n{place}\n{} of {} rounds, {each} a trial",
        machine_line(&run.head.machine),
        run.method.rounds_done,
        run.method.rounds,
    )
}

fn footnote(run: &Run) -> String {
    let memory = run.memory.map_or(String::new(), |m| {
        format!(
            "\nFor scale: one CPU here reads memory at {} GiB/s and copies it at {} GiB/s.",
            number(m.read),
            number(m.copy)
        )
    });
    format!(
        "Medians. ratio: to the rung that this one changes, which is the one above where none is named, round by round;\n\
         ≈ where it cannot be distinguished from 1.\n\
         CPU/GiB: CPU seconds of both sides. data: whether the reader's CPU touches it; where it does not,\n\
         GiB/s is a rate of references, not of bytes touched.{memory}"
    )
}

fn row(result: &RungResult, above: Option<&str>, fastest: f64, is_apart: bool) -> Vec<String> {
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
    let baseline = result.baseline.as_deref().filter(|b| Some(*b) != above);
    vec![
        name,
        number(rate.median),
        interval,
        number(result.ns_per_page.unwrap_or_default()),
        paint(&format!("{} {mark}", ratio.unwrap_or_default()), style),
        baseline.unwrap_or_default().to_owned(),
        format!("{:.3}", result.cpu_s_per_gib.unwrap_or_default()),
        if result.touches_data { "yes" } else { "no" }.into(),
        paint(&bar(rate.median / fastest), BAR),
    ]
}

/// A bar in eighths of a character; anything above zero shows at least one.
fn bar(share: f64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share.clamp(0.0, 1.0) * (BAR_WIDTH * 8) as f64).round() as usize;
    let eighths = eighths.max(usize::from(share > 0.0));
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_reach_from_a_sliver_to_the_full_width() {
        assert_eq!(bar(0.0), "");
        assert_eq!(bar(0.0001), "▏");
        assert_eq!(bar(1.0).chars().count(), BAR_WIDTH);
        assert_eq!(bar(0.5), "█".repeat(BAR_WIDTH / 2));
        assert_eq!(bar(f64::NAN), "");
    }
}
