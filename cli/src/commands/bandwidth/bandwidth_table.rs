//! A bandwidth run as tables, for people.

use std::collections::BTreeSet;
use std::fmt::Write;

use anstyle::Style;
use fullbore_lab::bandwidth::column::Group;
use fullbore_lab::bandwidth::result::{BandwidthRun, ColumnResult, LatencyResult};
use fullbore_lab::bandwidth::year_2005::Row2005;
use fullbore_lab::machine::state::State;
use fullbore_lab::report::{in_words, machine_line};
use fullbore_lab::show::number::number;
use fullbore_sys::size::Size;

use crate::output::conditions::{INTERVAL_FROM, distance};
use crate::output::style::{FAINT, HEAD, PLAIN, paint, warnings};
use crate::output::table::Table;

/// With fewer trials an interval is hardly one, so their number is shown.
const FEW: usize = 5;

/// Draws a run within so many characters a line, with ANSI styles that the caller may strip.
pub fn draw(run: &BandwidthRun, width: usize) -> String {
    let mut out = headline(run) + "\n\n";
    let columns: Vec<_> = run.columns.iter().map(|c| &c.main).collect();
    let latencies: Vec<_> = run.latencies.iter().map(|l| &l.main).collect();
    tables(&mut out, &columns, &latencies, run.row_2005.as_ref(), width);
    out += &footnote(run);
    for state in apart(run) {
        let _ = writeln!(
            out,
            "\n{FAINT}Apart, never pooled with the above: trials {}{FAINT:#}",
            in_words(state)
        );
        let columns = run.columns.iter().flat_map(|c| &c.apart);
        let columns: Vec<_> = columns.filter(|c| c.state == Some(state)).collect();
        let latencies = run.latencies.iter().flat_map(|l| &l.apart);
        let latencies: Vec<_> = latencies.filter(|l| l.state == Some(state)).collect();
        tables(&mut out, &columns, &latencies, None, width);
    }
    match warnings(doubts(run)) {
        none if none.is_empty() => out,
        warnings => out + "\n" + &warnings,
    }
}

/// The tables of one state.
fn tables(
    out: &mut String,
    columns: &[&ColumnResult],
    latencies: &[&LatencyResult],
    row_2005: Option<&Row2005>,
    width: usize,
) {
    if !columns.is_empty() {
        let table = match columns.iter().all(|c| c.group == Group::Conduit) {
            true => conduits(columns),
            false => bandwidth(columns, row_2005),
        };
        *out += &table.draw_within(width);
    }
    if !latencies.is_empty() {
        *out += if columns.is_empty() { "" } else { "\n" };
        *out += &round_trips(latencies).draw_within(width);
    }
}

fn bandwidth(columns: &[&ColumnResult], row_2005: Option<&Row2005>) -> Table {
    let mut table = table("MB/s", columns.iter().map(|c| &c.title));
    if let Some(row) = row_2005 {
        for (label, figures) in [("2005, 1 page", &row.before), ("  16 pages", &row.after)] {
            let cells = columns.iter().map(|c| {
                let at = row.columns.iter().position(|id| *id == c.id)?;
                figures.get(at).copied().map(number)
            });
            line(
                &mut table,
                label,
                FAINT,
                cells.map(Option::unwrap_or_default),
            );
        }
    }
    let columns: Vec<_> = columns.iter().copied().map(Some).collect();
    rates(&mut table, "today", &columns);
    table
}

fn table<'a>(corner: &str, titles: impl Iterator<Item = &'a String>) -> Table {
    let titles = titles.map(|title| format!(">{title}"));
    Table::new([corner.to_owned()].into_iter().chain(titles))
}

fn line(table: &mut Table, label: &str, style: Style, cells: impl Iterator<Item = String>) {
    let cells = [label.to_owned()].into_iter().chain(cells);
    table.row(cells.map(|cell| paint(&cell, style)));
}

/// Rate, interval, and the rate in GiB/s. A column that is absent has empty cells, one without a figure dashes.
fn rates(table: &mut Table, label: &str, columns: &[Option<&ColumnResult>]) {
    let mut row = |label, style, value: fn(&ColumnResult) -> Option<f64>| {
        let cell = |c: &Option<&ColumnResult>| c.map_or(String::new(), |c| cell(value(c)));
        line(table, label, style, columns.iter().map(cell));
    };
    row(label, HEAD, |c| Some(c.mb_per_s?.median));
    row("  95 % from", PLAIN, |c| interval(c, 0));
    row("  95 % to", PLAIN, |c| interval(c, 1));
    row("  GiB/s", PLAIN, |c| Some(c.gib_per_s?.median));
    if columns.iter().flatten().any(|c| c.samples.len() < FEW) {
        row("  trials", PLAIN, |c| Some(c.samples.len() as f64));
    }
}

/// One end of the interval; fewer trials than that have none worth the name.
fn interval(column: &ColumnResult, end: usize) -> Option<f64> {
    let few = column.samples.len() < INTERVAL_FROM;
    column.mb_per_s.filter(|_| !few).map(|e| e.ci95[end])
}

fn cell(value: Option<f64>) -> String {
    value.map_or("–".into(), |v| match v.fract() {
        0.0 => v.to_string(),
        _ => number(v),
    })
}

