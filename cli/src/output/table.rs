//! The ladder as a table with bars, for people.

use std::collections::BTreeMap;
use std::fmt::Write;

use anstyle::{AnsiColor, Style};
use fullbore_lab::ladder::run::{Run, RungResult, State};
use fullbore_lab::machine::Machine;
use fullbore_lab::machine::travel::LONGEST_TRAVEL_NS;
use fullbore_lab::stats::{Estimate, Verdict};
use fullbore_lab::worker::trial::Until;

const BAR_WIDTH: usize = 24;
const HEAD: Style = Style::new().bold();
const BAR: Style = AnsiColor::Cyan.on_default();
const BETTER: Style = AnsiColor::Green.on_default();
const WORSE: Style = AnsiColor::Red.on_default();
const APART: Style = Style::new().dimmed();
const WARNING: Style = AnsiColor::Yellow.on_default();

/// Draws a run, with ANSI styles that the caller may strip.
pub fn draw(run: &Run) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{}\n", headline(run));
    rows(&mut out, run.rungs.iter(), false);
    let _ = writeln!(out, "\n{}", footnote(run));
    for (state, apart) in apart(run) {
        let _ = writeln!(
            out,
            "\n{APART}Apart, never pooled with the above: {}{APART:#}",
            told(state)
        );
        rows(&mut out, apart.into_iter(), true);
    }
    if !run.warnings.is_empty() || run.rungs.iter().any(|r| !r.warnings.is_empty()) {
        out.push('\n');
    }
    let doubts = run.rungs.iter().flat_map(|r| {
        r.refused
            .iter()
            .chain(&r.warnings)
            .map(move |w| format!("{}: {w}", r.id))
    });
    for warning in run.warnings.iter().cloned().chain(doubts) {
        let _ = writeln!(out, "{WARNING}warning:{WARNING:#} {warning}");
    }
    out
}

/// Head and rows of one table; bars are scaled to its fastest.
fn rows<'a>(
    out: &mut String,
    results: impl Iterator<Item = &'a RungResult> + Clone,
    is_apart: bool,
) {
    let _ = writeln!(
        out,
        "{HEAD}{:<24}{:>7}  {:<16} {:>7} {:>9} {:>7}  data{HEAD:#}",
        "rung", "GiB/s", "95 % interval", "ns/page", "previous", "CPU/GiB"
    );
    let rates = results.clone().filter_map(|r| r.gib_per_s);
    let fastest = rates.map(|e| e.median).fold(0.0, f64::max);
    for result in results {
        row(out, result, fastest, is_apart);
    }
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

/// A state in words.
pub fn told(state: State) -> &'static str {
    match state {
        State::Near => "trials while the two CPUs were near each other",
        State::Far => "trials while the two CPUs were far from each other",
        State::Moved => "trials in which the two CPUs moved",
        State::OneCpu => "trials on one CPU",
        State::Unknown => "trials of which it is not known how far apart the CPUs were",
    }
}

/// CPU and kernel.
pub fn machine(machine: &Machine) -> String {
    format!(
        "{}, Linux {}",
        machine.cpu_model.as_deref().unwrap_or("unknown CPU"),
        machine.kernel.as_deref().unwrap_or("of unknown release")
    )
}

/// Where writer and reader ran, and how far apart that was.
pub fn place([writer, reader]: [usize; 2], travel: Option<(f64, State)>) -> String {
    if writer == reader {
        return format!("writer and reader share CPU {writer}");
    }
    format!(
        "writer on CPU {writer}, reader on CPU {reader}{}",
        distance(travel)
    )
}

/// Fewer trials than that have no interval worth the name.
pub const INTERVAL_FROM: usize = 3;

/// How far apart two CPUs were, where that is known.
pub fn distance(travel: Option<(f64, State)>) -> String {
    travel.map_or(String::new(), |(ns, state)| {
        if ns > LONGEST_TRAVEL_NS {
            return " (how far apart is not known: the CPUs were busy)".to_owned();
        }
        format!(" ({state}: a cache line travels {ns:.0} ns)")
    })
}

fn headline(run: &Run) -> String {
    let machine = &run.head.machine;
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
        self::machine(machine),
        run.method.rounds_done,
        run.method.rounds,
    )
}

fn footnote(run: &Run) -> String {
    let memory = run.memory.map_or(String::new(), |m| {
        format!(
            "\nFor scale: one CPU here reads memory at {} GiB/s and copies it at {} GiB/s.",
            short(m.read),
            short(m.copy)
        )
    });
    format!(
        "Medians. previous: ratio to the rung above, round by round; ≈ where it cannot be told from 1.\n\
         CPU/GiB: CPU seconds of both sides. data: whether the reader's CPU touches it; where it does not,\n\
         GiB/s is a rate of references, not of bytes touched.{memory}"
    )
}

fn row(out: &mut String, result: &RungResult, fastest: f64, is_apart: bool) {
    let name = &result.id;
    let Some(rate) = result.gib_per_s else {
        let why = match result.refused {
            Some(_) => "refused: see below",
            None => "not measured yet",
        };
        let _ = writeln!(out, "{name:<24}      –  {why}");
        return;
    };
    let interval = match (result.samples.len(), is_apart) {
        (1, _) => "1 trial".to_owned(),
        (2, _) => "2 trials".to_owned(),
        (_, false) => format!("{}–{}", short(rate.ci95[0]), short(rate.ci95[1])),
        (n, true) => format!("{}–{}, n={n}", short(rate.ci95[0]), short(rate.ci95[1])),
    };
    let (mark, ratio_style) = match result.verdict {
        Some(Verdict::Faster) => ("▲", BETTER),
        Some(Verdict::Slower) => ("▼", WORSE),
        Some(Verdict::NotDistinguishable) => ("≈", Style::new()),
        None => (" ", Style::new()),
    };
    let ratio = result
        .ratio_to_previous
        .map_or(String::new(), |r: Estimate| format!("×{:.2}", r.median));
    let _ = writeln!(
        out,
        "{name:<24}{:>7}  {interval:<16} {:>7} {ratio_style}{ratio:>7} {mark}{ratio_style:#} {:>7.3}  {:<4}  {BAR}{}{BAR:#}",
        short(rate.median),
        short(result.ns_per_page.unwrap_or_default()),
        result.cpu_s_per_gib.unwrap_or_default(),
        if result.touches_data { "yes" } else { "no" },
        bar(rate.median / fastest),
    );
}

/// Three significant digits, and never more than one decimal beyond 10.
pub fn short(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
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

    #[test]
    fn time_that_only_a_busy_cpu_explains_is_no_distance() {
        let near = distance(Some((31.0, State::Near)));
        assert_eq!(near, " (near: a cache line travels 31 ns)");
        let busy = distance(Some((34_997.0, State::Far)));
        assert!(busy.contains("busy") && !busy.contains("34997"), "{busy}");
    }

    #[test]
    fn numbers_keep_three_digits() {
        let texts = [0.1234, 3.71, 62.49, 812.4].map(short);
        assert_eq!(texts, ["0.12", "3.71", "62.5", "812"]);
    }
}
