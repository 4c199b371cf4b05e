//! A profile in the terminal: a stacked bar for each side, the time of each cause, and what to make of it.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use fullbore_lab::machine::state::LineTravel;
use fullbore_lab::profile::cause::Cause;
use fullbore_lab::profile::explain;
use fullbore_lab::profile::fold::{self, Callee};
use fullbore_lab::profile::profiled::{Profile, RungProfile, SideProfile};
use fullbore_lab::report::{Part, machine_line, parts};
use fullbore_lab::show::number::number;
use fullbore_lab::show::wrap::wrap;

use crate::output::style::{HEAD, paint, warnings};

const BAR: usize = 60;
const WIDTH: usize = 100;
/// Causes below this share are left out of the list.
const SMALL: f64 = 0.01;
/// More than this share that is not recognised is shown with its functions.
const UNKNOWN: f64 = 0.02;

/// Fills the bar, so that it can be read without colours, too.
fn letter(part: Part) -> char {
    match part {
        Part::Cpu(Cause::Copy) => 'C',
        Part::Cpu(Cause::Allocation) => 'A',
        Part::Cpu(Cause::Accounting) => 'M',
        Part::Cpu(Cause::PageLookup) => 'P',
        Part::Cpu(Cause::Ring) => 'R',
        Part::Cpu(Cause::Lock) => 'L',
        Part::Cpu(Cause::Wake) => 'W',
        Part::Cpu(Cause::Entry) => 'E',
        Part::Cpu(Cause::User) => 'U',
        Part::Cpu(Cause::Hidden) => 'K',
        Part::Cpu(Cause::Other) => 'O',
        Part::Runnable => '-',
        Part::Asleep => '.',
    }
}

fn style(part: Part) -> Style {
    let color = match part {
        Part::Cpu(Cause::Copy) => AnsiColor::Blue,
        Part::Cpu(Cause::Allocation | Cause::Accounting) => AnsiColor::Yellow,
        Part::Cpu(Cause::PageLookup) => AnsiColor::Magenta,
        Part::Cpu(Cause::Ring) => AnsiColor::Cyan,
        Part::Cpu(Cause::Lock) => AnsiColor::Red,
        Part::Cpu(Cause::Wake) => AnsiColor::BrightRed,
        Part::Cpu(Cause::User) => AnsiColor::Green,
        Part::Cpu(Cause::Entry | Cause::Hidden | Cause::Other) => AnsiColor::White,
        Part::Runnable | Part::Asleep => AnsiColor::BrightBlack,
    };
    color.on_default()
}

/// The whole profile.
pub fn profile(profile: &Profile) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{}\nwriter on CPU {}, reader on CPU {}; {} samples a second by {}; {} of {} rounds, {} s a trial\n",
        machine_line(&profile.head.machine),
        profile.method.cpus[0],
        profile.method.cpus[1],
        profile.method.frequency_hz,
        profile.method.event,
        profile.method.rounds_done,
        profile.method.rounds,
        profile.method.seconds,
    );
    for rung in &profile.rungs {
        self::rung(&mut out, rung);
    }
    let _ = writeln!(
        out,
        "ns: nanoseconds of wall time per page of 4096 bytes. Bars: one side's wall time, each letter a cause."
    );
    out + &warnings(&profile.warnings)
}

fn rung(out: &mut String, rung: &RungProfile) {
    if let Some(why) = &rung.refused {
        let _ = writeln!(out, "{}: unavailable here: {why}\n", rung.id);
        return;
    }
    let _ = writeln!(
        out,
        "{HEAD}{}{HEAD:#}  {} GiB/s{}, {} ns/page{}{}",
        rung.id,
        number(rung.gib_per_s),
        interval(rung.gib_per_s_ci95),
        number(rung.ns_per_page),
        interval(rung.ns_per_page_ci95),
        distance(&rung.line_travel_ns),
    );
    for side in &rung.sides {
        let _ = writeln!(out, "  {} {}", explain::name(side.side), bar(side));
        list(out, side);
        if let Some(unknown) = side
            .causes
            .iter()
            .find(|c| c.cause == Cause::Other && c.share > UNKNOWN)
        {
            let names: Vec<_> = unknown
                .top
                .iter()
                .map(|t| format!("{} {:.0} %", t.symbol, t.share * 100.0))
                .collect();
            let _ = writeln!(out, "         other: {}", names.join(", "));
        }
    }
    let sentence = format!("{}.", capital(&rung.sentence));
    for line in wrap(&sentence, WIDTH, ["  "; 2]) {
        let _ = writeln!(out, "{line}");
    }
    for warning in &rung.warnings {
        let _ = writeln!(out, "  warning: {warning}");
    }
    out.push('\n');
}