/// One column per purpose, its two ways one above the other.
fn conduits(columns: &[&ColumnResult]) -> Table {
    let mut titles: Vec<String> = Vec::new();
    for column in columns {
        if !titles.contains(&column.title) {
            titles.push(column.title.clone());
        }
    }
    let mut table = table("MB/s", titles.iter());
    for (label, suffix) in [("by reference", "-splice"), ("by copying", "-copy")] {
        let is_it = |c: &ColumnResult, title: &String| c.title == *title && c.id.ends_with(suffix);
        let of_way: Vec<_> = titles
            .iter()
            .map(|t| columns.iter().copied().find(|c| is_it(c, t)))
            .collect();
        if of_way.iter().all(Option::is_none) {
            continue;
        }
        rates(&mut table, label, &of_way);
        let mut row = |label, text: fn(&ColumnResult) -> Option<String>| {
            let cells = of_way.iter().map(|c| c.and_then(text).unwrap_or_default());
            line(&mut table, label, PLAIN, cells);
        };
        row("  CPU s/GiB", |c| Some(format!("{:.3}", c.cpu_s_per_gib?)));
        row("  copies", |c| Some(c.copies?.to_string()));
    }
    table
}

fn round_trips(latencies: &[&LatencyResult]) -> Table {
    let titles = latencies.iter().map(|l| &l.title);
    let mut table = table("µs, 1 byte there and back", titles);
    let mut row = |label, style, value: fn(&LatencyResult) -> Option<f64>| {
        let cells = latencies.iter().map(|l| cell(value(l)));
        line(&mut table, label, style, cells);
    };
    row("median", HEAD, |l| Some(l.us?.median));
    row("  95 % from", PLAIN, |l| Some(interval_us(l)?[0]));
    row("  95 % to", PLAIN, |l| Some(interval_us(l)?[1]));
    row("99th percentile", PLAIN, |l| Some(l.us?.p99));
    if latencies.iter().any(|l| l.samples.len() < FEW) {
        row("  trials", PLAIN, |l| Some(l.samples.len() as f64));
    }
    table
}

fn interval_us(latency: &LatencyResult) -> Option<[f64; 2]> {
    let few = latency.samples.len() < INTERVAL_FROM;
    latency.us.filter(|_| !few).map(|us| us.ci95)
}

fn headline(run: &BandwidthRun) -> String {
    let method = &run.method;
    let [sender, receiver] = method.made.cpus;
    let travel = |c: &ColumnResult| {
        let sample = c
            .samples
            .iter()
            .find(|s| s.line_travel_ns.before.is_some())?;
        Some((sample.line_travel_ns.before?, sample.state))
    };
    let distance = distance(run.columns.iter().find_map(|c| travel(c)));
    let place = match sender == receiver {
        true => format!("everything on CPU {sender}"),
        false => format!(
            "sender, and what works alone, on CPU {sender}, receiver on CPU {receiver}{distance}"
        ),
    };
    let files = method
        .file_system
        .as_ref()
        .map_or(String::new(), |fs| format!(", files on {fs}, cached"));
    format!(
        "{}\n{place}\n{} of {} rounds, {:.2} s a trial; messages of {}, buffers of {}{files}",
        machine_line(&run.head.machine),
        method.made.rounds_done,
        method.made.rounds,
        method.seconds,
        Size(method.message_bytes),
        Size(method.memory_bytes),
    )
}

fn footnote(run: &BandwidthRun) -> String {
    let mut text = String::from("\nMedians; MB is 10⁶ bytes, GiB 2³⁰. ");
    match &run.row_2005 {
        Some(row) => {
            let _ = write!(
                text,
                "2005: lmbench on a {},\nbefore and after its pipe became a ring; medians of four runs each, from\n{}",
                row.machine,
                row.source.rsplit(", ").next().unwrap_or_default()
            );
        }
        None => {
            text += "copies: how often a byte is copied between file and end.\n\
                     tee: rates of the input; the outputs go to /dev/null unread, so by reference they are rates of references.";
        }
    }
    text + "\n"
}

/// States in which something was measured that is not shown first.
fn apart(run: &BandwidthRun) -> BTreeSet<State> {
    let rates = run
        .columns
        .iter()
        .flat_map(|c| &c.apart)
        .filter_map(|c| c.state);
    let trips = run.latencies.iter().flat_map(|l| &l.apart);
    rates.chain(trips.filter_map(|l| l.state)).collect()
}

fn doubts(run: &BandwidthRun) -> impl Iterator<Item = String> {
    let rates = run.columns.iter().flat_map(|c| {
        let why = c.refused.iter().map(|why| format!("refused: {why}"));
        let why = why.chain(c.warnings.iter().cloned());
        why.map(move |w| format!("{}: {w}", name(c)))
    });
    let trips = run.latencies.iter().flat_map(|l| {
        let why = l.refused.iter();
        why.map(move |w| format!("{}, round trip: refused: {w}", l.title))
    });
    run.warnings.iter().cloned().chain(rates).chain(trips)
}

/// Two conduits share a title.
fn name(column: &ColumnResult) -> &str {
    match column.copies {
        Some(_) => &column.id,
        None => &column.title,
    }
}
