//! What pages in flight are worth: the question of 2005.

use std::fmt::Write;

use fullbore_lab::show::number::{number, times};
use fullbore_lab::stats;
use fullbore_lab::sweep::{Cell, Sweep};
use fullbore_sys::size::Size;

use super::map::headline;
use crate::output::conditions::INTERVAL_FROM;
use crate::output::style::{mark, paint, warnings};
use crate::output::table::Table;

/// Draws the table, with ANSI styles that the caller may strip.
pub fn draw(sweep: &Sweep) -> String {
    let mut out = format!("{}\n\n", headline(sweep));
    let mut titles = vec![">pages".to_owned(), ">capacity".into()];
    for buffer in &sweep.buffers {
        titles.push(format!(">{} writes: GiB/s", Size(*buffer)));
        titles.push(">× one page".into());
    }
    titles.extend([">round trip of 1 B: µs,".into(), ">p99".into()]);
    let mut table = Table::new(titles);
    let page = sweep.head.machine.page_size.max(1) as u64;
    let mut refusals = Vec::new();
    for row in sweep.cells.chunk_by(|a, b| a.capacity == b.capacity) {
        let capacity = row[0].capacity;
        let mut cells = vec![(capacity / page).to_string(), Size(capacity).to_string()];
        for cell in row {
            cells.extend(bandwidth(cell));
        }
        let latencies: Vec<_> = row.iter().filter_map(|c| c.latency_us).collect();
        let of =
            |which: fn(&_) -> f64| stats::median(&latencies.iter().map(which).collect::<Vec<_>>());
        let latency = of(|l| l.median).zip(of(|l| l.p99));
        cells.extend(latency.map_or_else(Default::default, |(m, p99)| [m, p99].map(number)));
        table.row(cells);
        for why in row.iter().filter_map(|c| c.refused.as_ref()) {
            if !refusals.contains(why) {
                refusals.push(why.clone());
            }
        }
    }
    out += &table.draw();
    let _ = writeln!(
        out,
        "\nMedians with 95 % intervals; × one page: round by round, ≈ where it cannot be distinguished from 1. Round trip: one byte\n\
         through a pipe of this capacity to a process on the other CPU and back through a second one, blocking.\n\
         In 2005 (ppc970, lmbench, 64 KiB writes) 16 pages instead of one gained 30 to 90 %, and latency was in the noise."
    );
    for why in refusals {
        let _ = writeln!(out, "– {why}");
    }
    out + &warnings(&sweep.warnings)
}

/// Rate with interval, and ratio to one page with the same buffer.
fn bandwidth(cell: &Cell) -> [String; 2] {
    let Some(rate) = cell.gib_per_s else {
        return ["–".into(), String::new()];
    };
    let [low, high] = rate.ci95.map(number);
    let rate = match cell.samples.len() {
        n if n < INTERVAL_FROM => number(rate.median),
        _ => format!("{} ({low}–{high})", number(rate.median)),
    };
    let ratio = cell.ratio_to_smallest.map_or_else(String::new, |ratio| {
        let (mark, style) = mark(cell.verdict);
        paint(&format!("{} {mark}", times(ratio.median)), style)
    });
    [rate, ratio]
}