/// The 95 % interval, where there is more than one trial.
fn interval(ci95: Option<[f64; 2]>) -> String {
    ci95.map_or_else(String::new, |ends| {
        let [low, high] = ends.map(number);
        format!(" ({low}–{high})")
    })
}

fn distance(travel: &LineTravel) -> String {
    match (travel.before, travel.after) {
        (Some(_), Some(_)) => format!(", CPUs {}", travel.state()),
        _ => String::new(),
    }
}

/// A stacked bar: each part has as many letters as its share of the wall time.
fn bar(side: &SideProfile) -> String {
    let parts = parts(side);
    let all: f64 = parts.iter().map(|(_, s)| s).sum();
    let mut bar = String::new();
    let (mut until, mut drawn) = (0.0, 0);
    for (part, ns) in parts {
        until += ns / all.max(1e-9) * BAR as f64;
        let cells = (until.round() as usize).saturating_sub(drawn);
        drawn += cells;
        if cells > 0 {
            bar += &paint(&letter(part).to_string().repeat(cells), style(part));
        }
    }
    bar
}

/// The parts in ns per page, largest first.
fn list(out: &mut String, side: &SideProfile) {
    let mut parts = parts(side);
    let all = side.wall_s * 1e9 / side.pages;
    parts.retain(|(_, ns)| *ns >= SMALL * all);
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    // A blank inside an item is no place to break a line.
    let items = parts.into_iter().map(|(part, ns)| {
        let letter = paint(&letter(part).to_string(), style(part));
        format!("{letter} {} {} ns", part.title(), number(ns)).replace(' ', "\u{a0}")
    });
    let items = items.collect::<Vec<_>>().join(", ");
    for line in wrap(&items, WIDTH, ["         "; 2]) {
        let _ = writeln!(out, "{}", line.replace('\u{a0}', " "));
    }
}

fn capital(sentence: &str) -> String {
    let mut chars = sentence.chars();
    let first = chars.next().map(|c| c.to_uppercase().to_string());
    first.unwrap_or_default() + chars.as_str()
}

/// The article's view: what lies below one function. `None` when no sample is in it.
pub fn below(profile: &Profile, symbol: &str) -> Option<String> {
    let mut out = String::new();
    for rung in &profile.rungs {
        for side in &rung.sides {
            if let Some((share, tree)) = fold::below(&side.folded, symbol) {
                let _ = writeln!(
                    out,
                    "{}, {}: {:.1} % of its CPU time is in {symbol}; below it",
                    rung.id,
                    explain::name(side.side),
                    share * 100.0
                );
                callees(&mut out, &tree, 1);
                out.push('\n');
            }
        }
    }
    (!out.is_empty()).then_some(out)
}

/// Deeper trees say no more, and smaller shares are chance.
const DEPTH: usize = 12;

fn callees(out: &mut String, of: &Callee, depth: usize) {
    let width = 4 + 2 * depth;
    let own = of.share - of.callees.iter().map(|c| c.share).sum::<f64>();
    for callee in of.callees.iter().filter(|c| c.share >= SMALL) {
        let percent = callee.share * 100.0;
        let _ = writeln!(out, "{percent:>width$.1} %  {}", callee.symbol);
        if depth < DEPTH {
            callees(out, callee, depth + 1);
        }
    }
    if own >= SMALL && !of.callees.is_empty() {
        let _ = writeln!(out, "{:>width$.1} %  (itself)", own * 100.0);
    }
}
