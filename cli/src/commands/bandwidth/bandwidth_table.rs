//! A bandwidth run as tables, for people.

use std::collections::BTreeSet;
use std::fmt::Write;

use anstyle::{AnsiColor, Style};
use fullbore_lab::bandwidth::column::Group;
use fullbore_lab::bandwidth::result::{ColumnResult, LatencyResult, Run};
use fullbore_lab::bandwidth::year_2005::Row2005;
use fullbore_lab::ladder::run::State;
use fullbore_sys::size::Size;

use super::sheet::{Row, Sheet};
use crate::output::table::{INTERVAL_FROM, distance, machine, short, told};

const PLAIN: Style = Style::new();
const TODAY: Style = Style::new().bold();
const SCALE: Style = Style::new().dimmed();
const WARNING: Style = AnsiColor::Yellow.on_default();

/// With fewer trials an interval is hardly one, so their number is shown.
const FEW: usize = 5;

/// Draws a run within so many characters a line, with ANSI styles that the caller may strip.
pub fn draw(run: &Run, width: usize) -> String {
    let mut out = headline(run) + "\n\n";
    let columns: Vec<_> = run.columns.iter().collect();
    let latencies: Vec<_> = run.latencies.iter().collect();
    tables(&mut out, &columns, &latencies, run.row_2005.as_ref(), width);
    out += &footnote(run);
    for state in apart(run) {
        let _ = writeln!(
            out,
            "\n{SCALE}Apart, never pooled with the above: {}{SCALE:#}",
            told(state)
        );
        let columns = run.columns.iter().flat_map(|c| &c.apart);
        let columns: Vec<_> = columns.filter(|c| c.state == Some(state)).collect();
        let latencies = run.latencies.iter().flat_map(|l| &l.apart);
        let latencies: Vec<_> = latencies.filter(|l| l.state == Some(state)).collect();
        tables(&mut out, &columns, &latencies, None, width);
    }
    warnings(&mut out, run);
    out
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
        let sheet = match columns.iter().all(|c| c.group == Group::Conduit) {
            true => conduits(columns),
            false => bandwidth(columns, row_2005),
        };
        *out += &sheet.draw(width);
    }
    if !latencies.is_empty() {
        *out += if columns.is_empty() { "" } else { "\n" };
        *out += &round_trips(latencies).draw(width);
    }
}

fn bandwidth(columns: &[&ColumnResult], row_2005: Option<&Row2005>) -> Sheet {
    let mut rows = Vec::new();
    if let Some(row) = row_2005 {
        let cells = |figures: &[f64]| {
            let figure = |c: &&ColumnResult| {
                let at = row.columns.iter().position(|id| *id == c.id)?;
                figures.get(at).copied().map(short)
            };
            let texts = columns.iter().map(|c| figure(c).unwrap_or_default());
            texts.collect()
        };
        for (label, figures) in [("2005, 1 page", &row.before), ("  16 pages", &row.after)] {
            rows.push(Row {
                label,
                style: SCALE,
                cells: cells(figures),
            });
        }
    }
    let columns: Vec<_> = columns.iter().copied().map(Some).collect();
    rows.extend(rates("today", &columns));
    Sheet {
        corner: "MB/s",
        titles: columns.iter().flatten().map(|c| c.title.clone()).collect(),
        rows,
    }
}

/// Rate, interval, and the rate in GiB/s. A column that is absent has empty cells, one without a figure dashes.
fn rates(label: &'static str, columns: &[Option<&ColumnResult>]) -> Vec<Row> {
    let row = |label, style, value: fn(&ColumnResult) -> Option<f64>| Row {
        label,
        style,
        cells: columns
            .iter()
            .map(|column| column.map_or(String::new(), |c| cell(value(c))))
            .collect(),
    };
    let mut rows = vec![
        row(label, TODAY, |c| Some(c.mb_per_s?.median)),
        row("  95 % from", PLAIN, |c| interval(c, 0)),
        row("  95 % to", PLAIN, |c| interval(c, 1)),
        row("  GiB/s", PLAIN, |c| Some(c.gib_per_s?.median)),
    ];
    if columns.iter().flatten().any(|c| c.samples.len() < FEW) {
        rows.push(row("  trials", PLAIN, |c| Some(c.samples.len() as f64)));
    }
    rows
}

/// One end of the interval; fewer trials than that have none worth the name.
fn interval(column: &ColumnResult, end: usize) -> Option<f64> {
    let few = column.samples.len() < INTERVAL_FROM;
    column.mb_per_s.filter(|_| !few).map(|e| e.ci95[end])
}

