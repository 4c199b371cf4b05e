//! The question of 2005 answered: what pages in flight are worth.

use std::fmt::Write;

use anstyle::AnsiColor;
use fullbore_lab::stats::{self, Estimate, Verdict};
use fullbore_lab::sweep::{Cell, Sweep};
use fullbore_sys::size::Size;

use super::map::{HEAD, headline, warnings};
use crate::output::table::{INTERVAL_FROM, short};

/// Draws the table, with ANSI styles that the caller may strip.
pub fn draw(sweep: &Sweep) -> String {
    let mut out = format!("{}\n\n", headline(sweep));
    let _ = write!(out, "{HEAD}{:>5} {:>9} ", "pages", "capacity");
    for buffer in &sweep.buffers {
        let title = format!("{} writes: GiB/s", Size(*buffer));
        let _ = write!(out, " {title:>22} {:>11}", "× one page");
    }
    let _ = writeln!(out, "   round trip of 1 B: µs, p99{HEAD:#}");
    let page = sweep.head.machine.page_size.max(1) as u64;
    let mut refusals = Vec::new();
    for row in sweep.cells.chunk_by(|a, b| a.capacity == b.capacity) {
        let capacity = Size(row[0].capacity).to_string();
        let _ = write!(out, "{:>5} {capacity:>9} ", row[0].capacity / page);
        for cell in row {
            let first = sweep.cells.iter().find(|c| c.buffer == cell.buffer);
            out.push_str(&bandwidth(cell, first));
        }
        let latencies: Vec<_> = row.iter().filter_map(|c| c.latency_us).collect();
        let of =
            |which: fn(&_) -> f64| stats::median(&latencies.iter().map(which).collect::<Vec<_>>());
        if let Some((median, p99)) = of(|l| l.median).zip(of(|l| l.p99)) {
            let _ = write!(out, "   {:>20} {:>8}", short(median), short(p99));
        }
        out.push('\n');
        for why in row.iter().filter_map(|c| c.refused.as_ref()) {
            if !refusals.contains(why) {
                refusals.push(why.clone());
            }
        }
    }
    let _ = writeln!(
        out,
        "\nMedians with 95 % intervals; × one page: round by round, ≈ where it cannot be told from 1. Round trip: one byte\n\
         through a pipe of this capacity to a thread on the other CPU and back through a second one, blocking.\n\
         In 2005 (ppc970, lmbench, 64 KiB writes) 16 pages instead of one gained 30 to 90 %, and latency was in the noise."
    );
    for why in refusals {
        let _ = writeln!(out, "– {why}");
    }
    out + &warnings(sweep)
}

/// Rate with interval, and ratio to one page with the same buffer.
fn bandwidth(cell: &Cell, first: Option<&Cell>) -> String {
    let Some(rate) = cell.gib_per_s else {
        return format!(" {:>22} {:>11}", "–", "");
    };
    let [low, high] = rate.ci95;
    let rate = match cell.samples.len() {
        n if n < INTERVAL_FROM => short(rate.median),
        _ => format!("{} ({}–{})", short(rate.median), short(low), short(high)),
    };
    let ratio = first
        .filter(|first| first.capacity != cell.capacity)
        .and_then(|first| ratio(cell, first));
    let (text, style) = match ratio {
        None => (String::new(), None),
        Some((ratio, verdict)) => {
            let (mark, style) = match verdict {
                Verdict::Faster => ("▲", Some(AnsiColor::Green.on_default())),
                Verdict::Slower => ("▼", Some(AnsiColor::Red.on_default())),
                Verdict::NotDistinguishable => ("≈", None),
            };
            (format!("×{:.2} {mark}", ratio.median), style)
        }
    };
    let style = style.unwrap_or_default();
    format!(" {rate:>22} {style}{text:>11}{style:#}")
}

/// Round by round, within the state that both cells are told of.
fn ratio(cell: &Cell, first: &Cell) -> Option<(Estimate, Verdict)> {
    let mine = cell.samples.iter().filter(|s| Some(s.state) == cell.state);
    let pairs: Vec<_> = mine
        .filter_map(|s| {
            let same = |f: &&fullbore_lab::sweep::Sample| (f.round, f.state) == (s.round, s.state);
            let other = first.samples.iter().find(same)?;
            Some((s.gib_per_s, other.gib_per_s))
        })
        .collect();
    let ratio = stats::paired_ratio(&pairs)?;
    Some((ratio, stats::verdict(&ratio, pairs.len())))
}