fn cell(value: Option<f64>) -> String {
    value.map_or("–".into(), |v| match v.fract() {
        0.0 => v.to_string(),
        _ => short(v),
    })
}

/// One column per purpose, its two ways one above the other.
fn conduits(columns: &[&ColumnResult]) -> Sheet {
    let mut titles: Vec<String> = Vec::new();
    for column in columns {
        if !titles.contains(&column.title) {
            titles.push(column.title.clone());
        }
    }
    let mut rows = Vec::new();
    for (label, suffix) in [("by reference", "-splice"), ("by copying", "-copy")] {
        let is_it = |c: &ColumnResult, title: &String| c.title == *title && c.id.ends_with(suffix);
        let of_way: Vec<_> = titles
            .iter()
            .map(|t| columns.iter().copied().find(|c| is_it(c, t)))
            .collect();
        if of_way.iter().all(Option::is_none) {
            continue;
        }
        rows.extend(rates(label, &of_way));
        let row = |label, text: fn(&ColumnResult) -> Option<String>| Row {
            label,
            style: PLAIN,
            cells: of_way
                .iter()
                .map(|c| c.and_then(text).unwrap_or_default())
                .collect(),
        };
        rows.push(row("  CPU s/GiB", |c| {
            Some(format!("{:.3}", c.cpu_s_per_gib?))
        }));
        rows.push(row("  copies", |c| Some(c.copies?.to_string())));
    }
    Sheet {
        corner: "MB/s",
        titles,
        rows,
    }
}

fn round_trips(latencies: &[&LatencyResult]) -> Sheet {
    let row = |label, style, value: fn(&LatencyResult) -> Option<f64>| Row {
        label,
        style,
        cells: latencies.iter().map(|l| cell(value(l))).collect(),
    };
    let mut rows = vec![
        row("median", TODAY, |l| Some(l.us?.median)),
        row("  95 % from", PLAIN, |l| {
            let few = l.samples.len() < INTERVAL_FROM;
            l.us.filter(|_| !few).map(|us| us.ci95[0])
        }),
        row("  95 % to", PLAIN, |l| {
            let few = l.samples.len() < INTERVAL_FROM;
            l.us.filter(|_| !few).map(|us| us.ci95[1])
        }),
        row("99th percentile", PLAIN, |l| Some(l.us?.p99)),
    ];
    if latencies.iter().any(|l| l.samples.len() < FEW) {
        rows.push(row("  trials", PLAIN, |l| Some(l.samples.len() as f64)));
    }
    Sheet {
        corner: "µs, 1 byte there and back",
        titles: latencies.iter().map(|l| l.title.clone()).collect(),
        rows,
    }
}

fn headline(run: &Run) -> String {
    let method = &run.method;
    let [sender, receiver] = method.cpus;
    let travel = |c: &ColumnResult| {
        let sample = c
            .samples
            .iter()
            .find(|s| s.line_travel_ns.before.is_some())?;
        Some((sample.line_travel_ns.before?, sample.state))
    };
    let distance = distance(run.columns.iter().find_map(travel));
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
        machine(&run.head.machine),
        method.rounds_done,
        method.rounds,
        method.seconds,
        Size(method.message_bytes),
        Size(method.memory_bytes),
    )
}

fn footnote(run: &Run) -> String {
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
fn apart(run: &Run) -> BTreeSet<State> {
    let rates = run
        .columns
        .iter()
        .flat_map(|c| &c.apart)
        .filter_map(|c| c.state);
    let trips = run.latencies.iter().flat_map(|l| &l.apart);
    rates.chain(trips.filter_map(|l| l.state)).collect()
}

fn warnings(out: &mut String, run: &Run) {
    let rates = run.columns.iter().flat_map(|c| {
        let why = c.refused.iter().map(|why| format!("refused: {why}"));
        let why = why.chain(c.warnings.iter().cloned());
        why.map(move |w| format!("{}: {w}", name(c)))
    });
    let trips = run.latencies.iter().flat_map(|l| {
        let why = l.refused.iter();
        why.map(move |w| format!("{}, round trip: refused: {w}", l.title))
    });
    let all: Vec<_> = run
        .warnings
        .iter()
        .cloned()
        .chain(rates)
        .chain(trips)
        .collect();
    if !all.is_empty() {
        out.push('\n');
    }
    for warning in all {
        let _ = writeln!(out, "{WARNING}warning:{WARNING:#} {warning}");
    }
}

/// Two conduits share a title.
fn name(column: &ColumnResult) -> &str {
    match column.copies {
        Some(_) => &column.id,
        None => &column.title,
    }
}
